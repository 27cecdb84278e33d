package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"zino/pkg/visible"
	"zino/pkg/wire"
	"zino/proto"
)

// jsonLines shows turns to a program: the packets of the wire, a line each, and
// nothing else on standard output.
type jsonLines struct {
	w        io.Writer
	terminal bool
	begun    bool   // the header is out
	agents   string // the last notice of which AGENTS.md were loaded
}

func (j *jsonLines) begin(session string) error {
	j.begun = true
	return j.packet("header", proto.EventsHeader{Schema: "zino.events", Version: proto.EventsVersion, SessionID: session})
}

func (j *jsonLines) turn() {}

// event passes a packet on as it came. A notice of the AGENTS.md that were loaded
// comes with every turn: it is passed on if it changed.
func (j *jsonLines) event(typ string, payload []byte) error {
	if !wire.Valid(payload) {
		return errors.New("the daemon sent something that is not an event")
	}
	if typ == proto.TypeNotice {
		var notice proto.Notice
		if wire.DecodeReply(payload, &notice) == nil && notice.Kind == "agents" {
			if notice.Text == j.agents {
				return nil
			}
			j.agents = notice.Text
		}
	}
	return j.line(payload)
}

// end writes the terminal packet of a turn. What ended it on our side is an
// error as well.
func (j *jsonLines) end(done turnEnd, err error) (told bool, writing error) {
	switch {
	case err == nil:
		return true, j.packet("done", done)
	case errors.Is(err, errInterrupted):
		ended := proto.Error{Message: "Interrupted.", Code: proto.CodeCanceled, Kind: "internal"}
		return true, errors.Join(j.packet(proto.TypeInterrupted, proto.Interrupted{}), j.packet("error", ended))
	}
	return true, j.packet("error", packetOf(err))
}

// packetOf is the packet for an error, wherever it arose.
func packetOf(err error) proto.Error {
	packet := proto.Error{Code: proto.CodeInternal}
	if e, ok := errors.AsType[*proto.Error](err); ok {
		packet = *e
	}
	packet.Message = messageOf(err)
	packet.Kind = kindOf(err)
	return packet
}

func (j *jsonLines) packet(typ string, v any) error {
	text, err := wire.AppendObject(nil, typ, v)
	if err != nil {
		return err
	}
	return j.line(text)
}

// line writes JSON in one line. On a terminal, what it would act on is escaped,
// which changes nothing of what the JSON says: it can only stand in a string.
func (j *jsonLines) line(text []byte) error {
	if bytes.ContainsAny(text, "\n\r") {
		var line bytes.Buffer
		if err := json.Compact(&line, text); err != nil {
			return fmt.Errorf("the daemon sent something that is not JSON: %w", err)
		}
		text = line.Bytes()
	}
	if j.terminal {
		text = []byte(visible.JSON(string(text)))
	}
	_, err := j.w.Write(append(text[:len(text):len(text)], '\n'))
	return err
}
