package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"zino/pkg/zinotest"
)

// inner and sample have a field of every kind that packets are made of.
type inner struct {
	A string `json:"a"`
	B int    `json:"b,omitzero"`
}

type sample struct {
	Text   string             `json:"text"`
	Flag   bool               `json:"flag,omitzero"`
	Int    int                `json:"int,omitzero"`
	Long   int64              `json:"long,omitzero"`
	Float  float64            `json:"float,omitzero"`
	Ptr    *int               `json:"ptr,omitzero"`
	Name   *string            `json:"name,omitzero"`
	Raw    json.RawMessage    `json:"raw,omitzero"`
	List   []string           `json:"list,omitzero"`
	Inners []inner            `json:"inners,omitzero"`
	One    inner              `json:"one,omitzero"`
	Map    map[string]string  `json:"map,omitzero"`
	Kinds  map[string]inner   `json:"kinds,omitzero"`
	Sums   map[string]float64 `json:"sums,omitzero"`
	Hidden string             `json:"-"`
}

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		payload string
		want    sample
	}{
		{`{"text":""}`, sample{}},
		{" \n{ \"text\" :\t\"x\" }\r\n", sample{Text: "x"}},
		{`{"text":"a\n\ud83d\ude00\ud800"}`, sample{Text: "a\n\U0001f600\ufffd"}},
		{`{"text":"x","flag":true}`, sample{Text: "x", Flag: true}},
		{`{"text":"x","flag":false,"flag":true}`, sample{Text: "x", Flag: true}},
		{`{"text":"x","int":-2,"long":9223372036854775807}`, sample{Text: "x", Int: -2, Long: 1<<63 - 1}},
		{`{"text":"x","int":2.0,"long":1e3}`, sample{Text: "x", Int: 2, Long: 1000}},
		{`{"text":"x","int":"2","long":" -9223372036854775808 "}`, sample{Text: "x", Int: 2, Long: -1 << 63}},
		{`{"text":"x","int":"2.0","ptr":"1e2"}`, sample{Text: "x", Int: 2, Ptr: new(100)}},
		{`{"text":"x","float":0.25}`, sample{Text: "x", Float: 0.25}},
		{`{"text":"x","float":"0.25"}`, sample{Text: "x", Float: 0.25}},
		{`{"text":"x","float":"\u0030.5"}`, sample{Text: "x", Float: 0.5}},
		{`{"text":"x","float":1e-400}`, sample{Text: "x"}},
		{`{"text":"x","ptr":0,"name":""}`, sample{Text: "x", Ptr: new(0), Name: new("")}},
		{`{"text":"x","ptr":null,"name":null,"raw":null,"list":null,"one":null,"flag":null,"int":null}`, sample{Text: "x"}},
		{`{"text":"x","raw":[1, {"a":"]"}]}`, sample{Text: "x", Raw: json.RawMessage(`[1, {"a":"]"}]`)}},
		{`{"text":"x","raw":"r"}`, sample{Text: "x", Raw: json.RawMessage(`"r"`)}},
		{`{"text":"x","list":[],"inners":[],"map":{}}`, sample{Text: "x", List: []string{}, Inners: []inner{}, Map: map[string]string{}}},
		{`{"text":"x","list":["a","b"]}`, sample{Text: "x", List: []string{"a", "b"}}},
		{`{"text":"x","inners":[{"a":"1"},{"a":"2","b":3}]}`, sample{Text: "x", Inners: []inner{{"1", 0}, {"2", 3}}}},
		{`{"text":"x","one":{"a":"1","more":[{}]}}`, sample{Text: "x", One: inner{A: "1"}}},
		{`{"text":"x","map":{"k":"v","":"e"}}`, sample{Text: "x", Map: map[string]string{"k": "v", "": "e"}}},
		{`{"text":"x","kinds":{"k":{"a":"1"}},"sums":{"s":"2"}}`, sample{Text: "x", Kinds: map[string]inner{"k": {A: "1"}}, Sums: map[string]float64{"s": 2}}},
		{`{"text":"x","unknown":{"a":[1,2,{"b":null}]},"-":"y","Hidden":"z"}`, sample{Text: "x"}},
		{`{"t\u0065xt":"x","Text":5,"TEXT":[]}`, sample{Text: "x"}},
	} {
		var got sample
		if err := Decode([]byte(c.payload), &got); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("Decode(%s) = %+v, %v", c.payload, got, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for payload, want := range map[string]string{
		``:                                          "empty packet: expected a JSON object",
		`[]`:                                        "expected a JSON object",
		`{}`:                                        `missing field "text"`,
		`{"text":null}`:                             `missing field "text"`,
		`{"Text":"x"}`:                              `missing field "text"`,
		`{"text":5}`:                                `field "text": expected a string, found a number`,
		`{"text":true}`:                             `field "text": expected a string, found true or false`,
		`{"text":{}}`:                               `field "text": expected a string, found an object`,
		`{"text":["x"]}`:                            `field "text": expected a string, found a list`,
		`{"text":"x","flag":1}`:                     `field "flag": expected true or false, found a number`,
		`{"text":"x","flag":"true"}`:                `field "flag": expected true or false, found a string`,
		`{"text":"x","flag":truex}`:                 `field "flag": malformed JSON`,
		`{"text":"x","int":1.5}`:                    `field "int": expected a whole number, found a number`,
		`{"text":"x","int":"x"}`:                    `field "int": expected a number, found a string`,
		`{"text":"x","int":""}`:                     `field "int": expected a number, found a string`,
		`{"text":"x","int":"+2"}`:                   `field "int": expected a number, found a string`,
		`{"text":"x","int":"0x10"}`:                 `field "int": expected a number, found a string`,
		`{"text":"x","int":"1_000"}`:                `field "int": expected a number, found a string`,
		`{"text":"x","int":"NaN"}`:                  `field "int": expected a number, found a string`,
		`{"text":"x","int":"2 2"}`:                  `field "int": expected a number, found a string`,
		`{"text":"x","int":[2]}`:                    `field "int": expected a number, found a list`,
		`{"text":"x","int":true}`:                   `field "int": expected a number, found true or false`,
		`{"text":"x","int":02}`:                     `field "int": malformed JSON`,
		`{"text":"x","int":+2}`:                     `field "int": malformed JSON`,
		`{"text":"x","int":9223372036854775808}`:    `field "int": the number is out of range`,
		`{"text":"x","int":1e30}`:                   `field "int": the number is out of range`,
		`{"text":"x","int":1e999}`:                  `field "int": the number is out of range`,
		`{"text":"x","float":1e999}`:                `field "float": the number is out of range`,
		`{"text":"x","float":"1e999"}`:              `field "float": the number is out of range`,
		`{"text":"x","float":NaN}`:                  `field "float": malformed JSON`,
		`{"text":"x","float":-Infinity}`:            `field "float": malformed JSON`,
		`{"text":"x","float":"Infinity"}`:           `field "float": expected a number, found a string`,
		`{"text":"x","float":.5}`:                   `field "float": malformed JSON`,
		`{"text":"x","float":1.}`:                   `field "float": malformed JSON`,
		`{"text":"x","float":0x1p4}`:                `field "float": malformed JSON`,
		`{"text":"x","float":{}}`:                   `field "float": expected a number, found an object`,
		`{"text":"x","ptr":"x"}`:                    `field "ptr": expected a number, found a string`,
		`{"text":"x","list":{}}`:                    `field "list": expected a list, found an object`,
		`{"text":"x","list":"a"}`:                   `field "list": expected a list, found a string`,
		`{"text":"x","list":["a",5]}`:               `field "list": element 1: expected a string, found a number`,
		`{"text":"x","list":["a",]}`:                `field "list": malformed JSON`,
		"{\"text\":\"x\",\"list\":[\"\xff\"]}":      `field "list": not valid UTF-8`,
		`{"text":"x","inners":[{"a":"1"},{}]}`:      `field "inners": element 1: missing field "a"`,
		`{"text":"x","one":{"b":1}}`:                `field "one": missing field "a"`,
		`{"text":"x","one":{"a":"1","b":{}}}`:       `field "one": field "b": expected a number, found an object`,
		`{"text":"x","one":[]}`:                     `field "one": expected a JSON object`,
		`{"text":"x","map":{"k":1}}`:                `field "map": field "k": expected a string, found a number`,
		`{"text":"x","map":[]}`:                     `field "map": expected a JSON object`,
		`{"text":"x","unknown":tru}`:                `field "unknown": malformed JSON`,
		`{"text":"x","unknown":[1,}`:                `field "unknown": malformed JSON`,
		`{"text":"x","unknown":"\u12"}`:             `field "unknown": malformed JSON`,
		"{\"text\":\"x\",\"unknown\":\"\xc3\x28\"}": `field "unknown": not valid UTF-8`,
		"{\"text\":\"\xff\"}":                       `field "text": not valid UTF-8`,
		"{\"text\":\"a\nb\"}":                       `field "text": malformed JSON`,
		"{\"te\xffxt\":\"x\"}":                      `not valid UTF-8`,
		`{"text":"x"} x`:                            `malformed JSON: text after the object`,
	} {
		var got sample
		if err := Decode([]byte(payload), &got); err == nil || err.Error() != want {
			t.Errorf("Decode(%q): %v, want %q", payload, err, want)
		}
	}
}

// TestDecodeReply: an answer from an older service may lack fields, also in
// nested objects; wrong types stay errors.
func TestDecodeReply(t *testing.T) {
	var got sample
	err := DecodeReply([]byte(`{"type":"x","one":{"b":2},"inners":[{}]}`), &got)
	if want := (sample{One: inner{B: 2}, Inners: []inner{{}}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("DecodeReply = %+v, %v", got, err)
	}
	for _, payload := range []string{`{"text":5}`, `{"text":"x"`, `{"x":tru}`, `[]`} {
		if err := DecodeReply([]byte(payload), new(sample)); err == nil {
			t.Errorf("DecodeReply(%s) accepted it", payload)
		}
	}
}

// TestDecodeRawIsDelimited: the text of a raw field is a part of the payload,
// and not checked.
func TestDecodeRawIsDelimited(t *testing.T) {
	payload := []byte(`{"text":"x","raw":[tru}]}`)
	var got sample
	if err := Decode(payload, &got); err == nil {
		t.Errorf("brackets that do not nest were accepted: %s", got.Raw)
	}
	payload = []byte(`{"text":"x","raw":[tru]}`)
	if err := Decode(payload, &got); err != nil || string(got.Raw) != `[tru]` {
		t.Fatalf("Decode: %s, %v", got.Raw, err)
	}
	if &got.Raw[0] != &payload[strings.Index(string(payload), "[")] {
		t.Error("a raw field was copied")
	}
}

func TestDecodeUnknownKind(t *testing.T) {
	var v struct {
		C complex128 `json:"c"`
	}
	if err := Decode([]byte(`{"c":1}`), &v); err == nil || !strings.Contains(err.Error(), "complex128") {
		t.Errorf("error %v", err)
	}
}

// required has every kind as a required field, so that zeros are written too.
type required struct {
	Text  string             `json:"text"`
	Flag  bool               `json:"flag"`
	Int   int                `json:"int"`
	Long  int64              `json:"long"`
	Float float64            `json:"float"`
	Ptr   *string            `json:"ptr"`
	List  []string           `json:"list"`
	One   inner              `json:"one"`
	Map   map[string]float64 `json:"map"`
}

func TestAppendObject(t *testing.T) {
	for _, c := range []struct {
		typ  string
		v    any
		want string
	}{
		{"ok", struct{}{}, `{"type":"ok"}`},
		{"", struct{}{}, `{}`},
		{`a"b`, struct{}{}, `{"type":"a\"b"}`},
		{"", inner{A: "<x>"}, `{"a":"<x>"}`},
		{"t", &inner{A: "p", B: -1}, `{"type":"t","a":"p","b":-1}`},
		{"t", sample{Text: "x"}, `{"type":"t","text":"x"}`},
		{"t", sample{Ptr: new(0), Name: new("")}, `{"type":"t","text":"","ptr":0,"name":""}`},
		{"t", sample{List: []string{}, Raw: json.RawMessage{}, Map: map[string]string{}}, `{"type":"t","text":"","raw":[],"list":[],"map":{}}`},
		{"t", sample{Raw: json.RawMessage(`[ {"k": 1} ]`)}, `{"type":"t","text":"","raw":[ {"k": 1} ]}`},
		{"t", sample{Inners: []inner{{"1", 0}, {"2", 3}}, Hidden: "h"}, `{"type":"t","text":"","inners":[{"a":"1"},{"a":"2","b":3}]}`},
		{"t", sample{Kinds: map[string]inner{"b": {}, "a": {B: 1}}}, `{"type":"t","text":"","kinds":{"a":{"a":"","b":1},"b":{"a":""}}}`},
		{"", required{}, `{"text":"","flag":false,"int":0,"long":0,"float":0,"ptr":null,"list":[],"one":{"a":""},"map":{}}`},
		{"", struct {
			Raw json.RawMessage `json:"raw"`
		}{}, `{"raw":[]}`},
	} {
		got, err := AppendObject([]byte("kept"), c.typ, c.v)
		if err != nil || string(got) != "kept"+c.want {
			t.Errorf("AppendObject(%q, %+v) = %s, %v, want %s", c.typ, c.v, got, err, c.want)
		}
		if !json.Valid(got[4:]) {
			t.Errorf("%s is not JSON", got)
		}
	}
}

// TestEmbeddedStruct checks that the fields of an embedded struct count as those of the
// struct around it, in both directions.
func TestEmbeddedStruct(t *testing.T) {
	type Common struct {
		Name string `json:"name"`
		Size int    `json:"size,omitzero"`
	}
	type outer struct {
		Common
		Mode string `json:"mode,omitzero"`
	}
	b, err := AppendObject(nil, "x", outer{Common{Name: "a", Size: 3}, "ask"})
	zinotest.Must(t, err)
	zinotest.Equal(t, "the object", string(b), `{"type":"x","name":"a","size":3,"mode":"ask"}`)
	var back outer
	zinotest.Must(t, Decode(b, &back))
	zinotest.Equal(t, "the struct", back, outer{Common{Name: "a", Size: 3}, "ask"})
	zinotest.Error(t, Decode([]byte(`{"mode":"ask"}`), &back), nil, `missing field "name"`)
}

// TestAppendObjectAgrees: the encoder writes what encoding/json writes, except
// for nil lists and maps.
func TestAppendObjectAgrees(t *testing.T) {
	for _, s := range texts {
		for _, v := range []any{
			required{s, true, -1, 1 << 60, 0.1, &s, []string{s, ""}, inner{s, 7}, map[string]float64{s: 1e21, "z": -1e-7}},
			sample{
				Text: s, Flag: true, Int: 1, Long: math.MinInt64, Float: math.MaxFloat64, Ptr: new(1), Name: &s, List: []string{s},
				Inners: []inner{{s, 1}}, Map: map[string]string{"b": s, "a": ""}, Kinds: map[string]inner{"k": {A: s}},
			},
		} {
			got, err := AppendObject(nil, "", v)
			if want := marshal(t, v); err != nil || string(got) != want {
				t.Errorf("AppendObject = %s, %v, want %s", got, err, want)
			}
		}
	}
}

func TestAppendObjectRefuses(t *testing.T) {
	for _, v := range []any{
		sample{Float: math.NaN()},
		sample{Sums: map[string]float64{"x": math.Inf(1)}},
		struct {
			List []float64 `json:"list"`
		}{[]float64{math.NaN()}},
	} {
		if b, err := AppendObject(nil, "t", v); err == nil || !strings.HasPrefix(err.Error(), "field ") {
			t.Errorf("AppendObject(%+v) = %s, %v", v, b, err)
		}
	}
}

func TestAppendRequest(t *testing.T) {
	type meta struct {
		Trace string `json:"trace,omitzero"`
		Alive bool   `json:"keepalive,omitzero"`
	}
	for _, c := range []struct {
		typ  string
		v    any
		meta meta
		want string
	}{
		{"get", struct{}{}, meta{}, `{"type":"get"}`},
		{"get", struct{}{}, meta{Alive: true}, `{"type":"get","meta":{"keepalive":true}}`},
		{"", struct{}{}, meta{Trace: "a"}, `{"meta":{"trace":"a"}}`},
		{"", inner{A: "x"}, meta{Trace: "a"}, `{"meta":{"trace":"a"},"a":"x"}`},
		{"get", sample{Raw: json.RawMessage(`{}`)}, meta{"a", true}, `{"type":"get","meta":{"trace":"a","keepalive":true},"text":"","raw":{}}`},
	} {
		got, err := AppendRequest(nil, c.typ, c.v, c.meta)
		if err != nil || string(got) != c.want {
			t.Errorf("AppendRequest(%q, %+v, %+v) = %s, %v", c.typ, c.v, c.meta, got, err)
		}
	}
	if _, err := AppendRequest(nil, "t", sample{Float: math.NaN()}, meta{Trace: "a"}); err == nil {
		t.Error("a request that cannot be encoded was accepted")
	}
}

// TestRoundTrip: encoded values are decoded unchanged.
func TestRoundTrip(t *testing.T) {
	want := sample{
		Text: "a\u2028\"<b>", Flag: true, Int: -3, Long: 1<<63 - 1, Float: 0.1, Ptr: new(0), Name: new("n"),
		Raw: json.RawMessage(`[{"x":1}]`), List: []string{"", "b"}, Inners: []inner{{"a", 1}}, One: inner{A: "o"},
		Map: map[string]string{"k": "v"}, Kinds: map[string]inner{"k": {A: "i"}}, Sums: map[string]float64{"s": 2.5},
	}
	payload, err := AppendObject(nil, "t", want)
	zinotest.Must(t, err)
	var got sample
	if err := Decode(payload, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s came back as %+v, %v", payload, got, err)
	}
}

// FuzzDecode compares the decoder with encoding/json: everything that it reads
// with exact keys has the same result, and anything but JSON in UTF-8 is
// refused, except inside of raw fields.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"text":"x"}`, ` { "text" : "\ud800" , "int" : "2" } `, `{"text":null,"ptr":5,"name":"n"}`,
		`{"flag":true,"int":-2,"long":9223372036854775807,"float":1e-400}`, `{"raw":[tru],"list":["a","b"]}`,
		`{"inners":[{"a":"1","b":2},{}],"one":{"a":"2"},"map":{"k":"v"},"kinds":{"k":{}},"sums":{"s":1}}`,
		`{"int":1.0}`, `{"int":1e2}`, `{"int":1.5}`, `{"float":NaN}`, `{"x":[1,}]}`, `{"a":1}}`, `{"int":1,"int":null}`,
		"{\"\xff\":1}", "{\"text\":\"\xff\"}", "\ufeff{}", `[]`, `null`, ``, `{`, `{"text":"x",}`, `{"map":{"k":1}}`, `{"one":{"b":1,"b":2}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		var got sample
		err := DecodeReply(bytes.Clone(payload), &got)
		good := json.Valid(payload) && utf8.Valid(payload)
		if err == nil && !good && got.Raw == nil {
			t.Fatalf("accepted %q", payload)
		}
		if want, wantErr := reference(payload); good && wantErr == nil && (err != nil || !reflect.DeepEqual(got, want)) {
			t.Fatalf("%q: %+v, %v; encoding/json: %+v", payload, got, err, want)
		}
		if strict := Decode(bytes.Clone(payload), new(sample)); strict == nil && err != nil {
			t.Fatalf("%q is valid as a request but not as a reply: %v", payload, err)
		}
	})
}

// errIncomparable is the error for texts that encoding/json decodes by other rules:
// duplicate keys, and keys of inner objects in another case.
var errIncomparable = errors.New("not comparable")

// reference decodes a sample with encoding/json, matching keys exactly.
func reference(payload []byte) (sample, error) {
	var v sample
	var members map[string]json.RawMessage
	if err := json.Unmarshal(payload, &members); err != nil || members == nil {
		return v, errors.Join(err, errIncomparable)
	}
	if err := singleKeys(payload); err != nil {
		return v, err
	}
	for _, field := range structOf(reflect.TypeFor[sample]()).fields {
		raw, ok := members[field.name]
		if !ok || string(raw) == "null" {
			continue
		}
		if err := json.Unmarshal(raw, reflect.ValueOf(&v).Elem().FieldByIndex(field.index).Addr().Interface()); err != nil {
			return v, err
		}
	}
	return v, nil
}

// singleKeys walks all tokens of payload and checks the keys.
func singleKeys(payload []byte) error {
	d := json.NewDecoder(bytes.NewReader(payload))
	var keys []map[string]bool // of the objects around the token, nil for a list
	expectKey := false
	for {
		token, err := d.Token()
		if err != nil {
			return ignoreEOF(err)
		}
		if delim, ok := token.(json.Delim); ok {
			switch delim {
			case '{':
				keys = append(keys, map[string]bool{})
			case '[':
				keys = append(keys, nil)
			default:
				keys = keys[:len(keys)-1]
			}
			expectKey = len(keys) > 0 && keys[len(keys)-1] != nil
			continue
		}
		if expectKey {
			if err := note(keys, fmt.Sprint(token)); err != nil {
				return err
			}
			expectKey = false
			continue
		}
		expectKey = len(keys) > 0 && keys[len(keys)-1] != nil
	}
}

func ignoreEOF(err error) error {
	if err.Error() == "EOF" {
		return nil
	}
	return err
}

// note records a key of the innermost object.
func note(keys []map[string]bool, key string) error {
	seen := keys[len(keys)-1]
	if seen[key] || len(keys) > 1 && (key == "A" || key == "B") {
		return errIncomparable
	}
	seen[key] = true
	return nil
}
