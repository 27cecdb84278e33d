package wire

import (
	"bytes"
	"encoding/json"
	"reflect"

	"zino/pkg/wire"
)

// partList keeps the parts of an answer as they came, with their signatures.
// Texts that have none are joined: a stream has one part for a few tokens.
type partList struct {
	b      []byte // the list, without its bracket at the end
	open   bool   // the last part is a text that can be joined with
	thinks bool   // that text is a thought
	signed bool   // a part has a signature or is a thought: the list must go back
}

// geminiPart is a part of an answer.
type geminiPart struct {
	text, call []byte // the values of text and functionCall, nil for none
	thought    bool
	signed     bool
	members    int
}

func readGeminiPart(raw []byte) (p geminiPart) {
	for key, value := range wire.Members(raw) {
		p.members++
		switch string(key) {
		case "text":
			p.text = value
		case "thought":
			p.thought = string(value) == "true"
		case "thoughtSignature":
			p.signed = len(value) > 2
		case "functionCall":
			p.call = value
		}
	}
	return p
}

// add adds a part. One that has nothing but an empty text is left out: Gemini
// sends it, and does not take it back.
func (l *partList) add(raw []byte, p geminiPart) {
	bare := p.text != nil && (p.members == 1 || p.members == 2 && p.thought)
	switch {
	case bare && len(p.text) > 2 && p.text[0] == '"':
		l.text(p.text[1:len(p.text)-1], p.thought)
	case p.members > 0 && !bare:
		l.next()
		l.b = append(l.b, raw...)
		l.signed = l.signed || p.signed || p.thought
	}
}

// text adds a text without a signature, as it stands in its quotes.
func (l *partList) text(inner []byte, thought bool) {
	if l.open && l.thinks == thought {
		l.b = append(l.b, inner...)
		return
	}
	l.next()
	l.open, l.thinks = true, thought
	if l.b = append(l.b, '{'); thought {
		l.signed = true
		l.b = append(l.b, `"thought":true,`...)
	}
	l.b = append(append(l.b, `"text":"`...), inner...)
}

// next ends the part under way.
func (l *partList) next() {
	if l.open {
		l.b, l.open = append(l.b, `"}`...), false
	}
	if len(l.b) == 0 {
		l.b = append(l.b, '[')
	} else {
		l.b = append(l.b, ',')
	}
}

// list ends the list, which has a part, and makes it one line: whoever stores it
// may have one record a line. The line ends stand between JSON's tokens.
func (l *partList) list() []byte {
	if l.open {
		l.b, l.open = append(l.b, `"}`...), false
	}
	for i, c := range l.b {
		if c == '\n' || c == '\r' {
			l.b[i] = ' '
		}
	}
	return append(l.b, ']')
}

// geminiKept takes kept parts apart, and returns their calls with the ids that
// Gemini gave them, if it gave any. It is false if there are no parts, or if
// their calls are not those of the message.
func geminiKept(parts []byte, want []Call) (list []json.RawMessage, calls []Call, ok bool) {
	list, err := wire.Elements(parts)
	if err != nil || len(list) == 0 {
		return nil, nil, false
	}
	for _, part := range list {
		for key, value := range wire.Members(part) {
			if string(key) == "functionCall" {
				calls = append(calls, geminiCall(value))
			}
		}
	}
	if len(calls) != len(want) {
		return nil, nil, false
	}
	for i, c := range calls {
		if c.Name == "" || c.Name != want[i].Name || c.ID != "" && c.ID != want[i].ID || !sameArgs(c.Args, want[i].Args) {
			return nil, nil, false
		}
	}
	return list, calls, true
}

// geminiCall reads a functionCall.
func geminiCall(raw []byte) (c Call) {
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "id":
			c.ID = text(value)
		case "name":
			c.Name = text(value)
		case "args":
			if string(value) != "null" {
				c.Args = string(value)
			}
		}
	}
	return c
}

// sameArgs reports whether arguments mean the same; no arguments are {}. They
// are nearly always the same bytes, but who stored them may have written
// another escape for a character.
func sameArgs(a, b string) bool {
	x, y := bytes.TrimSpace([]byte(a)), bytes.TrimSpace([]byte(b))
	if bytes.Equal(x, y) {
		return true
	}
	return reflect.DeepEqual(argsValue(x), argsValue(y))
}

func argsValue(raw []byte) any {
	if len(raw) == 0 {
		return map[string]any{}
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil // broken, and so the same as null: neither is an object
	}
	return v
}
