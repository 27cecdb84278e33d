package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"zino/pkg/wire"
	"zino/proto"
)

// Message is one message of a conversation.
type Message struct {
	// Role is "system", "user", "assistant" or "tool"; "developer" is read as
	// "system".
	Role string
	// Text is what a message says that did not come but was made; Said tells
	// what any message says.
	Text string
	// Calls are the tools that an assistant's message calls.
	Calls []Call
	// CallID is the call that a tool's message answers.
	CallID string
	// Failed is true for a tool's result that says "ok": false.
	Failed bool
	// State is what the provider gave to be handed back: see StateOf.
	State json.RawMessage
	// Raw is the whole message as it came, and content a part of it.
	Raw     json.RawMessage
	content []byte
}

// Said is the content's text. Parts that are no text are left out. It is read
// when it is asked for: where messages go out as they came, nobody does.
func (m Message) Said() string {
	if m.Text != "" {
		return m.Text
	}
	return contentOf(m.content)
}

// silent reports whether a message says nothing.
func (m Message) silent() bool {
	plain := len(m.content) > 2 && m.content[0] == '"' // a string that is not empty
	return m.Text == "" && !plain && contentOf(m.content) == ""
}

// Call is one call of a tool. Args is the JSON text that the model wrote; it
// may be no JSON at all.
type Call struct{ ID, Name, Args string }

// whole reports whether the arguments are a JSON object: what every provider
// takes back.
func (c Call) whole() bool {
	args := []byte(c.Args)
	return len(args) > 0 && args[0] == '{' && wire.Valid(args)
}

// object is the arguments as a JSON object. None at all are an empty one, and
// what is no object stands as text in one, so that the model sees what it wrote.
func (c Call) object() []byte {
	args := bytes.TrimSpace([]byte(c.Args))
	switch {
	case len(args) == 0:
		return []byte("{}")
	case args[0] == '{' && wire.Valid(args):
		return args
	}
	return append(wire.AppendString([]byte(`{"_malformed":`), args), '}')
}

func invalid(format string, args ...any) error {
	return &proto.Error{Code: proto.CodeInvalid, Message: "Invalid request: " + fmt.Sprintf(format, args...)}
}

// ReadMessages reads and validates a list of messages in full: nothing else
// has looked at its bytes.
func ReadMessages(raw proto.Raw) ([]Message, error) {
	elements, err := wire.Elements(raw)
	if err != nil && !utf8.Valid(raw) {
		return nil, invalid("messages are not UTF-8")
	}
	list := make([]Message, len(elements))
	for i, element := range elements {
		var role json.RawMessage
		list[i], role = readMessage(element)
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

func readMessage(element []byte) (m Message, role json.RawMessage) {
	m.Raw = element
	for key, value := range wire.Members(element) {
		switch string(key) {
		case "role":
			role = value
			m.Role = text(value)
		case "content":
			m.content = value
		case "tool_calls":
			m.Calls = readCalls(value)
		case "tool_call_id":
			m.CallID = text(value)
		case "reasoning_state":
			m.State = value
		}
	}
	if m.Role == "developer" {
		m.Role = "system"
	}
	m.Failed = m.Role == "tool" && saysFailed(m.Said())
	return m, role
}

// text is a JSON string's value, empty for anything else.
func text(raw []byte) string {
	if len(raw) < 3 {
		return ""
	}
	s, ok := wire.Unquote(nil, raw)
	if !ok {
		return ""
	}
	return string(s)
}

// contentOf is text in the forms that messages have: a string, null, or a list
// of parts, of which those of type text are taken.
func contentOf(raw []byte) string {
	if len(raw) == 0 || raw[0] != '[' {
		return text(raw)
	}
	parts, err := wire.Elements(raw)
	if err != nil {
		return ""
	}
	var all strings.Builder
	for _, part := range parts {
		for key, value := range wire.Members(part) {
			if string(key) == "text" {
				all.WriteString(text(value))
			}
		}
	}
	return all.String()
}

// readCalls reads tool calls in OpenAI's form. Arguments that are an object
// and not a text are taken as they stand.
func readCalls(raw []byte) (calls []Call) {
	elements, err := wire.Elements(raw)
	if err != nil {
		return nil // null, or nothing of the kind
	}
	for _, element := range elements {
		var c Call
		for key, value := range wire.Members(element) {
			switch string(key) {
			case "id":
				c.ID = text(value)
			case "function":
				c.Name, c.Args = readFunction(value)
			}
		}
		calls = append(calls, c)
	}
	return calls
}

func readFunction(raw []byte) (name, args string) {
	for key, value := range wire.Members(raw) {
		switch string(key) {
		case "name":
			name = text(value)
		case "arguments":
			if args = text(value); value[0] == '{' {
				args = string(value)
			}
		}
	}
	return name, args
}

// saysFailed reports whether a tool's result is an envelope with "ok": false.
func saysFailed(result string) bool {
	if len(result) == 0 || result[0] != '{' || !wire.Valid([]byte(result)) {
		return false
	}
	for key, value := range wire.Members([]byte(result)) {
		if string(key) == "ok" {
			return string(value) == "false"
		}
	}
	return false
}

// ReadTools reads a list of tools in OpenAI's form.
func ReadTools(raw proto.Raw) ([]Tool, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if !utf8.Valid(raw) {
		return nil, invalid("tools are not UTF-8")
	}
	var list []struct {
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, invalid("tools must be a list of {\"type\":\"function\",\"function\":{…}}")
	}
	tools := make([]Tool, len(list))
	for i, t := range list {
		if t.Function.Name == "" {
			return nil, invalid("tools[%d] has no function with a name", i)
		}
		tools[i] = Tool(t.Function)
		if p := tools[i].Parameters; len(p) == 0 || p[0] != '{' {
			tools[i].Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
	}
	return tools, nil
}
