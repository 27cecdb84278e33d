package wire

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
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

// TestDecodeReply holds that an answer from an older service may lack what a
// newer one always sends, in nested objects too; wrong types stay errors.
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

// TestDecodeRawIsDelimited holds that the text of a raw field lies in the
// payload, and that its reader must check it.
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
