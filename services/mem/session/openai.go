package session

import "zino/pkg/wire"

// list is the conversation in OpenAI's form.
func (c *conversation) list() []byte {
	b := append(make([]byte, 0, c.size+c.size/4+64*len(c.turns)+64), '[')
	if len(c.turns) > 0 && !c.turns[0].user {
		b = appendMessage(b, "user", []byte(beginMark))
	}
	for _, t := range c.turns {
		b = t.append(b)
	}
	if len(b) > 1 {
		b = b[:len(b)-1] // the last comma
	}
	return append(b, ']')
}

// append appends a turn's messages, with a comma behind each.
func (t *turn) append(b []byte) []byte {
	if t.user {
		return appendMessage(b, "user", t.text)
	}
	b = t.appendContent(append(b, `{"role":"assistant","content":`...))
	for i, k := range t.calls {
		b = k.append(b, i)
	}
	if len(t.calls) > 0 {
		b = append(b, ']')
	}
	// A state is that of one answer and says all of it: where more than that is
	// in the turn, it would hide the rest.
	if t.states == 1 && t.pieces <= 1 && !t.cut {
		b = append(append(b, `,"reasoning_state":`...), t.state...)
	}
	b = append(b, "},"...)
	for _, k := range t.calls {
		b = k.appendResult(b)
	}
	return b
}

func (t *turn) appendContent(b []byte) []byte {
	if len(t.text) == 0 {
		return append(b, "null"...)
	}
	if t.cut {
		return wire.AppendString(b, string(t.text)+"\n\n"+cutMark)
	}
	return wire.AppendString(b, t.text)
}

func (k *call) append(b []byte, i int) []byte {
	if i == 0 {
		b = append(b, `,"tool_calls":[{"id":`...)
	} else {
		b = append(b, `,{"id":`...)
	}
	b = append(wire.AppendString(b, k.id), `,"type":"function","function":{"name":`...)
	b = append(wire.AppendString(b, k.name), `,"arguments":`...)
	return append(wire.AppendString(b, k.args), "}}"...)
}

func (k *call) appendResult(b []byte) []byte {
	result := k.result
	if result == nil {
		result = []byte(lostResult)
	}
	b = wire.AppendString(append(b, `{"role":"tool","tool_call_id":`...), k.id)
	return append(wire.AppendString(append(b, `,"content":`...), result), "},"...)
}

func appendMessage(b []byte, role string, text []byte) []byte {
	b = wire.AppendString(append(b, `{"role":`...), role)
	return append(wire.AppendString(append(b, `,"content":`...), text), "},"...)
}
