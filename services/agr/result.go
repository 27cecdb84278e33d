package agr

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"zino/pkg/mask"
	"zino/pkg/wire"
	"zino/proto"
)

// result is the result of a call: the first of end, err, data, ran and text that is set.
// plain is its form for the text of a plain run, envelope that for sessions and
// events.
type result struct {
	end  error // the run ends without a result
	err  *toolError
	data proto.Raw     // a whole envelope
	ran  *proto.Result // of code
	text string        // of any other tool

	files     []proto.FileData   // images for the model, which conclude stores
	kept      []proto.Attachment // the stored ones
	diff      string             // what was changed in a file
	confined  *proto.Confinement // how the call was run
	recovered bool               // the result is that of an earlier attempt
	lost      bool               // the result is not known
	byExc     bool               // exc has masked the data
}

// toolError is the reason why a call was not carried out.
type toolError struct {
	code     string // one of proto.Tool…
	message  string
	verbatim bool // the text of a plain run has no "Error: " before the message
}

// final reports whether there is a result already.
func (r result) final() bool { return r.end != nil || r.err != nil || r.data != nil }

// plain returns the form for the text of a plain run.
func (r result) plain() string {
	switch {
	case r.err != nil && r.err.verbatim:
		return r.err.message
	case r.err != nil:
		return "Error: " + r.err.message
	case r.ran == nil:
		return r.text
	}
	var parts []string
	if r.ran.Stdout != "" {
		parts = append(parts, r.ran.Stdout)
	}
	if r.ran.Stderr != "" {
		parts = append(parts, "[stderr]\n"+r.ran.Stderr)
	}
	if r.ran.ExitCode != 0 {
		parts = append(parts, fmt.Sprintf("[exit code: %d]", r.ran.ExitCode))
	}
	if len(parts) == 0 {
		return "(no output)"
	}
	return strings.Join(parts, "\n")
}

// envelope returns the form for sessions and events, with the number of placeholders.
func (r result) envelope() proto.Raw {
	envelope := r.bare()
	n := mask.Count(envelope)
	if n == 0 || maskedOf(envelope) > 0 {
		return envelope
	}
	behind := bytes.IndexByte(envelope, ',') + 1 // ok
	return slices.Insert(slices.Clone(envelope), behind, fmt.Appendf(nil, `"masked":%d,`, n)...)
}

// bare returns the envelope without that number.
func (r result) bare() proto.Raw {
	switch {
	case r.err != nil:
		return encode(proto.Envelope{Error: &proto.ToolError{Code: r.err.code, Message: r.err.message}})
	case r.data != nil:
		return r.data
	case r.ran != nil:
		return success(proto.CommandOutput{
			Stdout: r.ran.Stdout, Stderr: r.ran.Stderr, ExitCode: r.ran.ExitCode,
			TimedOut: r.ran.TimedOut, Truncated: r.ran.Truncated, Interrupted: r.ran.Interrupted,
		})
	}
	return success(struct {
		Text string `json:"text"`
	}{r.text})
}

// interrupted is the result of a call that may have run, and whose result is lost.
func interrupted() result { return result{data: proto.Raw(proto.InterruptedResult), lost: true} }

func success(data any) proto.Raw { return encode(proto.Envelope{OK: true, Data: encode(data)}) }

// encode encodes a struct of ours as JSON.
func encode(v any) proto.Raw {
	b, err := wire.AppendObject(nil, "", v)
	if err != nil {
		panic(err) // cannot happen: strings and numbers can be encoded
	}
	return b
}

// okOf returns the member ok of an envelope; valid is false without it.
func okOf(envelope proto.Raw) (ok, valid bool) {
	for key, value := range wire.Members(envelope) {
		if string(key) == "ok" {
			return string(value) == "true", string(value) == "true" || string(value) == "false"
		}
	}
	return false, false
}

func succeeded(envelope proto.Raw) bool {
	ok, _ := okOf(envelope)
	return ok
}

// isEnvelope checks a result that another service sent.
func isEnvelope(raw proto.Raw) bool {
	_, valid := okOf(raw)
	return valid && wire.Valid(raw)
}

// malformedCall reports malformed arguments, on one line.
func malformedCall(err error) result {
	return result{err: &toolError{proto.ToolInvalidInput, "Malformed tool_call JSON: " + strings.ReplaceAll(err.Error(), "\n", "; "), true}}
}

func malformedTask(err error) result {
	return result{err: &toolError{proto.ToolInvalidInput, "Malformed task JSON: " + err.Error(), true}}
}

// refused reports arguments that are well-formed but invalid.
func refused(format string, args ...any) result {
	return result{err: &toolError{proto.ToolInvalidInput, fmt.Sprintf(format, args...), false}}
}

// failed reports an error of the service that carries out the call.
func failed(err error) result {
	if stop, ok := errors.AsType[stopped](err); ok {
		return result{end: stop}
	}
	if a, ok := errors.AsType[answered](err); ok {
		return result{data: a.envelope}
	}
	return result{err: &toolError{toolCode(err), err.Error(), false}}
}

func toolCode(err error) string {
	switch {
	case errors.Is(err, proto.ErrUnavailable):
		return proto.ToolUnavailable
	case errors.Is(err, proto.ErrTimeout):
		return proto.ToolTimeout
	case errors.Is(err, proto.ErrDenied):
		return proto.ToolDenied
	case errors.Is(err, proto.ErrNotFound):
		return proto.ToolNotFound
	}
	return proto.ToolFailed
}
