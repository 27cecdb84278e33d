package fakellm

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// minOutput is the minimum of max_output_tokens.
const minOutput = 16

// responsesItem is an item of a request's input.
type responsesItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ID        string          `json:"id"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	Summary   json.RawMessage `json:"summary"`
	Encrypted string          `json:"encrypted_content"`
}

func legalResponses(r *Request) error {
	var in struct {
		Model     string          `json:"model"`
		Input     json.RawMessage `json:"input"`
		Store     *bool           `json:"store"`
		MaxOutput *int            `json:"max_output_tokens"`
		Reasoning struct {
			Effort string `json:"effort"`
		} `json:"reasoning"`
		Text struct {
			Format *answerFormat `json:"format"`
		} `json:"text"`
		Tools []struct {
			Type       string          `json:"type"`
			Name       string          `json:"name"`
			Function   json.RawMessage `json:"function"`
			Parameters json.RawMessage `json:"parameters"`
			Strict     *bool           `json:"strict"`
		} `json:"tools"`
	}
	var members map[string]json.RawMessage
	if err := decodeBody(r.Body, &in); err != nil {
		return err
	}
	if err := decodeBody(r.Body, &members); err != nil {
		return err
	}
	if err := in.Text.Format.legal(true); err != nil {
		return fmt.Errorf("text: %w", err)
	}
	for _, name := range []string{"messages", "response_format", "max_tokens", "max_completion_tokens", "reasoning_effort", "stream_options"} {
		if members[name] != nil {
			return fmt.Errorf("%s: unknown parameter", name)
		}
	}
	var names []string
	for i, t := range in.Tools {
		if t.Type != "function" || !absent(t.Function) || !plainID.MatchString(t.Name) || !isObject(t.Parameters) {
			return fmt.Errorf("tools[%d]: needs the type function, a plain name and an object as parameters, all beside each other", i)
		}
		if t.Strict == nil || *t.Strict {
			return fmt.Errorf("tools[%d]: strict, which it is unless it says false, needs a schema of its own kind", i)
		}
		names = append(names, t.Name)
	}
	switch {
	case in.Model == "":
		return errors.New("model: missing")
	case in.MaxOutput != nil && *in.MaxOutput < minOutput:
		return fmt.Errorf("max_output_tokens: below %d", minOutput)
	case !slices.Contains(openaiEfforts, in.Reasoning.Effort):
		return fmt.Errorf("reasoning: unknown effort %q", in.Reasoning.Effort)
	case isText(in.Input):
		return distinct(names)
	}
	list, err := saidItems(in.Input, in.Store == nil || *in.Store)
	if err != nil {
		return err
	}
	if err := ordered(list); err != nil {
		return err
	}
	return distinct(names)
}

// saidItems parses the items of an input. Successive items of the assistant are one
// message. Reasoning must be followed by another item of the assistant, and must have
// its encrypted content if the provider does not store it.
func saidItems(raw json.RawMessage, stored bool) (list []said, err error) {
	var items []responsesItem
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, fmt.Errorf("input: neither text nor items: %w", err)
	}
	add := func(s said) {
		if n := len(list) - 1; n >= 0 && s.role == assistant && list[n].role == assistant {
			list[n].calls = append(list[n].calls, s.calls...)
			return
		}
		list = append(list, s)
	}
	thinks := false
	for i, item := range items {
		s, err := item.said()
		if err == nil && thinks && s.role != assistant {
			err = errors.New("reasoning without the item that follows it")
		}
		if thinks = item.Type == "reasoning"; err == nil && thinks && !stored && item.Encrypted == "" {
			err = errors.New("reasoning without encrypted_content, and nothing is stored")
		}
		if err != nil {
			return nil, fmt.Errorf("input[%d]: %w", i, err)
		}
		add(s)
	}
	if thinks {
		return nil, errors.New("input: the last item is reasoning")
	}
	return list, nil
}

// said checks a single item.
func (m responsesItem) said() (said, error) {
	switch m.Type {
	case "", "message":
		return m.message()
	case "reasoning":
		if m.ID == "" || absent(m.Summary) {
			return said{}, errors.New("reasoning needs its id and summary")
		}
		return said{role: assistant}, nil
	case "function_call":
		var args string
		if m.CallID == "" || len(m.CallID) > 64 || !plainID.MatchString(m.Name) || json.Unmarshal(m.Arguments, &args) != nil || !json.Valid([]byte(args)) {
			return said{}, errors.New("function_call needs a call_id, a plain name, and JSON in a text as arguments")
		}
		return said{role: assistant, calls: []ref{{id: m.CallID, name: m.Name}}}, nil
	case "function_call_output":
		if m.CallID == "" || !isText(m.Output) {
			return said{}, errors.New("function_call_output needs a call_id, and a text as output")
		}
		return said{role: tool, results: []ref{{id: m.CallID}}}, nil
	}
	return said{}, fmt.Errorf("unknown type %q", m.Type)
}

func (m responsesItem) message() (said, error) {
	kind := "input_text"
	out := said{role: m.Role}
	switch m.Role {
	case user:
	case assistant:
		kind = "output_text"
	case system, "developer":
		out.role = system
	default:
		return out, fmt.Errorf("unknown role %q", m.Role)
	}
	if isText(m.Content) {
		return out, nil
	}
	var parts []openaiPart
	if absent(m.Content) || json.Unmarshal(m.Content, &parts) != nil || len(parts) == 0 {
		return out, errors.New("content: neither text nor parts")
	}
	for i, p := range parts {
		if err := p.checkItem(m.Role, kind); err != nil {
			return out, fmt.Errorf("content[%d]: %w", i, err)
		}
	}
	return out, nil
}
