package wire

import (
	"bytes"

	"zino/pkg/wire"
)

// template knows an event again that differs from an earlier one in nothing but
// one JSON string: nearly all events of a stream are so. The string is then all
// that there is to read, as JSON around it means what it meant before.
type template struct {
	event    []byte // with the string at [from:to]
	from, to int
}

// learn keeps an event whose only news is the string value, which is a part of
// its bytes.
func (t *template) learn(event, value []byte) {
	if len(value) < 2 || value[0] != '"' {
		return
	}
	t.event = append(t.event[:0], event...)
	t.from = cap(event) - cap(value) // both end where the buffer ends
	t.to = t.from + len(value)
}

// read appends the text of the string to b if the event has the template's
// form.
func (t *template) read(b, event []byte) (text []byte, ok bool) {
	end := len(event) - (len(t.event) - t.to)
	if t.to == 0 || end < t.from+2 || !bytes.Equal(event[:t.from], t.event[:t.from]) || !bytes.Equal(event[end:], t.event[t.to:]) {
		return b, false
	}
	return wire.Unquote(b, event[t.from:end])
}
