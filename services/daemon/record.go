package daemon

import (
	"bytes"
	"fmt"
	"slices"

	"zino/pkg/hook"
	"zino/pkg/wire"
	"zino/proto"
)

// record converts the packets of agr into events of the session log. They are collected
// for one append.
type record struct {
	turnID  string
	command bool      // of run_command: no events but turn events, and the kept message
	pending proto.Raw // events: a JSON list without its closing bracket
	final   bool      // pending contains the text of the inference
	asked   bool      // pending contains a part of an inference
	err     error     // of an event that could not be encoded
	calls   []openCall
	stopped bool // a command was interrupted since the last checkpoint

	answer     string    // the text of the last inference, if it called no tool
	structured proto.Raw // the value in it, with output_schema
}

// openCall is a call without a stored result.
type openCall struct {
	id, name string
	subject  string // see callOutput
	step     int
	stored   bool         // its request
	settled  bool         // its result is pending
	usage    *proto.Usage // of a sub-agent that was canceled
}

// add adds the event of a packet of a step, if packets of this type are stored.
func (r *record) add(typ string, payload []byte, step int) error {
	r.asked = r.asked || typ != proto.TypeToolFinished
	switch typ {
	case proto.TypeAssistantFinal:
		var f proto.AssistantFinal
		if err := decodePacket(payload, &f); err != nil {
			return err
		}
		r.answer = f.Text
		r.message(f.Text, f.State, false, step)
	case proto.TypeToolRequested:
		var q proto.ToolRequested
		if err := decodePacket(payload, &q); err != nil {
			return err
		}
		r.answer = ""
		r.calls = append(r.calls, openCall{id: q.ID, name: q.Name, subject: subject(proto.OpenCall{Input: q.Input, RunInput: q.RunInput}.Arguments()), step: step})
		r.event(proto.TypeToolUse, proto.LogToolUse{
			ID: q.ID, Name: q.Name, Input: orObject(q.Input), RunInput: q.RunInput, Hook: q.Hook, State: q.State, Turn: r.turnID, Step: step, TS: timestamp(),
		})
	case proto.TypeToolFinished:
		var f proto.ToolFinished
		if err := decodePacket(payload, &f); err != nil {
			return err
		}
		if call, ok := r.settle(f.ID); ok {
			step = call.step
		}
		r.stopped = r.stopped || commandResult(f.Result).wasInterrupted()
		r.event(proto.TypeToolResult, proto.LogToolResult{
			ToolUseID: f.ID, Output: orObject(f.Result), Attachments: f.Attachments, OK: f.OK, DurationMS: f.DurationMS,
			Recovered: f.Recovered, Synthetic: f.Synthetic, Name: f.Name, Diff: f.Diff, Confinement: f.Confinement, Usage: f.Usage, Turn: r.turnID, Step: step, TS: timestamp(),
		})
	case proto.TypeUsage, proto.TypeTodo, proto.TypeTools: // the packet is the event: unknown keys are kept
		payload = bytes.TrimRight(payload, " \t\r\n")
		r.pending = append(r.next(), payload[:len(payload)-1]...)
		if r.turnID != "" {
			r.pending = wire.AppendString(append(r.pending, `,"turn":`...), r.turnID)
			r.pending = fmt.Appendf(r.pending, `,"step":%d`, step)
		}
		r.pending = append(r.pending, `,"ts":"`+timestamp()+`"}`...)
	}
	return nil
}

// settle marks the call of a result.
func (r *record) settle(id string) (openCall, bool) {
	for i := range r.calls {
		if call := &r.calls[i]; call.id == id && !call.settled {
			call.settled = true
			return *call, true
		}
	}
	return openCall{}, false
}

// kept updates the calls when the events that were taken are stored.
func (r *record) kept() {
	r.calls = slices.DeleteFunc(r.calls, func(c openCall) bool { return c.settled })
	for i := range r.calls {
		r.calls[i].stored = true
	}
}

// dropped updates the calls when the events that were taken are lost.
func (r *record) dropped() {
	r.calls = slices.DeleteFunc(r.calls, func(c openCall) bool { return !c.stored })
	for i := range r.calls {
		r.calls[i].settled = false
	}
}

