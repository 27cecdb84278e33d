package schema

import (
	"slices"
	"strings"
	"testing"
)

const person = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","required":["name","items"],"additionalProperties":false,
"properties":{"name":{"type":"string","minLength":1},"age":{"type":"integer","minimum":0},"kind":{"enum":["a","b"]},
"items":{"type":"array","maxItems":2,"items":{"$ref":"#/$defs/item"}}},
"$defs":{"item":{"type":"object","required":["price"],"properties":{"price":{"type":"number"},"part":{"$ref":"#/$defs/item"}}}}}`

func TestParseNamesThePlace(t *testing.T) {
	for _, tt := range []struct{ raw, want string }{
		{`{`, "not JSON: "},
		{`[]`, "a schema is an object"},
		{`{"properties":{"a":{"exclusiveMinimum":true}}}`, "/properties/a/exclusiveMinimum: "},
		{`{"properties":{"a/b":{"pattern":"(?=x)"}}}`, "/properties/a~1b/pattern: "},
		{`{"patternProperties":{"(?=x)":{}}}`, "/patternProperties/(?=x): "},
		{`{"items":{"$ref":"https://example.com/x.json"}}`, "/items/$ref: only references such as #/$defs/NAME"},
		{`{"items":{"$ref":"#/$defs/x"}}`, "/items/$ref: no schema at #/$defs/x"},
		{`{"items":{"$ref":7}}`, "/items/$ref: "},
		{`{"$dynamicRef":"#a"}`, "/$dynamicRef: $dynamicRef is not supported"},
		{`{"items":{"$id":"x"}}`, "/items/$id: "},
		{`{"properties":[]}`, "/properties: want an object"},
		{`{"anyOf":{}}`, "/anyOf: want a list of schemas"},
		{`{"items":7}`, "/items: a schema is an object or a boolean"},
		{`{"type":"text"}`, "/type: "},
		{`{"$ref":"#"}`, "the value: the schema refers to itself"},
		{`{"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"not":{"$ref":"#/$defs/a"}}}}`, "/$defs/a/not: the schema refers to itself"},
		{"{" + doubling(20) + "}", "more than 10000 schemas apply to one value"},
		{strings.Repeat(`{"items":`, 200) + "{}" + strings.Repeat("}", 200), "nested more than 100 deep"},
		{`{"title":"` + strings.Repeat("x", MaxBytes) + `"}`, "at most 262144 are accepted"},
	} {
		if _, err := Parse([]byte(tt.raw)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.80s: error %v, want %s", tt.raw, err, tt.want)
		}
	}
	for _, raw := range []string{person, `{}`, `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"items":[{"type":"string"}]}},"$ref":"#/definitions/a"}`, `{"x-own":{"any":1}}`} {
		if _, err := Parse([]byte(raw)); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// doubling returns definitions of which each applies the next one twice.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString(`"$ref":"#/$defs/a","$defs":{`)
	name := "a"
	for range n {
		next := name + "a"
		b.WriteString(`"` + name + `":{"allOf":[{"$ref":"#/$defs/` + next + `"},{"$ref":"#/$defs/` + next + `"}]},`)
		name = next
	}
	return b.String() + `"` + name + `":{}}`
}

func TestCheck(t *testing.T) {
	s, err := Parse([]byte(person))
	if err != nil {
		t.Fatal(err)
	}
	const good = `{"name":"Ada","items":[{"price":1.50}]}`
	for _, answer := range []string{good, " \n" + good + "\n", "```json\n" + good + "\n```", "```\n" + strings.ReplaceAll(good, ",", ",\r\n  ") + "```\n"} {
		if value, problems := s.Check(answer); string(value) != good || problems != nil {
			t.Errorf("%q: %s, %q", answer, value, problems)
		}
	}
	for _, tt := range []struct {
		answer string
		want   []string
	}{
		{"", []string{"not a JSON value: unexpected end of JSON input"}},
		{"Here it is: " + good, []string{"not a JSON value: invalid character 'H' looking for beginning of value, at byte 1"}},
		{`{"name":"A`, []string{"not a JSON value: unexpected end of JSON input, at byte 10"}},
		{"[]", []string{"the value: want object, got array"}},
		{`{"items":[{"price":"1"}]}`, []string{"the value: required: name", "/items/0/price: want number, got string"}},
		{`{"name":"","age":-1,"kind":"c","extra":1,"items":[{},{"price":1,"part":{"price":true}},{"price":1}]}`, []string{
			"/age: want at least 0, got -1", "/extra: not allowed", "/items/0: required: price", "/items/1/part/price: want number, got boolean", "/items: want at most 2 items, got 3",
		}},
	} {
		if value, problems := s.Check(tt.answer); value != nil || !slices.Equal(problems, tt.want) {
			t.Errorf("%s: %s, %q, want %q", tt.answer, value, problems, tt.want)
		}
	}
}

// TestCheckFallsBack checks that a keyword which the explanation does not know is an
// error nevertheless.
func TestCheckFallsBack(t *testing.T) {
	s, err := Parse([]byte(`{"oneOf":[{"type":"string"},{"minLength":2}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if value, problems := s.Check(`"ab"`); value != nil || len(problems) != 1 {
		t.Errorf("%s, %q", value, problems)
	}
}

func FuzzParse(f *testing.F) {
	for _, raw := range []string{person, `{"$ref":"#"}`, `{"items":[true,{"$ref":"#/items/0"}]}`, `{"dependencies":{"a":["b"]}}`, "{" + doubling(3) + "}", `{"pattern":"("}`} {
		f.Add([]byte(raw), `{"name":"Ada"}`)
	}
	f.Fuzz(func(t *testing.T, raw []byte, answer string) {
		s, err := Parse(raw)
		if err != nil {
			return
		}
		if value, problems := s.Check(answer); (value == nil) == (problems == nil) || len(problems) > MaxProblems {
			t.Errorf("%q, %q", value, problems)
		}
	})
}
