package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestElements(t *testing.T) {
	for raw, want := range map[string][]string{
		`[]`:                         {},
		" [ ] ":                      {},
		`[1]`:                        {"1"},
		`[1,"a",null,true]`:          {"1", `"a"`, "null", "true"},
		" [ 1 , [2,3] , {} ]":        {"1", "[2,3]", "{}"},
		`["a,b]","\"]",""]`:          {`"a,b]"`, `"\"]"`, `""`},
		`[{"a":[1,{"b":2}]},-1.5e3]`: {`{"a":[1,{"b":2}]}`, "-1.5e3"},
		"[\n\t1\r,\n2\n]":            {"1", "2"},
	} {
		got, err := Elements([]byte(raw))
		if err != nil || len(got) != len(want) {
			t.Errorf("Elements(%s) = %s, %v", raw, got, err)
			continue
		}
		for i := range want {
			if string(got[i]) != want[i] {
				t.Errorf("Elements(%s)[%d] = %s, want %s", raw, i, got[i], want[i])
			}
		}
	}
}

func TestElementsRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		``:            "malformed JSON",
		`[`:           "malformed JSON",
		`[1,]`:        "malformed JSON",
		`[1 2]`:       "malformed JSON",
		`[1]x`:        "malformed JSON",
		`[tru]`:       "malformed JSON",
		"[\"\xff\"]":  "not valid UTF-8",
		`{}`:          "expected a list, found an object",
		` "[]"`:       "expected a list, found a string",
		`1`:           "expected a list, found a number",
		`null`:        "expected a list, found null",
		`true`:        "expected a list, found true or false",
		`[[1,2],[3,]`: "malformed JSON",
	} {
		if got, err := Elements([]byte(raw)); err == nil || err.Error() != want {
			t.Errorf("Elements(%q) = %s, %v, want %q", raw, got, err, want)
		}
	}
}

func FuzzElements(f *testing.F) {
	for _, raw := range []string{`[]`, `[1,"a",[null,{}],true]`, `["\"",",]"]`, " [ 1 , 2 ] ", `[1,]`, "[\"\xff\"]", `{"a":[]}`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want []json.RawMessage
		good := utf8.Valid(raw) && json.Unmarshal(raw, &want) == nil && want != nil
		got, err := Elements(raw)
		if (err == nil) != good || len(got) != len(want) && good {
			t.Fatalf("Elements(%q) = %q, %v; encoding/json: %q", raw, got, err, want)
		}
		for i := range got {
			if string(got[i]) != string(want[i]) {
				t.Fatalf("Elements(%q)[%d] = %q, want %q", raw, i, got[i], want[i])
			}
		}
	})
}

// FuzzMembers holds that the members of a valid object are those that
// encoding/json finds, and that nothing breaks on other text.
func FuzzMembers(f *testing.F) {
	for _, raw := range []string{`{}`, ` {"a":1,"a":[2,{"b":"}"}] , "\u0062" : null } `, `{"a"`, `[1]`, `{"a":1}x`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := map[string]string{}
		for key, value := range Members(raw) {
			got[string(key)] = string(value)
		}
		var want map[string]json.RawMessage
		if !Valid(raw) || json.Unmarshal(raw, &want) != nil {
			return
		}
		if len(got) != len(want) {
			t.Fatalf("Members(%q) found %d, encoding/json %d", raw, len(got), len(want))
		}
		for key, value := range want {
			if got[key] != string(value) {
				t.Fatalf("Members(%q): %q is %s, want %s", raw, key, got[key], value)
			}
		}
	})
}

func TestType(t *testing.T) {
	for payload, want := range map[string]struct{ typ, meta string }{
		`{}`:                                  {"", ""},
		`{"type":"ping"}`:                     {"ping", ""},
		"\n{ \"type\" : \"ping\" } ":          {"ping", ""},
		`{"type":null}`:                       {"", ""},
		`{"Type":"ping","TYPE":"x"}`:          {"", ""},
		`{"type":"a","type":"b"}`:             {"b", ""},
		`{"type":"\u0061"}`:                   {"a", ""},
		`{"t\u0079pe":"a"}`:                   {"a", ""},
		`{"meta":{"trace":"x"},"type":"a"}`:   {"a", `{"trace":"x"}`},
		`{"a":{"type":"inner"},"b":["type"]}`: {"", ""},
		`{"a":"}\"{","type":"a"}`:             {"a", ""},
	} {
		typ, meta, err := Type([]byte(payload))
		if err != nil || typ != want.typ || string(meta) != want.meta {
			t.Errorf("Type(%s) = %q, %s, %v", payload, typ, meta, err)
		}
	}
}

