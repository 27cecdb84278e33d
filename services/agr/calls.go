package agr

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"zino/pkg/wire"
	"zino/proto"
)

// call is a native call: one that stands beside the model's text.
type call struct {
	raw       proto.Raw // as it goes back to the model
	id        string    // no other call of the answer has it
	name      string
	arguments proto.Raw // what the model wrote, an object if all is well; empty for nothing
	result    string
}

// takeCalls keeps the calls of a session's answer. They alone say whether the
// loop goes on: which stop reason comes with them depends on the provider. Cut
// by the token limit, an answer without one whole call is what it says; asked
// again, the model would most likely be cut again.
func (t *turn) takeCalls(answer proto.Text) error {
	if t.session == nil {
		return nil
	}
	t.end = answer
	calls, err := readCalls(answer.ToolCalls)
	if err == nil && len(answer.State) > 0 && !wire.Valid(answer.State) {
		err = errors.New("the field reasoning_state of its answer is malformed")
	}
	if err != nil || answer.StopReason == "length" && !slices.ContainsFunc(calls, call.whole) {
		return err
	}
	t.calls = calls
	t.interrupted = t.interrupted || len(calls) > 0
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
	taken := map[string]bool{}
	for i, raw := range all {
		if calls[i], err = readCall(raw); err != nil {
			return nil, fmt.Errorf("the field tool_calls of its answer: element %d: %w", i, err)
		}
		calls[i].identify(taken)
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
	return call{raw: raw, id: wanted.ID, name: wanted.Function.Name, arguments: unquoted(wanted.Function.Arguments)}, err
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
	if c.id == "" || taken[c.id] {
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

// whole reports whether the arguments have come to their end.
func (c call) whole() bool { return len(c.arguments) > 0 && wire.Valid(c.arguments) }

// goOn carries out the native calls and returns the conversation with this
// answer at its end, for the next inference. The calls run one after the other:
// what one of them changes, the next may rely on.
func (t *turn) goOn(messages proto.Raw) (proto.Raw, error) {
	if len(t.calls) == 0 {
		return appendMessage(messages, "assistant", t.text)
	}
	if err := t.out.Flush(); err != nil { // the reader sees the text while the tools run
		return nil, err
	}
	for i, c := range t.calls {
		t.calls[i].result = t.native(c)
		if err := t.ctx.Err(); err != nil {
			return nil, err
		}
	}
	return t.appendCalls(messages)
}

// native carries out one call and returns its result. Whatever is wrong with
// the call is a result as well.
func (t *turn) native(c call) string {
	if c.name != taskFunction || len(t.s.cat.Snapshot().Skills) == 0 {
		return t.function(c.name, c.arguments)
	}
	if len(c.arguments) == 0 {
		return t.task([]byte("{}"))
	}
	return t.task(c.arguments)
}

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
		list = append(appendContent(append(list, ','), "tool", c.result), `,"tool_call_id":`...)
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
