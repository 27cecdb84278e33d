package fakellm

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

type geminiPart struct {
	Text             *string         `json:"text"`
	ThoughtSignature string          `json:"thoughtSignature"`
	InlineData       json.RawMessage `json:"inlineData"`
	Call             *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	Response *struct {
		ID       string          `json:"id"`
		Name     string          `json:"name"`
		Response json.RawMessage `json:"response"`
	} `json:"functionResponse"`
}

type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

func legalGemini(r *Request) error {
	var in struct {
		System   *geminiContent  `json:"systemInstruction"`
		Contents []geminiContent `json:"contents"`
		Config   struct {
			Thinking struct {
				Level  string `json:"thinkingLevel"`
				Budget *int   `json:"thinkingBudget"`
			} `json:"thinkingConfig"`
			MIMEType string          `json:"responseMimeType"`
			Schema   json.RawMessage `json:"responseJsonSchema"`
		} `json:"generationConfig"`
		Tools []struct {
			Functions []struct {
				Name string `json:"name"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
	}
	if err := decodeBody(r.Body, &in); err != nil {
		return err
	}
	thinking := in.Config.Thinking
	switch {
	case !slices.Contains([]string{"", "MINIMAL", "LOW", "MEDIUM", "HIGH"}, thinking.Level):
		return fmt.Errorf("thinkingConfig: unknown thinkingLevel %q", thinking.Level)
	case thinking.Level != "" && thinking.Budget != nil:
		return errors.New("thinkingConfig: both thinkingLevel and thinkingBudget")
	}
	if !absent(in.Config.Schema) {
		if in.Config.MIMEType != "application/json" {
			return errors.New("generationConfig: responseJsonSchema needs the responseMimeType application/json")
		}
		if err := legalSchema(in.Config.Schema); err != nil {
			return err
		}
	}
	var names []string
	for _, t := range in.Tools {
		for _, f := range t.Functions {
			names = append(names, f.Name)
		}
	}
	if in.System != nil {
		if _, err := (geminiContent{user, in.System.Parts}).said(); err != nil {
			return fmt.Errorf("systemInstruction: %w", err)
		}
	}
	var list []said
	for i, content := range in.Contents {
		s, err := content.said()
		if err != nil {
			return fmt.Errorf("contents[%d]: %w", i, err)
		}
		list = append(list, s)
	}
	return cmp.Or(distinct(names), ordered(list), alternating(list))
}

// said checks a single content.
func (c geminiContent) said() (said, error) {
	out := said{role: c.Role}
	switch c.Role {
	case user:
	case "model":
		out.role = assistant
	default:
		return out, fmt.Errorf("unknown role %q", c.Role)
	}
	if len(c.Parts) == 0 {
		return out, errors.New("parts: empty")
	}
	for i, p := range c.Parts {
		if err := p.check(out.role); err != nil {
			return out, fmt.Errorf("parts[%d]: %w", i, err)
		}
		if p.Call != nil {
			out.calls = append(out.calls, ref{id: p.Call.ID, name: p.Call.Name})
		}
		if p.Response != nil && len(out.results) < i {
			return out, fmt.Errorf("parts[%d]: a response behind something else", i)
		}
		if p.Response != nil {
			out.results = append(out.results, ref{id: p.Response.ID, name: p.Response.Name})
		}
	}
	return out, nil
}

// check checks a single part.
func (p geminiPart) check(role string) error {
	if _, err := base64.StdEncoding.DecodeString(p.ThoughtSignature); err != nil {
		return errors.New("thoughtSignature is not base64")
	}
	kinds := 0
	for _, there := range []bool{p.Text != nil, p.Call != nil, p.Response != nil, !absent(p.InlineData)} {
		if there {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return errors.New("not exactly one of text, functionCall, functionResponse, inlineData")
	case !absent(p.InlineData) && legalInline(p.InlineData) != nil:
		return legalInline(p.InlineData)
	case p.Text != nil && *p.Text == "" && p.ThoughtSignature == "":
		return errors.New("empty text")
	case p.Call != nil && (role != assistant || p.Call.Name == "" || !absent(p.Call.Args) && !isObject(p.Call.Args)):
		return errors.New("functionCall needs the role model, a name, and an object as args")
	case p.Response != nil && (role != user || p.Response.Name == "" || !isObject(p.Response.Response)):
		return errors.New("functionResponse needs the role user, a name, and an object as response")
	}
	return nil
}