func TestTypeRefuses(t *testing.T) {
	for payload, want := range map[string]string{
		``:                       "empty packet: expected a JSON object",
		" \n":                    "empty packet: expected a JSON object",
		`[]`:                     "expected a JSON object",
		`"type"`:                 "expected a JSON object",
		`null`:                   "expected a JSON object",
		"\ufeff{}":               "expected a JSON object",
		`{`:                      "malformed JSON",
		`{"type"}`:               "malformed JSON",
		`{"type":}`:              "malformed JSON",
		`{"type":"a",}`:          "malformed JSON",
		`{,"type":"a"}`:          "malformed JSON",
		`{"type":"a" "b":1}`:     "malformed JSON",
		`{type:"a"}`:             "malformed JSON",
		`{'type':"a"}`:           "malformed JSON",
		`{"type":"a`:             "malformed JSON",
		`{"type":"a"}}`:          "malformed JSON: text after the object",
		`{"type":"a"}{}`:         "malformed JSON: text after the object",
		"{\"a\xff\":1}":          "not valid UTF-8",
		`{"type":5}`:             `field "type": expected a string, found a number`,
		`{"type":["a"]}`:         `field "type": expected a string, found a list`,
		`{"type":true}`:          `field "type": expected a string, found true or false`,
		`{"type":{"type":"a"}}`:  `field "type": expected a string, found an object`,
		"{\"type\":\"\xff\"}":    `field "type": not valid UTF-8`,
		`{"type":"\x"}`:          `field "type": malformed JSON`,
		`{"type":tru}`:           `field "type": malformed JSON`,
		`{"a":[1,{"b":2]`:        "malformed JSON",
		`{"a":"` + "\n" + `"x"}`: "malformed JSON",
	} {
		if typ, _, err := Type([]byte(payload)); err == nil || err.Error() != want {
			t.Errorf("Type(%q) = %q, %v, want %q", payload, typ, err, want)
		}
	}
}

// TestTypeStops holds that what stands behind type and meta is left to Decode,
// and that Decode does not let it pass.
func TestTypeStops(t *testing.T) {
	for _, payload := range []string{`{"type":"a","meta":{},"x":}`, `{"meta":{},"type":"a","x":[}`, `{"type":"a","meta":{}}}`} {
		if typ, meta, err := Type([]byte(payload)); typ != "a" || string(meta) != "{}" || err != nil {
			t.Errorf("Type(%s) = %q, %s, %v", payload, typ, meta, err)
		}
		if typ, err := ReplyType([]byte(payload)); typ != "a" || err != nil {
			t.Errorf("ReplyType(%s) = %q, %v", payload, typ, err)
		}
		if err := Decode([]byte(payload), &struct{}{}); err == nil {
			t.Errorf("Decode let %s pass", payload)
		}
	}
}

func TestReplyType(t *testing.T) {
	for payload, want := range map[string]string{`{"type":"a"}`: "a", `{"x":[1,2],"type":"a"}`: "a", `{"type":null}`: "", `{}`: "", `{"a":1}`: ""} {
		if typ, err := ReplyType([]byte(payload)); typ != want || err != nil {
			t.Errorf("ReplyType(%s) = %q, %v", payload, typ, err)
		}
	}
	for _, payload := range []string{``, `[]`, `{"a":1`, `{"type":5}`, `{"x":1}{}`} {
		if typ, err := ReplyType([]byte(payload)); err == nil {
			t.Errorf("ReplyType(%q) = %q", payload, typ)
		}
	}
}

// TestRequestType holds that all of an inner packet is checked, not only what
// the walk comes by.
func TestRequestType(t *testing.T) {
	if typ, err := RequestType([]byte(`{"type":"get","x":[1,2]}`)); typ != "get" || err != nil {
		t.Errorf("RequestType = %q, %v", typ, err)
	}
	for _, payload := range []string{``, `{"type":"get","x":tru}`, `{"type":"get","x":[1,}]}`, "{\"type\":\"get\",\"x\":\"\xff\"}", `[]`} {
		if typ, err := RequestType([]byte(payload)); err == nil {
			t.Errorf("RequestType(%q) = %q", payload, typ)
		}
	}
}

// TestDeepNesting walks what a recursive parser would need a deep stack for.
func TestDeepNesting(t *testing.T) {
	const depth = 1 << 20
	payload := `{"type":"a","x":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`
	if typ, _, err := Type([]byte(payload)); typ != "a" || err != nil {
		t.Errorf("Type = %q, %v", typ, err)
	}
	var v struct{}
	if err := Decode([]byte(payload), &v); err == nil {
		t.Error("a value nested deeper than encoding/json reads was accepted")
	}
}

// TestItems holds that Items walks just the elements of a list, and nothing of
// anything else.
func TestItems(t *testing.T) {
	for _, raw := range []string{
		`[]`, ` [ ] `, `[1]`, `[1,"a,]", {"b":[1,2]} ,[[]] , null]`, `["\"],"]`, "[\n1 ,\t2 ]", `{}`, `{"a":1}`, `"x"`, `7`, `null`,
	} {
		want, err := Elements([]byte(raw))
		if err != nil {
			want = nil
		}
		var got []json.RawMessage
		for item := range Items([]byte(raw)) {
			got = append(got, item)
		}
		if len(got) != len(want) {
			t.Errorf("%s: got %q, want %q", raw, got, want)
			continue
		}
		for i := range got {
			if string(got[i]) != string(want[i]) {
				t.Errorf("%s: element %d is %s, want %s", raw, i, got[i], want[i])
			}
		}
	}
	for _, broken := range []string{``, `[`, `[,`, `[1`, `[1 2]`, `[:]`, `["a`, `[{]`} {
		for range Items([]byte(broken)) { // it ends, whatever it finds
			continue
		}
	}
}
