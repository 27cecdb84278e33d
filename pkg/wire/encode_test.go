package wire

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

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

// TestAppendObjectAgrees holds that the general encoder writes what
// encoding/json writes, where no list or map is nil.
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

// TestRoundTrip holds that what is written is read as it was.
func TestRoundTrip(t *testing.T) {
	want := sample{
		Text: "a\u2028\"<b>", Flag: true, Int: -3, Long: 1<<63 - 1, Float: 0.1, Ptr: new(0), Name: new("n"),
		Raw: json.RawMessage(`[{"x":1}]`), List: []string{"", "b"}, Inners: []inner{{"a", 1}}, One: inner{A: "o"},
		Map: map[string]string{"k": "v"}, Kinds: map[string]inner{"k": {A: "i"}}, Sums: map[string]float64{"s": 2.5},
	}
	payload, err := AppendObject(nil, "t", want)
	if err != nil {
		t.Fatal(err)
	}
	var got sample
	if err := Decode(payload, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s came back as %+v, %v", payload, got, err)
	}
}
