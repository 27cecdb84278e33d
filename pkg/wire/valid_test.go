package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// values are JSON and what is nearly JSON.
var values = []string{
	`{}`, `[]`, ` { } `, `[ ]`, `[1, 2]`, `{"a" : 1 , "b":[{}]}`, `"text"`, `""`, `null`, `true`, `false`, ` 1`, "\t[\r\n]",
	`0`, `-0`, `1.5`, `-12.25e+10`, `1E5`, `1e-5`, `10`, `"\u12aF\"\\\/\b\f\n\r\t"`, `"\ud800"`, `["päß 你好"]`,
	``, ` `, `{`, `}`, `[`, `]`, `{]`, `[}`, `[1`, `[1,`, `[1,]`, `[,1]`, `[1 2]`, `[1]]`, `[]{}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{a:1}`, `{1:1}`, `{"a" 1}`, `{"a":1 "b":2}`,
	`tru`, `truex`, `nul`, `True`, `01`, `-`, `-01`, `1.`, `.5`, `1e`, `1e+`, `+1`, `0x1`, `1_0`, `NaN`, `--1`, `1.e1`,
	`"`, `"a`, `"\`, `"\"`, `"\x"`, `"\u12g4"`, `"\u12"`, "\"\n\"", "\"\x00\"", "\"\xff\"", "\xff", "[\"a\xc3\"]", "\ufeff{}", "\u00a0{}",
}

func TestValid(t *testing.T) {
	for _, text := range values {
		if got, want := Valid([]byte(text)), json.Valid([]byte(text)) && utf8.ValidString(text); got != want {
			t.Errorf("Valid(%q) = %v", text, got)
		}
	}
}

// TestValidDepth holds the limit of depth at encoding/json's.
func TestValidDepth(t *testing.T) {
	for _, depth := range []int{maxDepth - 1, maxDepth, maxDepth + 1, 1 << 20} {
		for _, text := range []string{
			strings.Repeat("[", depth) + strings.Repeat("]", depth),
			strings.Repeat(`{"a":`, depth-1) + "{}" + strings.Repeat("}", depth-1),
			strings.Repeat(`[`, depth-1) + "1" + strings.Repeat("]", depth-1),
			strings.Repeat(`[`, depth),
		} {
			if got, want := Valid([]byte(text)), json.Valid([]byte(text)); got != want {
				t.Errorf("Valid of depth %d = %v", depth, got)
			}
		}
	}
}

// FuzzValid holds the check against those of the standard library.
func FuzzValid(f *testing.F) {
	for _, text := range values {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, want := Valid(text), json.Valid(text) && utf8.Valid(text); got != want {
			t.Errorf("Valid(%q) = %v", text, got)
		}
	})
}

func BenchmarkValid(b *testing.B) {
	text := []byte("[" + strings.Repeat(`{"role":"user","content":"`+strings.Repeat(`The bread is in the oven, and the soup will be ready in a while.\n\tfmt.Println(\"ready\", n)\n`, 20)+`"},`, 50) + `{}]`)
	for name, f := range map[string]func([]byte) bool{"ours": Valid, "encoding-json": func(b []byte) bool { return json.Valid(b) && utf8.Valid(b) }} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if !f(text) {
					b.Fatal("not valid")
				}
			}
		})
	}
}
