package proto_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// releasedFile is schema.json as it was released last. With a release,
// schema.json is copied there.
const releasedFile = "testdata/released.json"

func readSchema(t *testing.T, data []byte) (list []proto.Description) {
	t.Helper()
	zinotest.Must(t, json.Unmarshal(data, &list))
	return list
}

// TestEvolution holds today's schema against the last released one: clients
// and servers of either must understand the other.
func TestEvolution(t *testing.T) {
	data, err := os.ReadFile(releasedFile)
	zinotest.Must(t, err)
	released, today := readSchema(t, data), readSchema(t, proto.Schema)
	if len(released) == 0 {
		t.Fatalf("%s is empty", releasedFile)
	}
	for _, breach := range breaches(t, released, today) {
		t.Errorf("%s: the contract only grows; add a method of another type instead", breach)
	}
}

// breaches lists what the old contract has and the new one lacks.
func breaches(t *testing.T, before, now []proto.Description) (list []string) {
	t.Helper()
	for _, old := range before {
		i := slices.IndexFunc(now, func(d proto.Description) bool { return d.Service == old.Service })
		if i < 0 {
			list = append(list, old.Service+" is gone")
			continue
		}
		for _, m := range old.Methods {
			j := slices.IndexFunc(now[i].Methods, func(n proto.MethodDescription) bool { return n.Type == m.Type })
			if j < 0 {
				list = append(list, fmt.Sprintf("%s %q is gone", old.Service, m.Type))
				continue
			}
			for _, breach := range methodBreaches(t, m, now[i].Methods[j]) {
				list = append(list, fmt.Sprintf("%s %q: %s", old.Service, m.Type, breach))
			}
		}
	}
	return list
}

func methodBreaches(t *testing.T, before, now proto.MethodDescription) (list []string) {
	t.Helper()
	if before.Reply != now.Reply || before.Kind != now.Kind {
		list = append(list, "it answers in another way")
	}
	list = append(list, schemaBreaches(parseSchema(t, before.Request), parseSchema(t, now.Request), "request", false)...)
	return append(list, schemaBreaches(parseSchema(t, before.Response), parseSchema(t, now.Response), "response", true)...)
}

// schemaBreaches compares two schemas of the same place. In a request nothing
// may become required, in a reply nothing may become optional.
func schemaBreaches(before, now *schema, place string, reply bool) (list []string) {
	if before == nil {
		return nil
	}
	if now == nil || !reflect.DeepEqual(before.Type, now.Type) {
		return []string{place + " has another type"}
	}
	stricter, looser, change := now.Required, before.Required, " has become required"
	if reply {
		stricter, looser, change = looser, stricter, " is not always sent any more"
	}
	for _, name := range stricter {
		if !slices.Contains(looser, name) {
			list = append(list, place+"."+name+change)
		}
	}
	for _, name := range before.PropertyOrder {
		if now.Properties[name] == nil {
			list = append(list, place+"."+name+" is gone")
			continue
		}
		list = append(list, schemaBreaches(before.Properties[name], now.Properties[name], place+"."+name, reply)...)
	}
	list = append(list, schemaBreaches(before.Items, now.Items, place+"[]", reply)...)
	return append(list, schemaBreaches(before.AdditionalProperties, now.AdditionalProperties, place+".*", reply)...)
}

// TestBreaches holds the test above: it must find what it is there for.
func TestBreaches(t *testing.T) {
	const base = `[{"service":"a","proto":1,"methods":[{"type":"get","reply":"got","kind":"call","doc":"",
		"request":{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"integer"}},"required":["x"],"propertyOrder":["x","y"]},
		"response":{"type":"object","properties":{"l":{"type":"array","items":{"type":"object","properties":{"z":{"type":"number"}},"required":["z"],"propertyOrder":["z"]}}},"required":["l"],"propertyOrder":["l"]}}]}]`
	for _, c := range []struct{ old, new, want string }{
		{`"x"`, `"x"`, ""},
		{`"required":["x"]`, `"required":[]`, ""},
		{`"doc":""`, `"doc":"more"`, ""},
		{`"y":{"type":"integer"}`, `"y":{"type":"integer"},"n":{"type":"string"}`, ""},
		{`"service":"a"`, `"service":"b"`, "a is gone"},
		{`"type":"get"`, `"type":"fetch"`, `a "get" is gone`},
		{`"reply":"got"`, `"reply":"ok"`, `a "get": it answers in another way`},
		{`"kind":"call"`, `"kind":"text"`, `a "get": it answers in another way`},
		{`"y":{"type":"integer"}`, `"n":{"type":"integer"}`, `a "get": request.y is gone`},
		{`"y":{"type":"integer"}`, `"y":{"type":"number"}`, `a "get": request.y has another type`},
		{`"required":["x"]`, `"required":["x","y"]`, `a "get": request.y has become required`},
		{`"required":["x"]`, `"required":["x","new"]`, `a "get": request.new has become required`},
		{`"required":["l"]`, `"required":[]`, `a "get": response.l is not always sent any more`},
		{`"required":["z"]`, `"required":[]`, `a "get": response.l[].z is not always sent any more`},
		{`"z":{"type":"number"}`, `"z":{"type":"string"}`, `a "get": response.l[].z has another type`},
		{`,"items":{"type":"object","properties":{"z":{"type":"number"}},"required":["z"],"propertyOrder":["z"]}`, ``, `a "get": response.l[] has another type`},
	} {
		changed := strings.Replace(base, c.old, c.new, 1)
		got := strings.Join(breaches(t, readSchema(t, []byte(base)), readSchema(t, []byte(changed))), "; ")
		if got != c.want {
			t.Errorf("%s -> %s: %q, want %q", c.old, c.new, got, c.want)
		}
	}
}
