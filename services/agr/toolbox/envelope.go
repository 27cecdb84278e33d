package toolbox

import (
	"strconv"

	"zino/pkg/wire"
	"zino/proto"
)

// Codes of failed calls. Those that exc carries out have more.
const (
	UnknownTool  = "unknown_tool"  // no such function
	InvalidInput = "invalid_input" // the arguments are not what the function wants
	Unavailable  = "unavailable"   // what carries it out cannot be reached
	Timeout      = "timeout"       // what carries it out did not answer in time
	Denied       = "denied"        // what carries it out refuses the caller
	ToolError    = "tool_error"    // it was tried and failed
	TooManyCalls = "too_many_calls"
)

// Failed is the result of a call that could not be carried out.
func Failed(code, message string) proto.Raw {
	b := wire.AppendString(proto.Raw(`{"ok":false,"error":{"code":`), code)
	b = wire.AppendString(append(b, `,"message":`...), message)
	return append(b, "}}"...)
}

// Said is the result of a tool that answers with a text.
func Said(text string) proto.Raw {
	return append(wire.AppendString(proto.Raw(`{"ok":true,"data":{"text":`), text), "}}"...)
}

// Ran is the result of code that ran, whatever its exit status.
func Ran(r proto.Result) proto.Raw {
	b := wire.AppendString(proto.Raw(`{"ok":true,"data":{"stdout":`), r.Stdout)
	b = wire.AppendString(append(b, `,"stderr":`...), r.Stderr)
	b = strconv.AppendInt(append(b, `,"exit_code":`...), int64(r.ExitCode), 10)
	b = strconv.AppendBool(append(b, `,"timed_out":`...), r.TimedOut)
	if r.Truncated {
		b = append(b, `,"truncated":true`...)
	}
	if r.Interrupted {
		b = append(b, `,"interrupted":true`...)
	}
	return append(b, "}}"...)
}

// IsResult reports whether raw, which another service made, is a result.
func IsResult(raw proto.Raw) bool {
	if !wire.Valid(raw) {
		return false
	}
	for key, value := range wire.Members(raw) {
		if string(key) == "ok" {
			return string(value) == "true" || string(value) == "false"
		}
	}
	return false
}

// Succeeded returns ok of an envelope.
func Succeeded(envelope proto.Raw) bool {
	for key, value := range wire.Members(envelope) {
		if string(key) == "ok" {
			return string(value) == "true"
		}
	}
	return false
}
