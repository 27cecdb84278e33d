package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"zino/pkg/wire"
)

// takesSchema lists the models that take a JSON Schema of the answer, as efforts does: the
// last row that applies counts. "alone" is without tools only.
//
// Sources: Anthropic's page on structured outputs (output_config.format), OpenAI's guide
// to structured outputs, OpenRouter's structured outputs, Gemini's structured output with
// tools (Gemini 3), Ollama's docs/api.md.
var takesSchema = []struct {
	wire   string
	models []string
	takes  string
}{
	{"openai", nil, "yes"},
	{"openai", []string{"gpt-3", "gpt-4-", "o1-mini", "o1-preview"}, "no"},
	{"openrouter", nil, "yes"},
	{"anthropic", nil, "yes"},
	{"anthropic", []string{"claude-2", "claude-3", "claude-instant"}, "no"},
	{"gemini", nil, "alone"},
	{"gemini", []string{"gemini-3"}, "yes"},
	{"ollama", nil, "alone"},
}

// TakeSchema sets whether a model of a provider takes a JSON Schema in its own form.
func (t *Traits) TakeSchema(provider, model string) {
	t.Schema, t.SchemaAlone = false, false
	for _, row := range takesSchema {
		if row.wire == provider && beginsWith(bareName(strings.TrimPrefix(model, "models/")), row.models) {
			t.Schema, t.SchemaAlone = row.takes != "no", row.takes == "alone"
		}
	}
}

// ReadSchema reads the JSON Schema of an answer. The result is on one line, without its
// $schema. strict is true if it is in the subset that all providers take.
func ReadSchema(raw []byte) (schema json.RawMessage, strict bool, err error) {
	if len(raw) == 0 {
		return nil, false, nil
	}
	var root map[string]json.RawMessage
	var line bytes.Buffer
	if json.Unmarshal(raw, &root) != nil || root == nil || json.Compact(&line, raw) != nil {
		return nil, false, invalid(`field "output_schema": expected a JSON Schema, an object`)
	}
	schema = line.Bytes()
	if root["$schema"] != nil {
		schema = withoutMember(schema, "$schema")
	}
	s := strictly{defs: map[string]json.RawMessage{}, open: map[string]bool{}}
	for _, key := range []string{"$defs", "definitions"} {
		for name, def := range membersOf(root[key]) {
			s.defs["#/"+key+"/"+name] = def
		}
	}
	return schema, s.takes(schema, true), nil
}

// withoutMember returns an object without one member.
func withoutMember(object []byte, name string) (rest []byte) {
	for key, value := range wire.Members(object) {
		if string(key) != name {
			rest = appendMember(rest, key, value)
		}
	}
	if rest == nil {
		return []byte("{}")
	}
	return append(rest, '}')
}

// strictly checks whether a schema is in the subset of JSON Schema that all providers
// take: objects list all their properties as required and allow no others.
type strictly struct {
	defs map[string]json.RawMessage
	open map[string]bool // references that are being followed
}

// plainKeys are the keywords of the subset. Their values are checked where they matter.
var plainKeys = []string{"type", "title", "description", "enum", "properties", "required", "additionalProperties", "items", "anyOf", "$ref", "$defs", "definitions"}

// maxStrict is how deeply OpenAI takes nested schemas.
const maxStrict = 5

func (s *strictly) takes(raw json.RawMessage, root bool) bool { return s.at(raw, root, 0) }

func (s *strictly) at(raw json.RawMessage, root bool, depth int) bool {
	object := membersOf(raw)
	if object == nil || depth > 2*maxStrict {
		return false
	}
	for key := range object {
		if !slices.Contains(plainKeys, key) || !root && (key == "$defs" || key == "definitions") {
			return false
		}
	}
	if root && stringOf(object["type"]) != "object" {
		return false
	}
	if ref := stringOf(object["$ref"]); ref != "" {
		def, ok := s.defs[ref]
		if !ok || s.open[ref] || len(object) > 1 {
			return false
		}
		s.open[ref] = true
		defer delete(s.open, ref)
		return s.at(def, false, depth)
	}
	if any, ok := object["anyOf"]; ok {
		var list []json.RawMessage
		if json.Unmarshal(any, &list) != nil || len(list) == 0 {
			return false
		}
		for _, one := range list {
			if !s.at(one, false, depth+1) {
				return false
			}
		}
		return true
	}
	types, ok := typesIn(object["type"])
	if !ok {
		return false
	}
	if slices.Contains(types, "object") && !s.object(object, depth) {
		return false
	}
	return !slices.Contains(types, "array") || s.at(object["items"], false, depth+1)
}

// object checks the keywords of an object.
func (s *strictly) object(object map[string]json.RawMessage, depth int) bool {
	properties := membersOf(object["properties"])
	var required []string
	if object["required"] != nil && json.Unmarshal(object["required"], &required) != nil {
		return false
	}
	if string(bytes.TrimSpace(object["additionalProperties"])) != "false" || len(required) != len(properties) {
		return false
	}
	for _, name := range required {
		sub, ok := properties[name]
		if !ok || !s.at(sub, false, depth+1) {
			return false
		}
	}
	return true
}

// typesIn reads the keyword type: one name, or a name and "null".
func typesIn(raw json.RawMessage) (names []string, ok bool) {
	if one := stringOf(raw); one != "" {
		return []string{one}, true
	}
	if json.Unmarshal(raw, &names) != nil {
		return nil, false
	}
	return names, len(names) == 2 && slices.Contains(names, "null")
}

// membersOf decodes an object, nil if raw is something else.
func membersOf(raw json.RawMessage) (object map[string]json.RawMessage) {
	if json.Unmarshal(raw, &object) != nil {
		return nil
	}
	return object
}

// WithSchema returns the messages of a request whose answer must match a schema, for a
// model that does not take one in its provider's form.
func WithSchema(list []Message, schema json.RawMessage) []Message {
	return withSystem(list, "When the work is done, the last answer must be one JSON value that matches this JSON Schema, without any text or fence around it:\n"+string(schema))
}
