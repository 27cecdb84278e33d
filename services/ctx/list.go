package assemble

import (
	"bytes"
	"slices"

	"zino/pkg/message"
	"zino/pkg/wire"
	"zino/proto"
)

// joined is a list of messages from other lists. The parts are collected first and
// copied once.
type joined struct {
	parts [][]byte // messages with commas between them, none empty
}

// add adds messages without their brackets.
func (j *joined) add(elements ...[]byte) {
	for _, part := range elements {
		if len(part) > 0 {
			j.parts = append(j.parts, part)
		}
	}
}

// sizeWith returns the length of the list's content with more messages added.
func (j *joined) sizeWith(more ...[]byte) int {
	n, size := len(j.parts)+len(more), 0
	for _, parts := range [][][]byte{j.parts, more} {
		for _, part := range parts {
			size += len(part)
		}
	}
	return size + max(0, n-1)
}

// array returns the whole list.
func (j *joined) array() proto.Raw {
	list := append(wire.Buffer(j.sizeWith()+len("[]")), '[')
	for i, part := range j.parts {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, part...)
	}
	return append(list, ']')
}

// split returns the messages of a list. It checks the syntax between messages, not
// inside them.
func split(list proto.Raw) ([][]byte, error) {
	inner, err := message.Inner(list)
	if err != nil {
		return nil, err
	}
	var messages [][]byte
	for element := range wire.Items(list) {
		if element[0] != '{' {
			return nil, message.ErrNotList
		}
		messages = append(messages, element)
	}
	// Items ends at the first syntax error.
	if len(messages) > 0 && !bytes.HasSuffix(inner, messages[len(messages)-1]) {
		return nil, message.ErrNotList
	}
	return messages, nil
}

// spoken is the role and the content of a message, as JSON.
type spoken struct {
	role, content []byte
}

// readMessage reads a message. The last of duplicate keys is used, as by
// encoding/json.
func readMessage(element []byte) (m spoken) {
	for key, value := range wire.Members(element) {
		switch string(key) {
		case "role":
			m.role = value
		case "content":
			m.content = value
		}
	}
	return m
}

func (m spoken) isUser() bool { return equalStrings(m.role, []byte(`"user"`)) }

func (m spoken) equal(other spoken) bool {
	return equalStrings(m.content, other.content) && equalStrings(m.role, other.role)
}

// containsAll reports whether every message of part is in all.
func containsAll(all, part []spoken) bool {
	for _, m := range part {
		if !slices.ContainsFunc(all, m.equal) {
			return false
		}
	}
	return true
}

// equalStrings reports whether two JSON strings have the same value. Other values
// are never equal.
func equalStrings(a, b []byte) bool {
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
	// Strings that differ outside of an escape need not be decoded.
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
	return bytes.IndexByte(s[max(0, i-len(`\u00e`)):min(i+1, len(s))], '\\') >= 0
}
