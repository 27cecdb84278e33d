package provider

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

// text adds a text without a signature, a JSON string.
func (p *partList) text(value []byte, thought bool) {
	inner := value[1 : len(value)-1]
	if p.open && p.thinks == thought {
		p.b = append(p.b, inner...)
		return
	}
	p.next()
	p.open, p.thinks = true, thought
	if p.b = append(p.b, '{'); thought {
		p.signed = true
		p.b = append(p.b, `"thought":true,`...)
	}
	p.b = append(append(p.b, `"text":"`...), inner...)
}

// whole adds a part as it stands.
func (p *partList) whole(raw []byte, signed bool) {
	p.next()
	p.b = append(p.b, raw...)
	p.signed = p.signed || signed
}

// next ends the part under way.
func (p *partList) next() {
	if p.open {
		p.b, p.open = append(p.b, `"}`...), false
	}
	if len(p.b) == 0 {
		p.b = append(p.b, '[')
	} else {
		p.b = append(p.b, ',')
	}
}

// list ends the list, which has a part.
func (p *partList) list() []byte {
	if p.open {
		p.b, p.open = append(p.b, `"}`...), false
	}
	return append(p.b, ']')
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
