package proto_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"zino/pkg/zinotest"
	"zino/proto"
)

// resolved are the schemas of a method, checked.
type resolved struct {
	kind, reply       string
	request, response *jsonschema.Resolved
}

// resolve has the library check every schema of schema.json.
func resolve(t *testing.T) map[[2]string]resolved {
	t.Helper()
	all := map[[2]string]resolved{}
	for _, d := range readSchema(t, proto.Schema) {
		for _, m := range d.Methods {
			all[[2]string{d.Service, m.Type}] = resolved{m.Kind, m.Reply, resolveOne(t, m.Request), resolveOne(t, m.Response)}
		}
	}
	return all
}

func resolveOne(t *testing.T, raw []byte) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return r
}

// TestSchemaOrder holds that every property is in its order, once.
func TestSchemaOrder(t *testing.T) {
	for _, d := range readSchema(t, proto.Schema) {
		for _, m := range d.Methods {
			for _, raw := range []json.RawMessage{m.Request, m.Response} {
				s := parseSchema(t, raw)
				names := slices.Compact(slices.Sorted(slices.Values(s.PropertyOrder)))
				if len(names) != len(s.Properties) || len(names) != len(s.PropertyOrder) {
					t.Errorf("%s %q: propertyOrder %v does not name the %d properties", d.Service, m.Type, s.PropertyOrder, len(s.Properties))
				}
			}
		}
	}
}

// TestExamplesFitSchema holds the printed examples against the schemas. The
// live services are held against them in services/constellation.
func TestExamplesFitSchema(t *testing.T) {
	all := resolve(t)
	for _, e := range examples(t) {
		service := e.Service
		if service == "*" {
			service = "mem"
		}
		m, ok := all[[2]string{service, e.Type}]
		if !ok || len(e.Replies) == 0 {
			t.Errorf("%s %q: no such method, or no reply", e.Service, e.Type)
			continue
		}
		validate(t, m.request, e.Request)
		last := validateType(t, e.Replies[len(e.Replies)-1])
		switch {
		case last == m.reply:
			validate(t, m.response, e.Replies[len(e.Replies)-1])
		case m.reply != "" && !(last == "done" && m.kind == "text") && m.kind != "events":
			t.Errorf("%s %q: the example ends with %q", e.Service, e.Type, last)
		}
	}
}

// TestVectorsFitSchema holds that the schemas accept every request that the
// vectors say is good. Those that use what only the codec allows, numbers in
// strings and null, are marked lenient.
func TestVectorsFitSchema(t *testing.T) {
	all := resolve(t)
	checked := 0
	list, types := vectors(t)
	for i, v := range list {
		service := v.Service
		if service == "any" {
			service = "mem"
		}
		if m, ok := all[[2]string{service, types[i]}]; ok && !v.Lenient && v.Expect[0]["type"] != "error" {
			validate(t, m.request, []byte(v.Payload))
			checked++
		}
	}
	if checked < 20 {
		t.Errorf("only %d vectors were checked", checked)
	}
}

func validate(t *testing.T, r *jsonschema.Resolved, raw []byte) {
	t.Helper()
	var v any
	zinotest.Must(t, json.Unmarshal(raw, &v))
	if err := r.Validate(v); err != nil {
		t.Errorf("%s: %v", raw, err)
	}
}

func validateType(t *testing.T, raw []byte) string {
	t.Helper()
	var head struct {
		Type string `json:"type"`
	}
	zinotest.Must(t, json.Unmarshal(raw, &head))
	return head.Type
}
