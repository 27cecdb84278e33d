package agr

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"zino/pkg/wire"
	"zino/proto"
	"zino/services/agr/toolbox"
)

// call is a call of a function: a native one, which stands beside the model's
// text, or a block that stood in it.
type call struct {
	raw       proto.Raw // as it goes back to the model
	id        string    // no other call of the answer has it
	name      string
	arguments proto.Raw // what the model wrote, an object if all is well; empty for nothing
	input     proto.Raw // the arguments as an object, for those who are told of the call
	fault     *fault    // why it cannot be carried out, if it is malformed as a whole
	block     bool      // it was a block
	result    proto.Raw
}

// maxCalls is how many calls of a reply are run. Each one above gets a result that
// says so.
const maxCalls = 1024

// takeCalls keeps the calls of a session's answer, those in its text first. They
// alone say whether the loop goes on: which stop reason comes with them depends
// on the provider. Cut by the token limit, an answer without one whole call is
// what it says; asked again, the model would most likely be cut again.
func (t *turn) takeCalls(answer proto.Text) error {
	if t.session == nil {
		return nil
	}
	native, err := readCalls(answer.ToolCalls)
	if err == nil && len(answer.State) > 0 && !wire.Valid(answer.State) {
		err = errors.New("the field reasoning_state of its answer is malformed")
	}
	if err != nil {
		return err
	}
	t.end = answer
	if t.calls = append(t.calls, native...); answer.StopReason == "length" && !slices.ContainsFunc(t.calls, call.whole) {
		t.calls, t.end.State = nil, nil // the state is that of the calls
	}
	taken := map[string]bool{}
	for i := range t.calls {
		if t.calls[i].identify(taken); i >= maxCalls && t.calls[i].fault == nil {
			t.calls[i].fault = &fault{code: toolbox.TooManyCalls, message: fmt.Sprintf(
				"Not run: at most %d tool calls of a reply are run, and this is number %d. Call it again if it is still needed.", maxCalls, i+1)}
		}
	}
	t.interrupted = len(t.calls) > 0
	if t.interrupted && len(bytes.TrimSpace(t.text)) == 0 {
		t.text = nil // the white space around blocks
	}
	return nil
}

// readCalls reads a list of calls in OpenAI's form.
func readCalls(list proto.Raw) ([]call, error) {
	if len(list) == 0 {
		return nil, nil
	}
	all, err := wire.Elements(list)
	if err != nil {
		return nil, fmt.Errorf("the field tool_calls of its answer: %w", err)
	}
	calls := make([]call, len(all))
	for i, raw := range all {
		if calls[i], err = readCall(raw); err != nil {
			return nil, fmt.Errorf("the field tool_calls of its answer: element %d: %w", i, err)
		}
	}
	return calls, nil
}

func readCall(raw proto.Raw) (call, error) {
	var wanted struct {
		ID       string `json:"id"`
		Function struct {
			Name      string    `json:"name"`
			Arguments proto.Raw `json:"arguments"`
		} `json:"function"`
	}
	err := wire.DecodeReply(raw, &wanted)
	c := call{raw: raw, id: wanted.ID, name: wanted.Function.Name, arguments: unquoted(wanted.Function.Arguments)}
	c.input = inputOf(c.arguments)
	if c.name == "" { // no provider takes it back
		c.name, c.fault = unnamed, malformedCall(errNoName).fault
		c.raw = withID(c.written(), c.id)
	}
	return c, err
}

// unquoted is the text that a JSON string holds. Anything else stays: some
// servers send the arguments themselves.
func unquoted(arguments proto.Raw) proto.Raw {
	var text string
	if len(arguments) == 0 || json.Unmarshal(arguments, &text) != nil {
		return arguments
	}
	return proto.Raw(strings.TrimSpace(text))
}

// identify gives the call an identifier if it has none, or that of a call
// before it: a result must belong to one call. Nine letters and digits are an
// identifier to every provider.
func (c *call) identify(taken map[string]bool) {
	for c.id == "" || taken[c.id] {
		c.id = rand.Text()[:9]
		c.raw = withID(c.raw, c.id)
	}
	taken[c.id] = true
}

// withID returns an object with that id and all else as it is.
func withID(raw proto.Raw, id string) proto.Raw {
	b := wire.AppendString(proto.Raw(`{"id":`), id)
	for key, value := range wire.Members(raw) {
		if string(key) != "id" {
			b = append(wire.AppendString(append(b, ','), key), ':')
			b = append(b, value...)
		}
	}
	return append(b, '}')
}

// whole reports whether the call has come to its end.
func (c call) whole() bool { return c.block || len(c.arguments) > 0 && wire.Valid(c.arguments) }

// appendCalls returns messages with the answer, its calls and their results at
// the end, each call with the one result that is its own. The reasoning state
// goes with the calls, untouched.
func (t *turn) appendCalls(messages proto.Raw) (proto.Raw, error) {
	list, err := open(messages, t.room())
	if err != nil {
		return nil, err
	}
	list = append(appendContent(list, "assistant", t.text), `,"tool_calls":[`...)
	for i, c := range t.calls {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, c.raw...)
	}
	list = append(list, ']')
	if len(t.end.State) > 0 {
		list = append(append(list, `,"reasoning_state":`...), t.end.State...)
	}
	list = append(list, '}')
	for _, c := range t.calls {
		list = append(appendContent(append(list, ','), "tool", []byte(c.result)), `,"tool_call_id":`...)
		list = append(wire.AppendString(list, c.id), '}')
	}
	return append(list, ']'), nil
}

// room is about what the answer and the results take in the conversation.
func (t *turn) room() int {
	const around = 96 // the names and brackets of a message
	n := len(t.text) + len(t.end.State) + around
	for _, c := range t.calls {
		n += len(c.raw) + len(c.result) + len(c.id) + around
	}
	return n + n/8
}
