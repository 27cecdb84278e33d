package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	// Text is the text of a message that rtr made itself; Said returns
	// the text of any message.
	Text string
	// Calls are the tools that an assistant's message calls.
	Calls []Call
	// CallID is the id of the call whose result a tool's message is.
	CallID string
	// Failed is true for the result of a tool that failed: the message, or else the
	// envelope in its content, has "ok": false.
	Failed bool
	// Files are the attachments of a message of the user or a tool.
	Files []File
	// State is the provider's data to be sent back: see newState.
	State json.RawMessage
	// Raw is the whole message as received, and content a part of it.
	Raw     json.RawMessage
	content []byte
	marked  bool // it has a member ok, which no provider is to see
}

// Said returns the content's text without parts of other kinds. It parses the
// content on each call: messages that are sent unchanged are never parsed.
func (m Message) Said() string {
	if m.Text != "" {
		return m.Text
	}
	return contentOf(m.content)
}

// silent reports whether a message has no text.
func (m Message) silent() bool {
	plain := len(m.content) > 2 && m.content[0] == '"' // a string that is not empty
	return m.Text == "" && !plain && contentOf(m.content) == ""
}

// sound reports whether a message can be sent unchanged: it has none of our own
// members, and its arguments are objects, which servers with chat templates demand.
func (m Message) sound() bool {
	return len(m.Raw) > 0 && len(m.Files) == 0 && len(m.State) == 0 && !m.marked && !slices.ContainsFunc(m.Calls, func(c Call) bool { return !c.whole() })
}

// Call is one call of a tool. Args is the JSON text that the model wrote; it may
// not be JSON at all.
type Call struct{ ID, Name, Args string }

// whole reports whether the arguments are a JSON object, which every provider
// accepts.
func (c Call) whole() bool {
	args := []byte(c.Args)
	return len(args) > 0 && args[0] == '{' && wire.Valid(args)
}

// object returns the arguments as a JSON object. Empty arguments are an empty
// object; anything else becomes a text in an object, so that the model sees what
// it wrote.
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

// ReadMessages parses a list of messages and validates all of its bytes.
func ReadMessages(raw proto.Raw) ([]Message, error) {
	elements, err := wire.Elements(raw)
	if err != nil && !utf8.Valid(raw) {
		return nil, invalid("messages are not UTF-8")
	}
	list := make([]Message, len(elements))
	for i, element := range elements {
		m, role := &list[i], []byte(nil)
		m.Raw = element
		for key, value := range wire.Members(element) {
			switch string(key) {
			case "role":
				role = value
				m.Role = stringOf(value)
			case "content":
				m.content = value
			case "tool_calls":
				m.Calls = readCalls(value)
			case "tool_call_id":
				m.CallID = stringOf(value)
			case "reasoning_state":
				m.State = value
			case "ok":
				m.marked, m.Failed = true, string(value) == "false"
			}
		}
		var fileErr error
		if m.Files, fileErr = readFiles(m.content); fileErr != nil {
			return nil, fileErr
		}
		missing := len(role) == 0 || string(role) == "null"
		if missing && (element[0] == '{' || string(element) == "null") {
			return nil, invalid("messages[%d] has no string role", i)
		}
		if missing || role[0] != '"' {
			err = errors.New("an element is not a message")
		}
		if m.Role == "developer" {
			m.Role = "system"
		}
		if m.Role != "tool" {
			m.marked, m.Failed = false, false
		} else if !m.marked {
			m.Failed = string(envelopeOK(m.Said())) == "false"
		}
	}
	if err != nil {
		return nil, invalid("messages must be a list of objects, each with a string role")
	}
	return list, nil
}

