package daemon

import (
	"bytes"
	"fmt"

	"zino/pkg/wire"
	"zino/proto"
)

// Events of a session's file, each with its type in front. What an agent's
// packet holds as JSON stands in them as it came.
type (
	spoken struct {
		Role    string    `json:"role"`
		Text    string    `json:"text"`
		State   proto.Raw `json:"reasoning_state,omitzero"`
		Partial bool      `json:"partial,omitzero"`
	}
	toolUse struct {
		ID    string    `json:"id"`
		Name  string    `json:"name"`
		Input proto.Raw `json:"input"`
		State proto.Raw `json:"reasoning_state,omitzero"`
	}
	toolResult struct {
		UseID      string    `json:"tool_use_id"`
		Output     proto.Raw `json:"output"`
		OK         bool      `json:"ok"`
		DurationMS int64     `json:"duration_ms"`
	}
	failure struct {
		Message string     `json:"message"`
		Kind    string     `json:"kind,omitzero"`
		Code    proto.Code `json:"code"`
	}
)

const interruptedEvent = `{"type":"interrupted","role":"system","text":"Interrupted"}`

// appendEvent adds an event to an unfinished list, which may be nil.
func appendEvent(list proto.Raw, typ string, v any) (proto.Raw, error) {
	return wire.AppendObject(open(list), typ, v)
}

// kept is what must last of an agent's packet, as an unfinished list of events;
// nil if nothing must.
func kept(typ string, payload []byte) (proto.Raw, error) {
	switch typ {
	case proto.TypeAssistantFinal:
		var f proto.AssistantFinal
		err := unpack(payload, &f)
		return orEvent(err, "message", spoken{Role: "assistant", Text: f.Text, State: f.State})
	case proto.TypeToolRequested:
		var q proto.ToolRequested
		err := unpack(payload, &q)
		return orEvent(err, "tool_use", toolUse{q.ID, q.Name, orObject(q.Input), q.State})
	case proto.TypeToolFinished:
		var f proto.ToolFinished
		err := unpack(payload, &f)
		return orEvent(err, "tool_result", toolResult{f.ID, orObject(f.Result), succeeded(f.Result), f.DurationMS})
	case proto.TypeUsage: // the packet is the event
		return append(open(nil), payload...), nil
	}
	return nil, nil
}

// ended adds to an unfinished list of events how a turn ended before its time,
// behind the text up to there.
func ended(list proto.Raw, text []byte, e *proto.Error) (_ proto.Raw, err error) {
	if len(bytes.TrimSpace(text)) > 0 {
		list, err = appendEvent(list, "message", spoken{Role: "assistant", Text: string(text), Partial: true})
	}
	if err != nil || interruption(e) {
		return append(open(list), interruptedEvent...), err
	}
	return appendEvent(list, "error", failure{e.Message, e.Kind, e.Code})
}

func unpack(payload []byte, v any) error {
	if err := wire.DecodeReply(payload, v); err != nil {
		return fmt.Errorf("agr answered with something that is not a packet: %w", err)
	}
	return nil
}

// orEvent is the error, or a list with one event.
func orEvent(err error, typ string, v any) (proto.Raw, error) {
	if err != nil {
		return nil, err
	}
	return appendEvent(nil, typ, v)
}

// orObject is raw, or the empty object where there is nothing.
func orObject(raw proto.Raw) proto.Raw {
	if len(raw) == 0 {
		return proto.Raw("{}")
	}
	return raw
}

// succeeded reports whether an envelope says so.
func succeeded(result proto.Raw) (ok bool) {
	for key, value := range wire.Members(result) {
		if string(key) == "ok" {
			ok = string(value) == "true"
		}
	}
	return ok
}
