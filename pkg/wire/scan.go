package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"unicode/utf8"
)

// The reasons given for text that cannot be read at all.
var (
	errSyntax = errors.New("malformed JSON")
	errUTF8   = errors.New("not valid UTF-8")
)

// malformed is the reason why b, which is not valid, cannot be read.
func malformed(b []byte) error {
	if !utf8.Valid(b) {
		return errUTF8
	}
	return errSyntax
}

// fields walks the members of a JSON object without decoding them. It checks
// the structure of the object itself; the text of a value is only delimited,
// by brackets and quotes, and checked by whoever reads it.
type fields struct {
	b    []byte
	i    int
	open bool // a member has been read: a comma comes next
	err  error
}

// object starts a walk over b, which must hold one object and nothing else.
func object(b []byte) fields {
	f := fields{b: b, i: space(b, 0)}
	if f.i >= len(b) {
		f.err = errors.New("empty packet: expected a JSON object")
	} else if b[f.i] != '{' {
		f.err = errors.New("expected a JSON object")
	}
	f.i++
	return f
}

// next returns the next member: its key without quotes and its value's text.
// ok is false at the end or at an error.
func (f *fields) next() (key, value []byte, ok bool) {
	if f.err != nil {
		return nil, nil, false
	}
	f.i = space(f.b, f.i)
	if f.at('}') {
		f.finish()
		return nil, nil, false
	}
	if f.open && !f.take(',') {
		return f.fail()
	}
	f.open = true
	f.i = space(f.b, f.i)
	key, ok = f.key()
	if !ok || !f.take(':') {
		return f.fail()
	}
	start := space(f.b, f.i)
	end, ok := skip(f.b, start)
	if !ok {
		return f.fail()
	}
	f.i = space(f.b, end)
	return key, f.b[start:end], true
}

func (f *fields) key() ([]byte, bool) {
	if !f.at('"') {
		return nil, false
	}
	end, ok := skipString(f.b, f.i)
	if !ok {
		return nil, false
	}
	raw := f.b[f.i:end]
	f.i = space(f.b, end)
	if text := raw[1 : len(raw)-1]; verbatim(text) {
		return text, true
	}
	return Unquote(nil, raw)
}

// finish checks that nothing but space follows the closing brace.
func (f *fields) finish() {
	if space(f.b, f.i+1) != len(f.b) {
		f.err = fmt.Errorf("%w: text after the object", errSyntax)
	}
}

func (f *fields) fail() (key, value []byte, ok bool) {
	f.err = malformed(f.b)
	return nil, nil, false
}

func (f *fields) at(c byte) bool { return f.i < len(f.b) && f.b[f.i] == c }

func (f *fields) take(c byte) bool {
	ok := f.at(c)
	f.i++
	return ok
}

// space returns the first index from i on that is not white space.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skip returns the index just behind the value that starts at i.
func skip(b []byte, i int) (int, bool) {
	if i >= len(b) {
		return i, false
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	start := i
	for i < len(b) && !delimiter[b[i]] {
		i++
	}
	return i, i > start
}

// skipNested jumps from string to string and counts brackets between them.
func skipNested(b []byte, i int) (int, bool) {
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			end, ok := skipString(b, i)
			if !ok {
				return end, false
			}
			i = end - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, true
			}
		}
	}
	return i, false
}

// skipString returns the index behind the closing quote of the string at i.
func skipString(b []byte, i int) (int, bool) {
	for i++; ; {
		j := bytes.IndexByte(b[i:], '"')
		if j < 0 {
			return len(b), false
		}
		i += j + 1
		if !escaped(b, i-1) {
			return i, true
		}
	}
}

// escaped reports whether the quote at i follows an odd number of backslashes.
func escaped(b []byte, i int) bool {
	n := 0
	for i > 0 && b[i-1] == '\\' {
		n, i = n+1, i-1
	}
	return n%2 == 1
}

var delimiter = [256]bool{
	',': true, ':': true, '}': true, ']': true, '{': true, '[': true,
	'"': true, ' ': true, '\n': true, '\t': true, '\r': true,
}

// Elements returns the elements of a JSON array as they stand in raw, which is
// checked completely: well-formed JSON, valid UTF-8, a list.
func Elements(raw []byte) ([]json.RawMessage, error) {
	i := space(raw, 0)
	if list, end, ok := elements(raw, i); ok && space(raw, end) == len(raw) && utf8.Valid(raw) {
		return list, nil
	}
	if !Valid(raw) {
		return nil, malformed(raw)
	}
	return nil, fmt.Errorf("expected a list, found %s", describe(raw[i:]))
}

// elements finds the elements of the list whose bracket stands at i while it
// checks them, and returns the index behind the list.
func elements(b []byte, i int) (list []json.RawMessage, end int, ok bool) {
	list = []json.RawMessage{}
	if i >= len(b) || b[i] != '[' {
		return nil, i, false
	}
	if i = space(b, i+1); i < len(b) && b[i] == ']' {
		return list, i + 1, true
	}
	for {
		end, ok := value(b, i, 1)
		if !ok {
			return nil, end, false
		}
		list = append(list, json.RawMessage(b[i:end]))
		if i = space(b, end); i >= len(b) || b[i] != ',' {
			return list, i + 1, i < len(b) && b[i] == ']'
		}
		i = space(b, i+1)
	}
}

// Members walks the members of a JSON object that is known to be valid, such as
// one that Elements returned: their keys without quotes and escapes, and their
// values as they stand. Of anything else it may find none or a part.
func Members(raw []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		f := object(raw)
		for key, value, ok := f.next(); ok && yield(key, value); {
			key, value, ok = f.next()
		}
	}
}

// Items walks the elements of a JSON list that is known to be valid, as Members
// does those of an object.
func Items(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		i := space(raw, 0)
		if i == len(raw) || raw[i] != '[' {
			return
		}
		for i = space(raw, i+1); i < len(raw) && raw[i] != ']'; {
			end, ok := skip(raw, i)
			if !ok || !yield(raw[i:end]) {
				return
			}
			if i = space(raw, end); i < len(raw) && raw[i] == ',' {
				i = space(raw, i+1)
			}
		}
	}
}
