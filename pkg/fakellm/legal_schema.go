package fakellm

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// answerFormat is the form in which Anthropic's wire and OpenAI's ask for an answer by a
// JSON Schema.
type answerFormat struct {
	Type   string          `json:"type"`
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict *bool           `json:"strict"`
}

// legal checks the form; named is true for OpenAI's, which has a name and is strict.
func (f *answerFormat) legal(named bool) error {
	switch {
	case f == nil:
		return nil
	case named && (!plainID.MatchString(f.Name) || f.Strict == nil || !*f.Strict):
		return errors.New("the format needs a plain name and strict: true")
	case !named && (f.Type != "json_schema" || f.Name != "" || f.Strict != nil):
		return errors.New("the format has the type json_schema and a schema alone")
	}
	return legalSchema(f.Schema)
}

// legalSchema checks that a schema is in the subset that providers take in strict mode.
func legalSchema(raw json.RawMessage) error {
	var s struct {
		Schema     string                     `json:"$schema"`
		Type       json.RawMessage            `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
		More       json.RawMessage            `json:"additionalProperties"`
		Items      json.RawMessage            `json:"items"`
		Pattern    string                     `json:"pattern"`
		Minimum    *float64                   `json:"minimum"`
	}
	if !isObject(raw) || json.Unmarshal(raw, &s) != nil {
		return fmt.Errorf("schema: not one: %s", raw)
	}
	switch {
	case s.Schema != "" || s.Pattern != "" || s.Minimum != nil:
		return fmt.Errorf("schema: a keyword that strict mode refuses: %s", raw)
	case string(s.Type) == `"object"` && (string(s.More) != "false" || len(s.Required) != len(s.Properties)):
		return fmt.Errorf("schema: an object needs additionalProperties: false and all its properties required: %s", raw)
	}
	for name, sub := range s.Properties {
		if !slices.Contains(s.Required, name) {
			return fmt.Errorf("schema: the property %q is not required", name)
		}
		if err := legalSchema(sub); err != nil {
			return err
		}
	}
	if !absent(s.Items) {
		return legalSchema(s.Items)
	}
	return nil
}
