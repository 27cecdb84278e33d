package fakellm

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

type ollamaMessage struct {
	Role      string  `json:"role"`
	Content   *string `json:"content"`
	ToolCalls []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
	Images     []string `json:"images"`
	ToolName   string   `json:"tool_name"`
	ToolCallID string   `json:"tool_call_id"`
}

func legalOllama(r *Request) error {
	var in struct {
		Think  json.RawMessage   `json:"think"`
		Format json.RawMessage   `json:"format"`
		Tools  []json.RawMessage `json:"tools"`
	}
	if err := decodeBody(r.Body, &in); err != nil {
		return err
	}
	if !absent(in.Think) && !slices.Contains([]string{"true", "false", `"low"`, `"medium"`, `"high"`}, string(in.Think)) {
		return fmt.Errorf("think: neither a boolean nor a level: %s", in.Think)
	}
	if !absent(in.Format) {
		if err := legalSchema(in.Format); err != nil {
			return err
		}
		if len(in.Tools) > 0 {
			return errors.New("format: with tools the model cannot call one")
		}
	}
	return legalChat[ollamaMessage](r)
}

// said checks a single message.
func (m ollamaMessage) said() (said, error) {
	out := said{role: m.Role}
	switch m.Role {
	case system, user, assistant:
	case tool:
		if m.ToolName == "" && m.ToolCallID == "" {
			return out, errors.New("a result with neither tool_name nor tool_call_id")
		}
		out.results = []ref{{id: m.ToolCallID, name: m.ToolName, loose: true}}
	default:
		return out, fmt.Errorf("unknown role %q", m.Role)
	}
	if err := legalOllamaImages(m.Role, m.Images); err != nil {
		return out, err
	}
	if m.Content == nil && len(m.ToolCalls) == 0 {
		return out, errors.New("content: missing")
	}
	if m.Role != assistant && len(m.ToolCalls) > 0 {
		return out, fmt.Errorf("tool_calls in a message of the role %s", m.Role)
	}
	for i, call := range m.ToolCalls {
		if call.Function.Name == "" || !isObject(call.Function.Arguments) {
			return out, fmt.Errorf("tool_calls[%d]: needs a name, and an object as arguments", i)
		}
		out.calls = append(out.calls, ref{id: call.ID, name: call.Function.Name})
	}
	return out, nil
}
