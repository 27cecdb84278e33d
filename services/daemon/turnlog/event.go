package turnlog

import (
	"strconv"

	"zino/pkg/wire"
	"zino/proto"
)

// event is a stored event's values as they are in its line; nil if they are absent.
type event struct {
	kind                              string // the type's text
	turnID, step, ts                  []byte
	role, text, partial, say, via     []byte
	id, name, input, useID, synthetic []byte
	in, out, cost, provider, model    []byte
	window, output                    []byte
	cacheRead, cacheWrite, reasoning  []byte
	usage, runInput, hook             []byte
}

// parse splits an event. Of one that is not a JSON object it may find a part.
func parse(raw []byte) (e event) {
	var typ []byte
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "type":
			typ = value
		case "turn":
			e.turnID = value
		case "step":
			e.step = value
		case "ts":
			e.ts = value
		case "role":
			e.role = value
		case "text":
			e.text = value
		case "partial":
			e.partial = value
		case "say":
			e.say = value
		case "via":
			e.via = value
		case "id":
			e.id = value
		case "name":
			e.name = value
		case "input":
			e.input = value
		case "run_input":
			e.runInput = value
		case "hook":
			e.hook = value
		case "tool_use_id":
			e.useID = value
		case "synthetic":
			e.synthetic = value
		case "input_tokens":
			e.in = value
		case "output_tokens":
			e.out = value
		case "cache_read_tokens":
			e.cacheRead = value
		case "cache_write_tokens":
			e.cacheWrite = value
		case "reasoning_tokens":
			e.reasoning = value
		case "context_window":
			e.window = value
		case "output":
			e.output = value
		case "cost_usd":
			e.cost = value
		case "usage":
			e.usage = value
		case "provider":
			e.provider = value
		case "model":
			e.model = value
		}
	}
	switch string(typ) { // without an allocation for the frequent ones
	case `"message"`:
		e.kind = proto.TypeMessage
	case `"tool_use"`:
		e.kind = proto.TypeToolUse
	case `"tool_result"`:
		e.kind = proto.TypeToolResult
	case `"usage"`:
		e.kind = proto.TypeUsage
	default:
		e.kind = str(typ)
	}
	return e
}

func (e *event) fromUser() bool { return is(e.role, proto.RoleUser) }

// isMessage reports whether the event is a message of the user or the assistant.
func (e *event) isMessage() bool {
	return e.kind == proto.TypeMessage && isText(e.text) && (e.fromUser() || is(e.role, proto.RoleAssistant))
}

// is reports whether raw is the JSON string of a word.
func is(raw []byte, word string) bool {
	return len(raw) == len(word)+2 && string(raw[1:len(raw)-1]) == word || str(raw) == word
}

// str is a JSON string's value, empty for anything else.
func str(raw []byte) string {
	value, ok := wire.Unquote(nil, raw)
	if !ok {
		return ""
	}
	return string(value)
}

// number is the value of a whole number, 0 for anything else.
func number(raw []byte) int64 {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func isText(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }
func isTrue(raw []byte) bool { return string(raw) == "true" }
