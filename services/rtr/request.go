package rtr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"zino/pkg/wire"
	"zino/proto"
)

// message is what the router looks at in a message, as it stands there; the
// rest passes as it is.
type message struct{ role, content, toolCalls json.RawMessage }

func messageOf(element []byte) (m message) {
	for key, value := range wire.Members(element) {
		switch string(key) {
		case "role":
			m.role = value
		case "content":
			m.content = value
		case "tool_calls":
			m.toolCalls = value
		}
	}
	return m
}

// is reports whether the message has that role.
func (m message) is(role string) bool {
	var s string
	return json.Unmarshal(m.role, &s) == nil && s == role
}

func (m message) text() string {
	var c content
	if len(m.content) == 0 || json.Unmarshal(m.content, &c) != nil {
		return ""
	}
	return string(c)
}

// callsTools reports whether the message asks for tools in the native way.
func (m message) callsTools() bool { return len(m.toolCalls) > 0 && string(m.toolCalls) != "null" }

func invalid(format string, args ...any) error {
	return &proto.Error{Code: proto.CodeInvalid, Message: "Invalid request: " + fmt.Sprintf(format, args...)}
}

// readMessages validates a list of messages in full: nothing else has looked
// at its bytes.
func readMessages(raw proto.Raw) ([]message, error) {
	elements, err := wire.Elements(raw)
	if err != nil && !utf8.Valid(raw) {
		return nil, invalid("messages are not UTF-8")
	}
	list := make([]message, len(elements))
	for i, element := range elements {
		list[i] = messageOf(element)
		role := list[i].role
		none := len(role) == 0 || string(role) == "null"
		if none && (element[0] == '{' || string(element) == "null") {
			return nil, invalid("messages[%d] has no string role", i)
		}
		if none || role[0] != '"' {
			err = errors.New("an element is no message")
		}
	}
	if err != nil {
		return nil, invalid("messages must be a list of objects, each with a string role")
	}
	return list, nil
}

// request is the body of a request.
type request struct {
	MaxCompletionTokens int             `json:"max_completion_tokens,omitzero"`
	MaxTokens           int             `json:"max_tokens,omitzero"`
	Messages            json.RawMessage `json:"messages"`
	Model               string          `json:"model"`
	Stream              bool            `json:"stream"`
	StreamOptions       *streamOptions  `json:"stream_options,omitzero"`
	Temperature         *float64        `json:"temperature,omitzero"`
	TopP                *float64        `json:"top_p,omitzero"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// request writes the body of a request: the messages as they came, and every
// parameter that was given, 0 included.
func (e *endpoint) request(in proto.Infer) ([]byte, error) {
	t := traitsOf(e.base, e.model)
	r := request{Model: e.model, Messages: t.complete(mendSurrogates(in.Messages)), Stream: in.Stream}
	if t.sends("temperature", in.Temperature) {
		r.Temperature = &in.Temperature
	}
	if t.sends("top_p", in.TopP) {
		r.TopP = &in.TopP
	}
	if in.Stream && !t.noStreamOptions {
		r.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if t.maxTokens == "max_completion_tokens" {
		r.MaxCompletionTokens = e.maxTokens
	} else {
		r.MaxTokens = e.maxTokens
	}
	body, err := wire.AppendObject(make([]byte, 0, len(r.Messages)+roomAround), "", r)
	if err != nil {
		return nil, invalid("%v", err)
	}
	return body, nil
}

// roomAround is what a body usually takes beside its messages.
const roomAround = 512

// mendSurrogates replaces each escaped surrogate that has no partner by U+FFFD:
// some providers fail on them. raw is valid JSON.
func mendSurrogates(raw []byte) []byte {
	var out []byte
	done := 0 // where what is not in out yet begins
	for i := escape(raw, 0); i < len(raw); i = escape(raw, i) {
		switch half := surrogate(raw[i:]); {
		case half == 0:
			i += 2
		case half == 'h' && surrogate(raw[i+6:]) == 'l':
			i += 12
		default:
			out = append(append(out, raw[done:i]...), `\ufffd`...)
			i += 6
			done = i
		}
	}
	if done == 0 {
		return raw
	}
	return append(out, raw[done:]...)
}

// escape returns the index of the first escape from i on.
func escape(raw []byte, i int) int {
	if n := bytes.IndexByte(raw[i:], '\\'); n >= 0 {
		return i + n
	}
	return len(raw)
}

// surrogate tells what the escape at the start of b is: 'h' for a high
// surrogate, 'l' for a low one, 0 for anything else.
func surrogate(b []byte) byte {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' || b[2]|0x20 != 'd' {
		return 0
	}
	switch b[3] {
	case '8', '9', 'a', 'b', 'A', 'B':
		return 'h'
	case 'c', 'd', 'e', 'f', 'C', 'D', 'E', 'F':
		return 'l'
	}
	return 0
}
