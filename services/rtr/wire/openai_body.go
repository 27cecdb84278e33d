package wire

import (
	"encoding/json"
	"slices"
	"strconv"

	"zino/pkg/wire"
)

// completionRequest is the body of a request for a chat completion.
type completionRequest struct {
	MaxCompletionTokens int             `json:"max_completion_tokens,omitzero"`
	MaxTokens           int             `json:"max_tokens,omitzero"`
	Messages            json.RawMessage `json:"messages"`
	Model               string          `json:"model"`
	Reasoning           *reasoning      `json:"reasoning,omitzero"`        // OpenRouter
	ReasoningEffort     string          `json:"reasoning_effort,omitzero"` // all others
	Stream              bool            `json:"stream"`
	StreamOptions       *streamOptions  `json:"stream_options,omitzero"`
	Temperature         *float64        `json:"temperature,omitzero"`
	Tools               json.RawMessage `json:"tools,omitzero"`
	TopP                *float64        `json:"top_p,omitzero"`
	Usage               *usageOptions   `json:"usage,omitzero"`
}

// reasoning asks for reasoning, at OpenRouter and on the wire of Responses.
type reasoning struct {
	Effort  string `json:"effort,omitzero"`
	Summary string `json:"summary,omitzero"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// usageOptions has OpenRouter tell the cost.
type usageOptions struct {
	Include bool `json:"include"`
}

// roomAround is what a body usually takes beside its messages.
const roomAround = 512

// completionBody writes the body of a request: the messages as they came, and
// every parameter that the model takes, 0 included.
func completionBody(req *Request, name string) ([]byte, error) {
	t := req.Traits
	r := completionRequest{Model: req.Model, Messages: completionMessages(req, name), Stream: req.Stream, Tools: completionTools(req.Tools)}
	r.Temperature, r.TopP = t.sampling(req)
	if req.Stream && !t.NoStreamOptions {
		r.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if t.MaxTokensField == "max_completion_tokens" {
		r.MaxCompletionTokens = req.MaxTokens
	} else {
		r.MaxTokens = req.MaxTokens
	}
	if name == "openrouter" {
		r.Usage = &usageOptions{Include: true}
		if req.Effort != "" {
			r.Reasoning = &reasoning{Effort: req.Effort}
		}
	} else {
		r.ReasoningEffort = req.Effort
	}
	body, err := wire.AppendObject(make([]byte, 0, len(r.Messages)+len(r.Tools)+roomAround), "", r)
	if err != nil {
		return nil, invalid("%v", err)
	}
	return body, nil
}

// completionMessages are the messages, spliced from what came wherever nothing
// is to be changed.
func completionMessages(req *Request, name string) json.RawMessage {
	list := legal(req.Messages)
	needsUser := req.Traits.NoAssistantLast && endsWithAssistant(list)
	if !needsUser && unchanged(req.Messages, list) {
		return mendSurrogates(req.Raw)
	}
	b := append(make([]byte, 0, len(req.Raw)+roomAround), '[')
	for _, m := range list {
		b = appendMessage(b, m, name, req.Model)
	}
	if needsUser {
		b = appendMessage(b, Message{Role: "user", Text: continuation}, name, req.Model)
	}
	return mendSurrogates(append(b, ']'))
}

func endsWithAssistant(list []Message) bool {
	return len(list) > 0 && list[len(list)-1].Role == "assistant" && len(list[len(list)-1].Calls) == 0
}

// unchanged reports whether a list is what came, with nothing in it that is
// ours alone.
func unchanged(came, list []Message) bool {
	if len(came) != len(list) || len(list) > 0 && &came[0] != &list[0] {
		return false
	}
	for _, m := range list {
		if len(m.State) > 0 || len(m.Raw) == 0 || !m.sound() {
			return false
		}
	}
	return true
}

func appendMessage(b []byte, m Message, name, model string) []byte {
	if b[len(b)-1] != '[' {
		b = append(b, ',')
	}
	switch {
	case len(m.Raw) > 0 && len(m.State) == 0 && m.sound():
		return append(b, m.Raw...)
	case len(m.Raw) > 0:
		return appendWithState(b, m, stateOf(m, name, model))
	}
	b = wire.AppendString(append(b, `{"role":`...), m.Role)
	if m.CallID != "" {
		b = wire.AppendString(append(b, `,"tool_call_id":`...), m.CallID)
	}
	b = wire.AppendString(append(b, `,"content":`...), m.Said())
	return append(b, '}')
}

// appendWithState writes a message without our member for the state, and with
// what the state holds in the places that it came from.
func appendWithState(b []byte, m Message, state []byte) []byte {
	var fields, calls []byte
	for key, value := range wire.Members(state) {
		switch string(key) {
		case "fields":
			fields = value
		case "calls":
			calls = value
		}
	}
	var object []byte
	for key, value := range wire.Members(m.Raw) {
		switch string(key) {
		case "reasoning_state":
		case "tool_calls":
			object = appendMember(object, key, withExtras(value, m.Calls, calls))
		default:
			object = appendMember(object, key, value)
		}
	}
	for key, value := range wire.Members(fields) {
		object = appendMember(object, key, value)
	}
	return append(append(b, object...), '}')
}

// sound reports whether a message can go out as it came: servers that put it
// through a template fail at arguments that are no object.
func (m Message) sound() bool {
	return !slices.ContainsFunc(m.Calls, func(c Call) bool { return !c.whole() })
}

// withExtras adds to each call the members that the state has for its place,
// and makes objects of all arguments.
func withExtras(raw []byte, calls []Call, extras []byte) []byte {
	b := []byte("[")
	i := 0
	for element := range wire.Items(raw) {
		if i > 0 {
			b = append(b, ',')
		}
		object := appendCallMembers(nil, element, calls[i])
		for place, members := range wire.Members(extras) {
			if string(place) == strconv.Itoa(i) {
				for key, value := range wire.Members(members) {
					object = appendMember(object, key, value)
				}
			}
		}
		b = append(append(b, object...), '}')
		i++
	}
	return append(b, ']')
}

func appendCallMembers(object, raw []byte, c Call) []byte {
	for key, value := range wire.Members(raw) {
		if string(key) == "function" && !c.whole() {
			value = wire.AppendString([]byte(`{"name":`), c.Name)
			value = wire.AppendString(append(value, `,"arguments":`...), c.object()) // a text, on this wire
			value = append(value, '}')
		}
		object = appendMember(object, key, value)
	}
	return object
}

func completionTools(tools []Tool) json.RawMessage {
	if len(tools) == 0 {
		return nil
	}
	b := []byte("[")
	for i, t := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendString(append(b, `{"type":"function","function":{"name":`...), t.Name)
		b = wire.AppendString(append(b, `,"description":`...), t.Description)
		b = append(append(b, `,"parameters":`...), t.Parameters...)
		b = append(b, "}}"...)
	}
	return append(b, ']')
}
