package wire

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"zino/pkg/wire"
	"zino/proto"
)

// Answer gathers the events of an answer.
type Answer struct {
	text  strings.Builder
	calls []pending
	usage *proto.Usage
	stop  string
	state json.RawMessage

	reasoned int // bytes of the reasoning
}

// pending is a tool call whose arguments are still coming.
type pending struct {
	id, name string
	args     []byte
}

// Event adds the next event. Calls are told apart by Index; a call whose start is
// missing has no name and is dropped in the end.
func (a *Answer) Event(e Event) {
	switch e.Kind {
	case Text:
		a.text.Write(e.Delta)
	case Reasoning:
		a.reasoned += len(e.Delta)
	case ToolStart:
		c := a.call(e.Index)
		c.id, c.name = e.ID, e.Name
	case ToolArgs:
		c := a.call(e.Index)
		c.args = append(c.args, e.Delta...)
	case State:
		a.state = append(json.RawMessage(nil), e.Delta...)
	case Used:
		a.usage = e.Usage
	case Finish:
		a.stop = e.Reason
	}
}

func (a *Answer) call(i int) *pending {
	if i < 0 || i >= maxCalls {
		return &pending{}
	}
	for len(a.calls) <= i {
		a.calls = append(a.calls, pending{})
	}
	return &a.calls[i]
}

// Text is the answer's text so far.
func (a *Answer) Text() string { return a.text.String() }

// Size is the number of bytes of text, reasoning and arguments so far.
func (a *Answer) Size() int {
	n := a.text.Len() + a.reasoned
	for i := range a.calls {
		n += len(a.calls[i].args)
	}
	return n
}

// Usage is the tokens used, nil if the provider did not report them.
func (a *Answer) Usage() *proto.Usage { return a.usage }

// Finished returns the complete answer. The arguments of a call are parsed only
// now: empty ones are {}, and those that the token limit cut off drop the call. Others
// that end in the middle are kept as the model wrote them, since the stream was
// complete: the service that runs the call reports them to the model.
func (a *Answer) Finished() proto.Text {
	t := proto.Text{Content: a.text.String(), StopReason: a.stop, Usage: a.usage, State: a.state}
	raw := []byte("[")
	for _, c := range a.calls {
		args := strings.TrimSpace(string(c.args))
		if args == "" {
			args = "{}"
		}
		var v json.RawMessage
		err := json.NewDecoder(strings.NewReader(args)).Decode(&v)
		if c.name == "" || a.stop == "length" && errors.Is(err, io.ErrUnexpectedEOF) {
			continue
		}
		if c.id == "" {
			c.id = "call_" + strings.ToLower(rand.Text()[:16])
		}
		if len(raw) > 1 {
			raw = append(raw, ',')
		}
		raw = wire.AppendString(append(raw, `{"id":`...), c.id)
		raw = wire.AppendString(append(raw, `,"type":"function","function":{"name":`...), c.name)
		raw = wire.AppendString(append(raw, `,"arguments":`...), args)
		raw = append(raw, "}}"...)
	}
	if len(raw) == 1 {
		t.State = nil // it belongs to calls
		return t
	}
	t.ToolCalls = append(raw, ']')
	if t.StopReason == "stop" || t.StopReason == "" {
		t.StopReason = "tool_calls"
	}
	return t
}

// stopReason translates a wire's reason into proto.Text's.
func stopReason(reason string) string {
	switch reason {
	case "function_call", "tool_use", "tool_calls":
		return "tool_calls"
	case "max_tokens", "max_output_tokens", "length", "MAX_TOKENS", "model_context_window_exceeded":
		return "length"
	case "content_filter", "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "RECITATION", "SPII":
		return "filter"
	case "", "stop", "end_turn", "stop_sequence", "STOP":
		return "stop"
	}
	return reason
}

// blockCost is added to the bytes of each stored block, which bounds the number of
// blocks as well.
const blockCost = 1 << 10

// stringOf is a JSON string's value, empty for anything else.
func stringOf(raw []byte) string {
	if len(raw) < 3 {
		return ""
	}
	s, ok := wire.Unquote(nil, raw)
	if !ok {
		return ""
	}
	return string(s)
}

// contentOf is the text of a content: a string, null, or a list of parts, of which
// those of type text count.
func contentOf(raw []byte) string {
	if len(raw) == 0 || raw[0] != '[' {
		return stringOf(raw)
	}
	parts, err := wire.Elements(raw)
	if err != nil {
		return ""
	}
	var all strings.Builder
	for _, part := range parts {
		for key, value := range wire.Members(part) {
			if string(key) == "text" {
				all.WriteString(stringOf(value))
			}
		}
	}
	return all.String()
}

// appendContent appends a content's text.
func appendContent(b, value []byte) []byte {
	if out, ok := wire.Unquote(b, value); ok {
		return out
	}
	return append(b, contentOf(value)...)
}

// memberOf returns the value of an object's member, nil without it.
func memberOf(object []byte, name string) []byte {
	for key, value := range wire.Members(object) {
		if string(key) == name {
			return value
		}
	}
	return nil
}

// appendMember adds a member to an object under construction.
func appendMember(b, key, value []byte) []byte {
	if len(b) == 0 {
		b = append(b, '{')
	} else {
		b = append(b, ',')
	}
	return append(append(wire.AppendString(b, key), ':'), value...)
}

// flat copies JSON into one line: the data of an event can have several, and what
// is kept goes into files of lines.
func flat(raw []byte) json.RawMessage {
	var b bytes.Buffer
	if bytes.IndexByte(raw, '\n') < 0 || json.Compact(&b, raw) != nil {
		return slices.Clone(raw)
	}
	return b.Bytes()
}

// setTokens sets a number of tokens, unless the value is 0 or not a number. More
// than 10^12 are a mistake, and sums of it could overflow.
func setTokens(n *int64, value []byte) {
	if v, err := strconv.ParseInt(string(value), 10, 64); err == nil && v > 0 && v < 1e12 {
		*n = v
	}
}

// template recognizes an event that differs from an earlier one in one JSON string
// only, as nearly all events of a stream do. Then only the string is parsed.
type template struct {
	event    []byte // with the string at [from:to]
	from, to int
}

// learn stores an event of which only the string value, a part of its bytes,
// changes.
func (t *template) learn(event, value []byte) {
	if len(value) < 2 || value[0] != '"' {
		return
	}
	t.event = append(t.event[:0], event...)
	t.from = cap(event) - cap(value) // both end where the buffer ends
	t.to = t.from + len(value)
}

// read appends the text of the string to b if the event has the template's form.
func (t *template) read(b, event []byte) (text []byte, ok bool) {
	end := len(event) - (len(t.event) - t.to)
	if t.to == 0 || end < t.from+2 || !bytes.Equal(event[:t.from], t.event[:t.from]) || !bytes.Equal(event[end:], t.event[t.to:]) {
		return b, false
	}
	return wire.Unquote(b, event[t.from:end])
}
