package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/cli/term"
)

// JSONTurns renders turns for a program: the packets of the wire, one a line, and
// nothing else on standard output.
type JSONTurns struct {
	w        io.Writer
	terminal bool
	begun    bool   // the header was written
	agents   string // the last notice about AGENTS.md
}

// NewJSONTurns returns a renderer that writes to f.
func NewJSONTurns(f *os.File) *JSONTurns { return &JSONTurns{w: f, terminal: term.IsTerminal(f)} }

// Begun reports whether the header was written.
func (j *JSONTurns) Begun() bool { return j != nil && j.begun }

// Begin writes the header.
func (j *JSONTurns) Begin(session string) error {
	j.begun = true
	return j.Packet("header", proto.EventsHeader{Schema: "zino.events", Version: proto.EventsVersion, SessionID: session})
}

// Turn does nothing: a turn has no packet of its own.
func (j *JSONTurns) Turn() {}

// Event passes a packet on unchanged. The notice about AGENTS.md, which comes with
// every turn, is passed on when it changed.
func (j *JSONTurns) Event(typ string, payload []byte) error {
	if !wire.Valid(payload) {
		return errors.New("the daemon sent something that is not an event")
	}
	if typ == proto.TypeNotice {
		var notice proto.Notice
		if wire.DecodeReply(payload, &notice) == nil && notice.Kind == proto.NoticeAgents {
			if notice.Text == j.agents {
				return nil
			}
			j.agents = notice.Text
		}
	}
	return writeJSON(j.w, payload, j.terminal)
}

// Status does nothing.
func (j *JSONTurns) Status(string) {}

// Ask does nothing: a program gets the packet of a request.
func (j *JSONTurns) Ask(string, string) {}

// Typed does nothing.
func (j *JSONTurns) Typed() {}

// End writes the terminal packet of a turn. A turn that goes on has none.
func (j *JSONTurns) End(done Done, err error) (reported bool, writing error) {
	switch {
	case errors.Is(err, ErrDetached):
		return true, nil
	case err == nil:
		return true, j.Packet("done", done)
	case errors.Is(err, ErrInterrupted):
		ended := proto.Error{Message: "Interrupted.", Code: proto.CodeCanceled, Kind: "internal"}
		return true, errors.Join(j.Packet(proto.TypeInterrupted, proto.Interrupted{}), j.Packet("error", ended))
	}
	return true, j.Packet("error", ErrorPacket(err))
}

// Packet writes v as a packet of a type.
func (j *JSONTurns) Packet(typ string, v any) error {
	packet, err := wire.AppendObject(nil, typ, v)
	if err != nil {
		return err
	}
	return writeJSON(j.w, packet, j.terminal)
}

// JSON prints a struct as a line of JSON.
func JSON(w io.Writer, v any) error {
	line, err := wire.AppendObject(nil, "", v)
	if err != nil {
		return err
	}
	return writeJSON(w, line, true)
}

// JSONList prints structs, each as a line of JSON.
func JSONList[T any](w io.Writer, list []T) error {
	for _, v := range list {
		if err := JSON(w, v); err != nil {
			return err
		}
	}
	return nil
}

// JSONItems prints the elements of a JSON list, one a line.
func JSONItems(w io.Writer, list proto.Raw) error {
	for element := range wire.Items(list) {
		if err := writeJSON(w, element, true); err != nil {
			return err
		}
	}
	return nil
}

// writeJSON writes JSON on one line. With escape, it writes control characters as \u
// escapes, which does not change the value: they can only be in strings.
func writeJSON(w io.Writer, value []byte, escape bool) error {
	if bytes.ContainsAny(value, "\n\r") {
		var line bytes.Buffer
		if err := json.Compact(&line, value); err != nil {
			return fmt.Errorf("the answer is not JSON: %w", err)
		}
		value = line.Bytes()
	}
	if escape {
		value = []byte(text.VisibleJSON(string(value)))
	}
	_, err := w.Write(append(value[:len(value):len(value)], '\n'))
	return err
}
