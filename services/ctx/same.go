package assemble

import (
	"bytes"
	"slices"

	"zino/pkg/wire"
)

// text is what a message says: its role and its content, as they stand in it.
type text struct {
	role, content []byte
}

// textOf reads a message. Where a key stands twice the last one counts, as it
// does for every reader.
func textOf(message []byte) (t text) {
	for key, value := range wire.Members(message) {
		switch string(key) {
		case "role":
			t.role = value
		case "content":
			t.content = value
		}
	}
	return t
}

// textsOf reads the messages of a list.
func textsOf(list []byte) (texts []text) {
	for message := range wire.Items(list) {
		texts = append(texts, textOf(message))
	}
	return texts
}

// isUser reports whether the message is a question.
func (t text) isUser() bool { return same(t.role, []byte(`"user"`)) }

// within reports whether every one of these messages stands among those.
func within(these, those []text) bool {
	for _, t := range these {
		if !t.among(those) {
			return false
		}
	}
	return true
}

func (t text) among(texts []text) bool { return slices.ContainsFunc(texts, t.same) }

// same reports whether two messages say the same.
func (t text) same(other text) bool {
	return same(t.content, other.content) && same(t.role, other.role)
}

// same reports whether two JSON strings stand for the same text. Values that
// are no strings are no text, and never the same.
func same(a, b []byte) bool {
	if len(a) < 2 || len(b) < 2 || a[0] != '"' || b[0] != '"' {
		return false
	}
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	if i == len(a) && i == len(b) {
		return true
	}
	// Where they part decides, unless that is in an escape of one of them.
	if !inEscape(a, i) && !inEscape(b, i) {
		return false
	}
	plainA, okA := wire.Unquote(nil, a)
	plainB, okB := wire.Unquote(nil, b)
	return okA && okB && bytes.Equal(plainA, plainB)
}

// inEscape reports whether the byte at i may belong to an escape, of which the
// longest is \u00e9.
func inEscape(s []byte, i int) bool {
	for from := max(0, i-len(`\u00e`)); i >= from; i-- {
		if i < len(s) && s[i] == '\\' {
			return true
		}
	}
	return false
}
