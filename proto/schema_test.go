package proto_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// services are in the order in which a message meets them.
var services = []string{"daemon", "sys", "ctx", "mem", "agr", "rtr", "exc", "run", "job", "repl", "audit", "mcp"}

// schema is the part of JSON Schema that the contract needs. propertyOrder is
// an addition for those who print it.
type schema struct {
	Description          string             `json:"description,omitempty"`
	Type                 any                `json:"type,omitempty"`
	Properties           map[string]*schema `json:"properties,omitempty"`
	Required             []string           `json:"required,omitempty"`
	PropertyOrder        []string           `json:"propertyOrder,omitempty"`
	Items                *schema            `json:"items,omitempty"`
	AdditionalProperties *schema            `json:"additionalProperties,omitempty"`
}

var rawType = reflect.TypeFor[proto.Raw]()

// rawSchemas say what JSON a raw field of that name holds.
var rawSchemas = map[string]schema{
	"messages": {Type: "array", Items: &schema{Type: "object"}},
	"request":  {Type: "object"},
	"response": {Type: "object"},
	"events":   {Type: "array", Items: &schema{Type: "object"}},
	"header":   {Type: "object"},

	"input":     {},
	"run_input": {Type: "object"},
	"result":    {Type: "object"},
	"results":   {Type: "object"}, // each of the calls of a delegate
	"output":    {Type: "object"},
	"data":      {Type: "object"},

	"arguments": {Type: "object"},
	"project":   {Type: "object"},
	"offer":     {Type: "object"},
	"client":    {Type: "object"},

	"plan":            {Type: "object"},
	"tools":           {Type: "array", Items: &schema{Type: "object"}},
	"tool_calls":      {Type: "array", Items: &schema{Type: "object"}},
	"reasoning_state": {Type: "object"},
	"output_schema":   {Type: "object"},
	"mcp_servers":     {Type: "object"},
	"structured":      {},
	"schema":          {Type: "object"},
	"content":         {Type: "object"},
}

// describe makes what the service of that name answers to describe.
func (s *source) describe(t *testing.T, service string) proto.Description {
	t.Helper()
	d := proto.Description{Service: service, Proto: proto.Version, Methods: []proto.MethodDescription{}}
	for _, owner := range []string{"*", service} {
		for _, m := range proto.Methods() {
			if m.Service == owner {
				d.Methods = append(d.Methods, s.describeMethod(t, m))
			}
		}
	}
	return d
}

func (s *source) describeMethod(t *testing.T, m proto.Info) proto.MethodDescription {
	t.Helper()
	doc := s.methods[[2]string{m.Service, m.Type}]
	if doc == "" {
		t.Errorf("the method %s %q has no comment", m.Service, m.Type)
	}
	return proto.MethodDescription{
		Type: m.Type, Reply: m.Reply, Kind: string(m.Kind), Doc: doc,
		Request: compact(t, s.schemaOf(t, m.Request)), Response: compact(t, s.schemaOf(t, m.Response)),
	}
}

// schemaOf makes the schema of a struct.
func (s *source) schemaOf(t *testing.T, typ reflect.Type) *schema {
	t.Helper()
	out := &schema{Description: oneLine(s.types[typ.Name()]), Type: "object", Properties: map[string]*schema{}}
	for field := range typ.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			t.Errorf("%s.%s has no JSON name", typ.Name(), field.Name)
		}
		required := options != "omitzero"
		if required && options != "" {
			t.Errorf("%s.%s: the option of an optional field is omitzero, not %q", typ.Name(), field.Name, options)
		}
		property := s.schemaOfValue(t, field.Type, name, required)
		property.Description = s.fields[typ.Name()][field.Name]
		out.Properties[name] = property
		out.PropertyOrder = append(out.PropertyOrder, name)
		if required {
			out.Required = append(out.Required, name)
		}
	}
	return out
}

// schemaOfValue makes the schema of a field's value. A pointer that is always
// sent may be null; one that is optional is absent instead.
func (s *source) schemaOfValue(t *testing.T, typ reflect.Type, name string, required bool) *schema {
	t.Helper()
	if typ == rawType {
		raw, ok := rawSchemas[name]
		if !ok {
			t.Errorf("what a raw field %q holds must be said in rawSchemas", name)
		}
		return &raw
	}
	switch typ.Kind() {
	case reflect.Pointer:
		inner := s.schemaOfValue(t, typ.Elem(), name, required)
		if required {
			inner.Type = []any{inner.Type, "null"}
		}
		return inner
	case reflect.Struct:
		return s.schemaOf(t, typ)
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Uint8 { // a string in base64
			return &schema{Type: "string"}
		}
		return &schema{Type: "array", Items: s.schemaOfValue(t, typ.Elem(), name, required)}
	case reflect.Map:
		return &schema{Type: "object", AdditionalProperties: s.schemaOfValue(t, typ.Elem(), name, required)}
	}
	kinds := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean",
		reflect.Int: "integer", reflect.Int64: "integer", reflect.Float64: "number",
	}
	if kinds[typ.Kind()] == "" {
		t.Errorf("field %q: a %s has no schema", name, typ)
	}
	return &schema{Type: kinds[typ.Kind()]}
}

// compact is v as JSON without HTML escapes.
func compact(t *testing.T, v any) []byte {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	zinotest.Must(t, enc.Encode(v))
	return bytes.TrimSpace(buf.Bytes())
}

// schemaFile is schema.json: one line a method, so that changes can be read.
func schemaFile(t *testing.T, list []proto.Description) []byte {
	t.Helper()
	var buf bytes.Buffer
	for i, d := range list {
		buf.WriteString(separator(i))
		methods := d.Methods
		d.Methods = nil
		head := compact(t, d)
		buf.Write(bytes.TrimSuffix(head, []byte("null}")))
		for j, m := range methods {
			buf.WriteString(separator(j))
			buf.Write(compact(t, m))
		}
		buf.WriteString("\n]}")
	}
	buf.WriteString("\n]\n")
	return buf.Bytes()
}

func separator(i int) string {
	if i == 0 {
		return "[\n"
	}
	return ",\n"
}
