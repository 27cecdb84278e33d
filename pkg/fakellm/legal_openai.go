package fakellm

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

type openaiMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls *[]struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
	ToolCallID string `json:"tool_call_id"`
}

// openaiEfforts lists the values of an effort, "" if missing.
var openaiEfforts = []string{"", "none", "minimal", "low", "medium", "high", "xhigh", "max"}

func legalOpenAI(r *Request) error {
	var in struct {
		Tools     *[]functionTool `json:"tools"`
		Effort    string          `json:"reasoning_effort"`
		Reasoning struct {
			Effort string `json:"effort"`
		} `json:"reasoning"`
		Format *struct {
			Type   string        `json:"type"`
			Schema *answerFormat `json:"json_schema"`
		} `json:"response_format"`
	}
	if err := decodeBody(r.Body, &in); err != nil {
		return err
	}
	if f := in.Format; f != nil {
		if f.Type != "json_schema" || f.Schema == nil {
			return errors.New("response_format: needs the type json_schema and json_schema")
		}
		if err := f.Schema.legal(true); err != nil {
			return fmt.Errorf("response_format: %w", err)
		}
	}
	for _, effort := range []string{in.Effort, in.Reasoning.Effort} {
		if !slices.Contains(openaiEfforts, effort) {
			return fmt.Errorf("reasoning: unknown effort %q", effort)
		}
	}
	if in.Tools != nil && len(*in.Tools) == 0 {
		return errors.New("tools: an empty list")
	}
	return legalChat[openaiMessage](r)
}

// legalChat checks a request with a list of messages that can be checked one by one.
func legalChat[M interface{ said() (said, error) }](r *Request) error {
	var in struct {
		Model    string          `json:"model"`
		Messages []M             `json:"messages"`
		Tools    *[]functionTool `json:"tools"`
	}
	if err := decodeBody(r.Body, &in); err != nil {
		return err
	}
	if in.Model == "" {
		return errors.New("model: missing")
	}
	list := make([]said, len(in.Messages))
	for i, m := range in.Messages {
		var err error
		if list[i], err = m.said(); err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	if err := legalTools(in.Tools); err != nil {
		return err
	}
	return ordered(list)
}

// functionTool is a tool in OpenAI's and Ollama's form.
type functionTool struct {
	Type     string `json:"type"`
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
}

func legalTools(tools *[]functionTool) error {
	if tools == nil {
		return nil
	}
	var names []string
	for i, t := range *tools {
		if t.Type != "function" {
			return fmt.Errorf("tools[%d]: the type is not function", i)
		}
		names = append(names, t.Function.Name)
	}
	return distinct(names)
}

// said checks a single message.
func (m openaiMessage) said() (said, error) {
	out := said{role: m.Role}
	switch m.Role {
	case system, "developer":
		out.role = system
	case user:
	case assistant:
		return m.assistant()
	case tool:
		if m.ToolCallID == "" {
			return out, errors.New("a result without tool_call_id")
		}
		out.results = []ref{{id: m.ToolCallID}}
	default:
		return out, fmt.Errorf("unknown role %q", m.Role)
	}
	if m.ToolCalls != nil {
		return out, fmt.Errorf("tool_calls in a message of the role %s", m.Role)
	}
	if m.Role != tool && m.ToolCallID != "" {
		return out, fmt.Errorf("tool_call_id in a message of the role %s", m.Role)
	}
	return out, m.content()
}

func (m openaiMessage) assistant() (said, error) {
	out := said{role: assistant}
	if m.ToolCalls == nil {
		return out, m.content()
	}
	if len(*m.ToolCalls) == 0 {
		return out, errors.New("tool_calls: an empty list")
	}
	for i, call := range *m.ToolCalls {
		// Servers with chat templates parse the arguments, so they must be JSON.
		args := json.RawMessage(call.Function.Arguments)
		if call.ID == "" || call.Type != "function" || call.Function.Name == "" || !json.Valid(args) || !isObject(args) {
			return out, fmt.Errorf("tool_calls[%d]: needs an id, the type function, a name, and a JSON object as arguments", i)
		}
		out.calls = append(out.calls, ref{id: call.ID, name: call.Function.Name})
	}
	if absent(m.Content) {
		return out, nil
	}
	return out, m.content()
}

// content checks that the content is a text or a list of parts.
func (m openaiMessage) content() error {
	if isText(m.Content) {
		return nil
	}
	var parts []openaiPart
	if absent(m.Content) || json.Unmarshal(m.Content, &parts) != nil || len(parts) == 0 {
		return errors.New("content: neither text nor parts")
	}
	for i, p := range parts {
		if err := p.check(m.Role); err != nil {
			return fmt.Errorf("content[%d]: %w", i, err)
		}
	}
	return nil
}