// readCalls parses tool calls in OpenAI's form. Arguments that are an object
// instead of a text are kept unchanged.
func readCalls(raw []byte) (calls []Call) {
	elements, err := wire.Elements(raw)
	if err != nil {
		return nil // null, or not a list
	}
	for _, element := range elements {
		var c Call
		for key, value := range wire.Members(element) {
			switch string(key) {
			case "id":
				c.ID = stringOf(value)
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
			name = stringOf(value)
		case "arguments":
			if args = stringOf(value); value[0] == '{' {
				args = string(value)
			}
		}
	}
	return name, args
}

// envelopeOK returns the member "ok" of a tool's result in the form of our tools,
// nil for any other result.
func envelopeOK(result string) []byte {
	if len(result) == 0 || result[0] != '{' || !wire.Valid([]byte(result)) {
		return nil
	}
	return memberOf([]byte(result), "ok")
}

// ReadTools parses a list of tools in OpenAI's form.
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

// lost is the result of a call that has no result in the conversation: providers
// refuse such a call.
const lost = `{"ok":false,"error":{"code":"interrupted","message":"The result of this call was lost."}}`

// continuation is the text of a user's message that a wire demands.
const continuation = "Continue."

// legal returns a conversation that every provider accepts: each call is followed by
// its result, results without a call and assistant messages without content are
// left out. A list that is legal already, as nearly all are, is
// returned as it is.
func legal(list []Message) []Message {
	if isLegal(list) {
		return list
	}
	out := make([]Message, 0, len(list)+1)
	for i := 0; i < len(list); i++ {
		m := list[i]
		switch {
		case m.Role == "tool": // its call is not the message before
		case m.Role == "assistant" && len(m.Calls) > 0:
			results := 0
			for i+1+results < len(list) && list[i+1+results].Role == "tool" {
				results++
			}
			out = append(out, m)
			rest := slices.Clone(list[i+1 : i+1+results])
			for _, c := range m.Calls {
				result := Message{Role: "tool", CallID: c.ID, Text: lost, Failed: true}
				if j := slices.IndexFunc(rest, func(r Message) bool { return r.CallID == c.ID }); j >= 0 {
					result = rest[j]
					rest = slices.Delete(rest, j, j+1)
				}
				out = append(out, result)
			}
			i += results
		case m.Role != "assistant" || !m.silent() || len(m.State) > 0:
			out = append(out, m)
		}
	}
	return out
}

// isLegal reports whether legal would change nothing.
func isLegal(list []Message) bool {
	var open []Call // calls whose results must follow
	for _, m := range list {
		switch {
		case m.Role == "tool":
			if len(open) == 0 || open[0].ID != m.CallID {
				return false
			}
			open = open[1:]
		case len(open) > 0:
			return false
		case m.Role == "assistant":
			if open = m.Calls; len(open) == 0 && m.silent() && len(m.State) == 0 {
				return false
			}
		}
	}
	return len(open) == 0
}

// split separates the system prompt from a conversation and makes the rest begin
// and end with the user. A system message in the middle becomes a user's message,
// since most wires allow it at the front only.
func split(list []Message) (system string, rest []Message) {
	for len(list) > 0 && list[0].Role == "system" {
		system = joined(system, list[0].Said())
		list = list[1:]
	}
	rest = make([]Message, 0, len(list)+2)
	if len(list) > 0 && list[0].Role == "assistant" {
		rest = append(rest, Message{Role: "user", Text: continuation})
	}
	for _, m := range list {
		if m.Role == "system" {
			m.Role = "user"
		}
		rest = append(rest, m)
	}
	if len(rest) == 0 || rest[len(rest)-1].Role == "assistant" {
		rest = append(rest, Message{Role: "user", Text: continuation})
	}
	return system, rest
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}

// endsWithAssistant reports whether the last message is the assistant's, without
// calls.
func endsWithAssistant(list []Message) bool {
	return len(list) > 0 && list[len(list)-1].Role == "assistant" && len(list[len(list)-1].Calls) == 0
}

// AsText returns a conversation without native calls, for a model that has no
// tools: each call and its result stand in the assistant's text, in the form in
// which such a model writes calls itself.
func AsText(list []Message) []Message {
	if !slices.ContainsFunc(list, func(m Message) bool { return len(m.Calls) > 0 || m.Role == "tool" }) {
		return list
	}
	var out []Message
	list = legal(list)
	for i := 0; i < len(list); i++ {
		m := list[i]
		if len(m.Calls) == 0 {
			out = append(out, m)
			continue
		}
		b := []byte(m.Said())
		for _, c := range m.Calls {
			i++
			args := []byte(c.Args)
			if !wire.Valid(args) {
				args = wire.AppendString(nil, c.Args)
			}
			b = wire.AppendString(append(b, "<tool_call>\n{\"name\":"...), c.Name)
			b = append(append(b, `,"arguments":`...), args...)
			b = append(b, "}\n</tool_call>\n<tool_response>\n"...)
			b = append(append(b, list[i].Said()...), "\n</tool_response>\n"...)
		}
		out = append(out, Message{Role: m.Role, Text: string(b)})
	}
	return out
}

// lesson teaches the form that calls have in text. It covers what AsText shows and
// no more: every request pays for its tokens.
const lesson = `# Tools

To call a tool, write a block of exactly this form, one JSON object between the tags:

<tool_call>
{"name": "NAME", "arguments": {"PARAMETER": "value"}}
</tool_call>

End your text after the block and wait. The tool runs, and its result comes back between <tool_response> and </tool_response>: never write a response yourself. To call several tools, write several blocks in a row. Tags act wherever you write them, so use them for calls only. The JSON must be valid: in a string, \n is a line break, \" a quote, \\ a backslash. Text without a block is your answer and ends the turn.

The tools, each with the JSON Schema of its arguments:`

// WithTextTools returns a conversation for a model that has no tools in its
// provider's form: they are described after the system prompt. The same tools give
// the same bytes, so that the provider's cache of one request serves the next. The
// caller's list is not changed.
func WithTextTools(list []Message, tools []Tool) []Message {
	if len(tools) == 0 {
		return list
	}
	described := []byte(lesson)
	for _, t := range tools {
		described = append(append(append(described, "\n- "...), t.Name...), ": "...)
		if words := strings.Join(strings.Fields(t.Description), " "); words != "" {
			described = append(append(described, words...), ' ')
		}
		var schema bytes.Buffer
		if json.Compact(&schema, t.Parameters) != nil {
			schema = *bytes.NewBuffer(t.Parameters) // shows the tool's author what is wrong with it
		}
		described = append(described, schema.Bytes()...)
	}
	return withSystem(list, string(described))
}

// withSystem returns the messages with a text at the end of the system prompt.
func withSystem(list []Message, text string) []Message {
	system, rest := Message{Role: "system", Text: text}, list
	if len(list) > 0 && list[0].Role == "system" {
		system.Text, rest = joined(strings.TrimRight(list[0].Said(), "\r\n"), system.Text), list[1:]
	}
	return append([]Message{system}, rest...)
}

// newState returns the state of an answer, which is sent back only on the same wire
// to the same model. content is valid JSON.
func newState(name, model string, content []byte) []byte {
	b := wire.AppendString([]byte(`{"provider":`), name)
	b = wire.AppendString(append(b, `,"model":`...), model)
	b = append(append(b, `,"content":`...), content...)
	return append(b, '}')
}

// stateOf returns the content of a message's state, if it is of that wire and
// model.
func stateOf(m Message, name, model string) json.RawMessage {
	if stringOf(memberOf(m.State, "provider")) != name || stringOf(memberOf(m.State, "model")) != model {
		return nil
	}
	return memberOf(m.State, "content")
}

// plainName makes a name of the characters that the wires take in ids and names,
// with room for a number after it: Anthropic takes 128 characters.
func plainName(s string) string {
	if s == "" {
		return "unnamed"
	}
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, s)
	return plain[:min(len(plain), 120)]
}

// sendable returns calls as Gemini and Ollama accept them: each with a name, and
// with ids only if all differ, which some providers do not ensure.
func sendable(calls []Call) []Call {
	out := make([]Call, len(calls))
	seen := make(map[string]bool, len(calls))
	for i, c := range calls {
		seen[c.ID] = true
		out[i] = Call{ID: c.ID, Name: plainName(c.Name), Args: c.Args}
	}
	if len(seen) < len(calls) {
		for i := range out {
			out[i].ID = ""
		}
	}
	return out
}

// roomAround is the usual size of a body without its messages, in bytes.
const roomAround = 512

// encodeBody encodes the body of a request, of which size bytes are encoded
// already.
func encodeBody(body any, size int) ([]byte, error) {
	b, err := wire.AppendObject(make([]byte, 0, size+roomAround), "", body)
	if err != nil {
		return nil, invalid("%v", err)
	}
	wire.ReplaceSurrogates(b) // some providers fail on them
	return b, nil
}
