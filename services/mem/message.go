package mem

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"zino/pkg/wire"
)

// message has the keys that every stored message needs; other keys are kept
// unchanged.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// parseMessages parses a list of messages: objects with a string role and a string
// content. It fails on any other element. The texts are copies, see clean.
func parseMessages(raw []byte) (texts [][]byte, parsed []message, err error) {
	if len(raw) == 0 {
		return nil, nil, nil
	}
	list, err := wire.Elements(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("messages: %w", err)
	}
	for i, elem := range list {
		text := clean(elem)
		m, err := parseMessage(text)
		if err != nil {
			return nil, nil, fmt.Errorf("messages[%d]: %w; a message is an object with a string role and a string content", i, err)
		}
		texts, parsed = append(texts, text), append(parsed, m)
	}
	return texts, parsed, nil
}

func parseMessage(text []byte) (m message, err error) {
	if err := wire.Decode(text, &m); err != nil {
		return m, err
	}
	// wire.Decode ignores a null in a duplicate key, but other readers of the file
	// would use the null.
	if bytes.Contains(text, []byte("null")) {
		var last map[string]json.RawMessage
		if err := json.Unmarshal(text, &last); err != nil {
			return m, err
		}
		if string(last["role"]) == "null" || string(last["content"]) == "null" {
			return m, errors.New("role or content is null")
		}
	}
	return m, nil
}

func isMessage(text []byte) bool { return wire.Valid(text) && hasMessage(text) }

// hasMessage is isMessage for valid JSON. Unlike parseMessage it does not decode
// the content.
func hasMessage(text []byte) bool {
	var role, content []byte // the last value of duplicate keys
	for key, value := range wire.Members(text) {
		isRole := string(key) == "role"
		if !isRole && string(key) != "content" {
			continue
		}
		if value[0] != '"' && string(value) != "null" {
			return false
		}
		if isRole {
			role = value
		} else {
			content = value
		}
	}
	return len(role) > 0 && role[0] == '"' && len(content) > 0 && content[0] == '"'
}

// clean returns a normalized copy of a JSON text.
func clean(text []byte) []byte { return normalize(bytes.Clone(text)) }

// normalize returns a JSON text in one line and in valid UTF-8, with U+FFFD in place
// of lone surrogates. It may modify text.
func normalize(text []byte) []byte {
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte("\ufffd"))
	}
	if bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 {
		var line bytes.Buffer
		if json.Compact(&line, text) == nil {
			text = line.Bytes()
		}
	}
	wire.ReplaceSurrogates(text)
	return text
}

// listOf returns a JSON list of these elements.
func listOf(elems [][]byte) []byte {
	size := len("[]") + len(elems)
	for _, e := range elems {
		size += len(e)
	}
	list := append(wire.Buffer(size), '[')
	for i, e := range elems {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, e...)
	}
	return append(list, ']')
}
