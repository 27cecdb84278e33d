package wire

import (
	"strings"
	"testing"
)

// TestReadSchema checks which schemas all providers take.
func TestReadSchema(t *testing.T) {
	object := func(properties, required string) string {
		return `{"type":"object","properties":{` + properties + `},"required":[` + required + `],"additionalProperties":false}`
	}
	for _, tt := range []struct {
		raw    string
		strict bool
	}{
		{object("", ""), true},
		{object(`"a":{"type":"string","description":"d"},"b":{"type":["integer","null"]}`, `"a","b"`), true},
		{object(`"a":{"type":"array","items":`+object(`"b":{"enum":["x"],"type":"string"}`, `"b"`)+`}`, `"a"`), true},
		{object(`"a":{"anyOf":[{"type":"string"},{"type":"null"}]}`, `"a"`), true},
		{strings.Replace(object(`"a":{"$ref":"#/$defs/s"},"b":{"$ref":"#/$defs/s"}`, `"a","b"`), "{", `{"$schema":"https://x","$defs":{"s":{"type":"string"}},`, 1), true},
		{strings.Replace(object(`"a":{"$ref":"#/$defs/s"}`, `"a"`), "{", `{"$defs":{"s":`+object(`"s":{"$ref":"#/$defs/s"}`, `"s"`)+`},`, 1), false},
		{object(`"a":{"type":"string"}`, ""), false},
		{object(`"a":{"type":"string","pattern":"x"}`, `"a"`), false},
		{object(`"a":{"type":"integer","minimum":1}`, `"a"`), false},
		{object(`"a":{"type":"array"}`, `"a"`), false},
		{object(`"a":{}`, `"a"`), false},
		{object(`"a":true`, `"a"`), false},
		{object(`"a":{"$ref":"#/$defs/none"}`, `"a"`), false},
		{`{"type":"object","properties":{}}`, false},
		{`{"type":"array","items":{"type":"string"}}`, false},
		{`{}`, false},
	} {
		schema, strict, err := ReadSchema([]byte(" " + tt.raw))
		if err != nil || strict != tt.strict || strings.Contains(string(schema), `"$schema"`) {
			t.Errorf("%s: %s, strict %v, %v", tt.raw, schema, strict, err)
		}
	}
	for _, raw := range []string{"[]", "null", "{", `"x"`} {
		if _, _, err := ReadSchema([]byte(raw)); err == nil {
			t.Errorf("%s: no error", raw)
		}
	}
}

func FuzzReadSchema(f *testing.F) {
	for _, raw := range []string{`{"type":"object"}`, `{"$schema":"x","$defs":{"a":{"$ref":"#/$defs/a"}},"type":"object","properties":{"a":{"anyOf":[{"$ref":"#/$defs/a"}]}},"required":["a"],"additionalProperties":false}`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if schema, strict, err := ReadSchema(raw); err != nil && (schema != nil || strict) {
			t.Errorf("%s, %v, %v", schema, strict, err)
		}
	})
}