// isOpen reports whether a call has no result yet.
func (r *record) isOpen(id string) bool {
	return slices.ContainsFunc(r.calls, func(c openCall) bool { return c.id == id && !c.settled })
}

// take returns the pending events as a list, nil if there are none.
func (r *record) take() (proto.Raw, error) {
	list, err := r.pending, r.err
	r.pending, r.final, r.asked, r.err = nil, false, false, nil
	if err != nil || list == nil {
		return nil, err
	}
	return append(list, ']'), nil
}

// interruptedResult is the result of a call of which it is not known how far it went.
const interruptedResult = `{"ok":false,"error":{"code":"interrupted","message":"The call was interrupted before its result was recorded. It may have run partly or completely: check before you repeat it."}}`

// interrupt adds the result of a call that the end of the turn interrupts.
func (r *record) interrupt(call openCall, c *callOutput) {
	result := proto.LogToolResult{ToolUseID: call.id, Output: proto.Raw(interruptedResult), Synthetic: true, Name: call.name, Usage: call.usage, Turn: r.turnID, Step: call.step, TS: timestamp()}
	if c != nil && len(c.tail) > 0 {
		result.Output, result.OK, result.Synthetic, result.DurationMS = c.envelope(), true, false, c.duration()
	}
	r.event(proto.TypeToolResult, result)
}

// fail adds the events of the end of a turn that was interrupted or failed.
func (r *record) fail(sessionID string, e *proto.Error, reason string) {
	end := proto.LogTurn{Turn: r.turnID, SessionID: sessionID, State: proto.TurnError, Reason: reason, TS: timestamp()}
	if interrupted(e) {
		end.State = proto.TurnInterrupted
	}
	switch {
	case r.command: // interrupted would say that the answer before was cut off
	case interrupted(e):
		r.event(proto.TypeInterrupted, proto.LogInterrupted{Role: proto.RoleSystem, Text: "Interrupted", Turn: r.turnID, TS: timestamp()})
	default:
		r.event(proto.TypeError, proto.LogError{Message: e.Message, Kind: e.Kind, Code: e.Code, Service: e.Service, Status: e.Status, Details: e.Details, Turn: r.turnID, TS: timestamp()})
	}
	r.event(proto.TypeTurn, end)
}

// timeouts adds the events of hooks that were stopped for their time.
func (r *record) timeouts(list []proto.HookRan) {
	for _, ran := range list {
		if ran.TimedOut {
			r.event(proto.TypeHook, proto.LogHook{Turn: r.turnID, Hook: ran.Hook, SHA256: hook.Sum(ran.Command), TS: timestamp()})
		}
	}
}

// withdraw adds the events of messages and of queued turns that go back to the user.
func (r *record) withdraw(sessionID string, says []proto.LogSay, queued []*turn) {
	for _, say := range says {
		r.event(proto.TypeSay, proto.LogSay{Say: say.Say, Turn: say.Turn, Withdrawn: true, TS: timestamp()})
	}
	for _, q := range queued {
		r.event(proto.TypeTurn, proto.LogTurn{Turn: q.id, SessionID: sessionID, State: proto.TurnInterrupted, Reason: reasonWithdrawn, TS: timestamp()})
	}
}

// message adds a text of the assistant.
func (r *record) message(text string, state proto.Raw, partial bool, step int) {
	r.final = r.final || !partial
	r.event(proto.TypeMessage, proto.LogMessage{Role: proto.RoleAssistant, Text: text, State: state, Partial: partial, Turn: r.turnID, Step: step, TS: timestamp()})
}

// event adds an event to the list.
func (r *record) event(typ string, v any) {
	list, err := wire.AppendObject(r.next(), typ, v)
	if err != nil {
		r.err = err
	}
	r.pending = list
}

// next returns the pending events, ready to append another one.
func (r *record) next() proto.Raw {
	if r.pending == nil {
		return proto.Raw("[")
	}
	return append(r.pending, ',')
}

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
