package wire

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
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

// pending is a tool call under way.
type pending struct {
	id, name string
	args     []byte
}

// Event takes the next event. Calls are told apart by Index; a call whose start
// was not seen has no name and is dropped in the end.
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

// maxCalls is how many calls one answer may have. agr runs fewer and says so to
// the model; an answer with more than these is a provider's fault.
const maxCalls = 4096

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

// Usage is what was used, nil if the provider has not told.
func (a *Answer) Usage() *proto.Usage { return a.usage }

// Finished returns the complete answer. The arguments of a call are read only
// now: none at all are {}, and those that the token limit cut off drop the call.
// Others that end in the middle are what the model wrote, as the stream was
// whole: whoever carries out the call tells the model.
func (a *Answer) Finished() proto.Text {
	t := proto.Text{Content: a.text.String(), StopReason: a.stop, Usage: a.usage, State: a.state}
	raw := []byte("[")
	for _, c := range a.calls {
		args := strings.TrimSpace(string(c.args))
		switch {
		case c.name == "" || args != "" && a.stop == "length" && unclosed(args):
			continue
		case args == "":
			args = "{}"
		}
		raw = appendCall(raw, c.id, c.name, args)
	}
	if len(raw) > 1 {
		t.ToolCalls = append(raw, ']')
		if t.StopReason == "stop" || t.StopReason == "" {
			t.StopReason = "tool_calls"
		}
	} else {
		t.State = nil // it belongs to calls
	}
	return t
}

func appendCall(b []byte, id, name, args string) []byte {
	if len(b) > 1 {
		b = append(b, ',')
	}
	if id == "" {
		id = newID()
	}
	b = wire.AppendString(append(b, `{"id":`...), id)
	b = wire.AppendString(append(b, `,"type":"function","function":{"name":`...), name)
	b = wire.AppendString(append(b, `,"arguments":`...), args)
	return append(b, "}}"...)
}

// newID makes the id of a call that came without one.
func newID() string { return "call_" + strings.ToLower(rand.Text()[:16]) }

// unclosed reports whether a text is the beginning of a JSON value.
func unclosed(args string) bool {
	var v json.RawMessage
	err := json.NewDecoder(strings.NewReader(args)).Decode(&v)
	return errors.Is(err, io.ErrUnexpectedEOF)
}
