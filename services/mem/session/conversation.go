package session

import (
	"bytes"
	"slices"

	"zino/pkg/wire"
)

// Texts that stand for what is not there.
const (
	cutMark   = "[The answer was interrupted here.]"
	beginMark = "[The beginning of the conversation is not here.]"
)

// conversation turns events into messages that every provider takes: the user
// begins, user and assistant take turns, each call is followed by its result,
// no result is without a call, and nothing is empty.
type conversation struct {
	turns []*turn
	open  []*call // calls without a result
	count int     // message events
	size  int     // bytes of what is in the turns, roughly
}

// turn is what one side said, and what came of the calls in it.
type turn struct {
	user     bool
	text     []byte
	cut      bool // the text was cut off
	pieces   int  // message events in it
	calls    []*call
	answered bool   // one of its calls has a result
	state    []byte // what the model's provider wants back with the answer
	states   int    // how many different ones there were
}

// call is a call of a tool.
type call struct {
	turn     *turn
	id, name string
	args     []byte // a JSON object
	result   []byte // nil: there is none
}

// add takes in an event.
func (c *conversation) add(e *event) {
	switch {
	case e.spoken():
		c.count++
		c.say(e)
	case e.called():
		c.call(e)
	case e.kind == toolResult:
		c.result(e)
	case e.kind == interrupted:
		if t := c.last(); t != nil && !t.user && len(t.calls) == 0 {
			t.cut = true
		}
	}
}

func (c *conversation) last() *turn {
	if len(c.turns) == 0 {
		return nil
	}
	return c.turns[len(c.turns)-1]
}

// side is the turn that goes on with what this side says, or a new one. What
// comes behind a result is another answer of the model.
func (c *conversation) side(user bool) *turn {
	if t := c.last(); t != nil && t.user == user && !t.answered {
		return t
	}
	return c.begin(user)
}

func (c *conversation) begin(user bool) *turn {
	t := &turn{user: user}
	c.turns = append(c.turns, t)
	return t
}

// say takes in a message. Blank ones, which no provider takes, are left out.
func (c *conversation) say(e *event) {
	text, _ := wire.Unquote(nil, e.text) // what is no string is empty
	if len(bytes.TrimSpace(text)) == 0 {
		return
	}
	t := c.side(isUser(e.role))
	t.text = append(t.spoken(), text...)
	t.cut = !t.user && isTrue(e.partial)
	t.pieces++
	c.size += len(text)
	c.keepState(t, e)
}

// spoken is the text so far, with what must come before more of it.
func (t *turn) spoken() []byte {
	if t.cut {
		t.text = append(t.text, "\n\n"+cutMark...)
	}
	if len(t.text) == 0 {
		return t.text
	}
	return append(t.text, "\n\n"...)
}

// keepState keeps the state of an answer. Every event of it may carry it.
func (c *conversation) keepState(t *turn, e *event) {
	if t.user || !isObject(e.state) || bytes.Equal(e.state, t.state) {
		return
	}
	c.size += len(e.state)
	t.state = bytes.Clone(e.state)
	t.states++
}

// call takes in a call. Two calls of one answer have different ids.
func (c *conversation) call(e *event) {
	k := &call{id: str(e.id), name: str(e.name), args: arguments(e.input)}
	t := c.side(false)
	if slices.ContainsFunc(t.calls, func(other *call) bool { return other.id == k.id }) {
		t = c.begin(false)
	}
	k.turn = t
	t.calls = append(t.calls, k)
	c.open = append(c.open, k)
	c.size += len(k.id) + len(k.name) + len(k.args)
	c.keepState(t, e)
}

// result takes in a result: it belongs to the last call of its id that has none.
func (c *conversation) result(e *event) {
	id := str(e.useID)
	for i, k := range slices.Backward(c.open) {
		if k.id == id {
			k.result, k.turn.answered = output(e), true
			c.size += len(k.result)
			c.open = slices.Delete(c.open, i, i+1)
			return
		}
	}
}

// arguments are a call's input as an object, the only form that providers take
// back.
func arguments(input []byte) []byte {
	switch {
	case isObject(input):
		return bytes.Clone(input)
	case len(input) == 0 || string(input) == "null":
		return []byte("{}")
	}
	return append(append([]byte(`{"_malformed":`), input...), '}')
}

// output is a result as the model reads it: the envelope, or a text as it is.
func output(e *event) []byte {
	switch {
	case isText(e.output):
		text, _ := wire.Unquote([]byte{}, e.output)
		return text
	case len(e.output) > 0 && string(e.output) != "null":
		return bytes.Clone(e.output)
	case isTrue(e.ok):
		return []byte(`{"ok":true}`)
	}
	return []byte(`{"ok":false}`)
}
