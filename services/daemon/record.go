package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// record converts the packets of a turn into events of the session log. It collects
// events and stores them with one append. begin and stop of a nil record do nothing.
type record struct {
	session *session
	log     *slog.Logger

	events  proto.Raw     // pending events: a JSON list without its closing bracket
	final   bool          // events contains the text of the inference
	err     error         // of an event that could not be encoded
	running []*callOutput // the running calls, in the order of their start
}

// begin stores the user's message, and creates the session for the first one.
func (r *record) begin(root, message string) error {
	if r == nil {
		return nil
	}
	header := wire.AppendString([]byte(`{"ts":`), timestamp())
	if root != "" {
		header = wire.AppendString(append(header, `,"root":`...), root)
	}
	r.event(proto.TypeMessage, proto.LogMessage{Role: proto.RoleUser, Text: message, TS: timestamp()})
	return r.commit(append(header, '}'))
}

// add adds the event of a packet, if packets of this type are stored.
func (r *record) add(typ string, payload []byte) error {
	switch typ {
	case proto.TypeAssistantFinal:
		var f proto.AssistantFinal
		if err := decodePacket(payload, &f); err != nil {
			return err
		}
		r.final = true
		r.message(f.Text, f.State, false)
	case proto.TypeToolRequested:
		var q proto.ToolRequested
		if err := decodePacket(payload, &q); err != nil {
			return err
		}
		r.event(proto.TypeToolUse, proto.LogToolUse{ID: q.ID, Name: q.Name, Input: orObject(q.Input), State: q.State, TS: timestamp()})
	case proto.TypeToolFinished:
		var f proto.ToolFinished
		if err := decodePacket(payload, &f); err != nil {
			return err
		}
		r.running = slices.DeleteFunc(r.running, func(c *callOutput) bool { return c.id == f.ID })
		r.event(proto.TypeToolResult, proto.LogToolResult{
			ToolUseID: f.ID, Output: orObject(f.Result), OK: f.OK, DurationMS: f.DurationMS, TS: timestamp(),
		})
	case proto.TypeUsage: // the packet is the event: unknown keys are kept
		payload = bytes.TrimRight(payload, " \t\r\n")
		r.events = append(r.next(), payload[:len(payload)-1]...)
		r.events = append(r.events, `,"ts":"`+timestamp()+`"}`...)
	}
	return nil
}

// follow collects the output of the running calls.
func (r *record) follow(typ string, payload []byte) error {
	if typ != proto.TypeToolStarted && typ != proto.TypeToolOutput {
		return nil
	}
	var o proto.ToolOutput // tool_started has its id
	if err := decodePacket(payload, &o); err != nil {
		return err
	}
	if typ == proto.TypeToolStarted {
		r.running = append(r.running, &callOutput{id: o.ID, started: time.Now()})
		return nil
	}
	for _, c := range r.running {
		if c.id == o.ID {
			c.add(o.Text, o.LeftOut)
		}
	}
	return nil
}

// commit stores the pending events, and drops them if that fails. header is for a new
// session.
func (r *record) commit(header proto.Raw) error {
	list, err := r.events, r.err
	r.events, r.final, r.err = nil, false, nil
	if err != nil || list == nil {
		return err
	}
	return r.session.append(append(list, ']'), header)
}

// stop stores the end of a failed or interrupted turn: the pending events, the output
// of the running calls, the text so far, and the error. mem adds a result for a call
// without output when the session is locked again.
func (r *record) stop(text []byte, e *proto.Error) (stored bool) {
	if r == nil || r.session.failed() {
		return false
	}
	r.end(text, e)
	err := r.commit(nil)
	if err != nil {
		r.log.Error("the end of a turn could not be stored", "session", r.session.id, "error", err, "trace", rpc.Trace(r.session.ctx))
	}
	return err == nil
}

// end adds the events of stop.
func (r *record) end(text []byte, e *proto.Error) {
	for _, c := range r.running {
		if len(c.head) > 0 {
			r.event(proto.TypeToolResult, proto.LogToolResult{
				ToolUseID: c.id, Output: c.envelope(), OK: true, DurationMS: time.Since(c.started).Milliseconds(), TS: timestamp(),
			})
		}
	}
	if !r.final && len(bytes.TrimSpace(text)) > 0 {
		r.message(string(text), nil, true)
	}
	if interrupted(e) {
		r.event(proto.TypeInterrupted, proto.LogInterrupted{Role: proto.RoleSystem, Text: "Interrupted", TS: timestamp()})
		return
	}
	r.event(proto.TypeError, proto.LogError{Message: e.Message, Kind: e.Kind, Code: e.Code, TS: timestamp()})
}

// message adds a text of the assistant.
func (r *record) message(text string, state proto.Raw, partial bool) {
	r.event(proto.TypeMessage, proto.LogMessage{Role: proto.RoleAssistant, Text: text, State: state, Partial: partial, TS: timestamp()})
}

// event adds an event to the list.
func (r *record) event(typ string, v any) {
	list, err := wire.AppendObject(r.next(), typ, v)
	if err != nil {
		r.err = err
	}
	r.events = list
}

// next returns the pending events, ready to append another one.
func (r *record) next() proto.Raw {
	if r.events == nil {
		return proto.Raw("[")
	}
	return append(r.events, ',')
}

// timestamp returns the present time in the format of events.
func timestamp() string { return time.Now().UTC().Format(time.RFC3339) }

// decodePacket decodes a packet of agr.
func decodePacket(payload []byte, v any) error {
	if err := wire.DecodeReply(payload, v); err != nil {
		return fmt.Errorf("agr sent a malformed packet: %w", err)
	}
	return nil
}

// orObject returns raw, or an empty object if raw is empty.
func orObject(raw proto.Raw) proto.Raw {
	if len(raw) == 0 {
		return proto.Raw("{}")
	}
	return raw
}

// outputMax limits the bytes that are kept of the start of a running command's output.
// Up to twice as many are kept of its end.
const outputMax = 32 << 10

// callOutput is the output of a running call. It becomes the result of the call if the
// turn ends first.
type callOutput struct {
	id         string
	started    time.Time
	head, tail []byte
	omitted    int64 // bytes dropped between head and tail
}

// add appends text to the output; leftOut bytes are missing before it.
func (c *callOutput) add(text string, leftOut int64) {
	if leftOut > 0 {
		text = omittedLine(leftOut) + text
	}
	n := min(outputMax-len(c.head), len(text))
	c.head = append(c.head, text[:n]...)
	c.tail = append(c.tail, text[n:]...)
	if drop := len(c.tail) - outputMax; drop > outputMax {
		c.omitted += int64(drop)
		c.tail = append(c.tail[:0], c.tail[drop:]...)
	}
}

func (c *callOutput) text() string {
	gap := ""
	if c.omitted > 0 {
		gap = omittedLine(c.omitted)
	}
	return strings.ToValidUTF8(string(c.head)+gap+string(c.tail), "")
}

func omittedLine(n int64) string { return fmt.Sprintf("\n[%d bytes left out]\n", n) }

// envelope returns the result of an interrupted command. agr sends standard
// output and standard error as one stream.
func (c *callOutput) envelope() proto.Raw {
	b := wire.AppendString([]byte(`{"ok":true,"data":{"stdout":`), c.text())
	return append(b, `,"stderr":"","exit_code":-1,"timed_out":false,"interrupted":true}}`...)
}
