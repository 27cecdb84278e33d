package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"zino/pkg/zinotest"
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

// FuzzMembers: the members of a valid object are those that encoding/json finds,
// and other text does no harm.
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

// TestTypeStops: the text after type and meta is left to Decode, which checks
// it.
func TestTypeStops(t *testing.T) {
	for _, payload := range []string{`{"type":"a","meta":{},"x":}`, `{"meta":{},"type":"a","x":[}`, `{"type":"a","meta":{}}}`} {
		if typ, meta, err := Type([]byte(payload)); typ != "a" || string(meta) != "{}" || err != nil {
			t.Errorf("Type(%s) = %q, %s, %v", payload, typ, meta, err)
		}
		if typ, err := ReplyType([]byte(payload)); typ != "a" || err != nil {
			t.Errorf("ReplyType(%s) = %q, %v", payload, typ, err)
		}
		if err := Decode([]byte(payload), &struct{}{}); err == nil {
			t.Errorf("Decode accepted %s", payload)
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

// TestRequestType: all of a packet is checked.
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

// TestDeepNesting: deeply nested text needs no deep stack.
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

// TestItems: Items walks the elements of a list, and nothing in other text.
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
		for range Items([]byte(broken)) { // it must end
			continue
		}
	}
}

// marshal returns what encoding/json writes with SetEscapeHTML(false).
func marshal(t testing.TB, v any) string {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	zinotest.Must(t, enc.Encode(v))
	return strings.TrimSuffix(buf.String(), "\n")
}

// texts are strings with special characters.
var texts = []string{
	"", "plain", `"quoted"`, `back\slash`, "\b\f\n\r\t", "\x00\x01\x1f\x7f", "<tool_call> & </tool_call>",
	"päß 你好 \U0001f600", "\u2028\u2029", "\ufffd", "bad \xff\xfe utf-8", "cut \xe2\x82", "surrogate in bytes \xed\xa0\x80",
	strings.Repeat("long ", 1000) + "\n",
}

func TestAppendString(t *testing.T) {
	for _, s := range texts {
		want := marshal(t, s)
		if got := string(AppendString([]byte("kept"), s)); got != "kept"+want {
			t.Errorf("AppendString(%q) = %s, want %s", s, got, want)
		}
		if got := string(AppendString(nil, []byte(s))); got != want {
			t.Errorf("AppendString([]byte(%q)) = %s, want %s", s, got, want)
		}
	}
}

// TestPlainWord: every byte in every place, with neighbours that could carry a
// bit into it.
func TestPlainWord(t *testing.T) {
	for c := range 256 {
		for i := range 8 {
			for _, neighbour := range []byte{' ', '!', '#', '[', ']', 0x7f} {
				word := bytes.Repeat([]byte{neighbour}, 8)
				word[i] = byte(c)
				if got, want := plainWord(binary.LittleEndian.Uint64(word)), c < utf8.RuneSelf && plain[c]; got != want {
					t.Errorf("plainWord(%q) = %v", word, got)
				}
			}
		}
	}
}

// TestRun: every byte in every place of a text that is longer than a word.
func TestRun(t *testing.T) {
	for c := range 256 {
		for i := range 20 {
			text := []byte("twenty bytes of ümläu")[:20]
			text[i] = byte(c)
			want := i
			if c >= ' ' && c != '"' && c != '\\' {
				want = len(text)
			}
			if got := run(text); got != want {
				t.Errorf("run(%q) = %d, want %d", text, got, want)
			}
		}
	}
}

func TestUnquote(t *testing.T) {
	for raw, want := range map[string]string{
		`""`:                        "",
		`"a"`:                       "a",
		`"\"\\\/\b\f\n\r\t"`:        "\"\\/\b\f\n\r\t",
		`"\u0041\u00e9\u20AC"`:      "Aé€",
		`"\ud83d\ude00"`:            "\U0001f600",
		`"\uD83D\uDE00"`:            "\U0001f600",
		`"\ud83d"`:                  "\ufffd",
		`"\ude00"`:                  "\ufffd",
		`"\ud83dx"`:                 "\ufffdx",
		`"\ud83d\ud83d\ude00"`:      "\ufffd\U0001f600",
		`"\ud83d\n"`:                "\ufffd\n",
		"\"\u2028 \x7f\"":           "\u2028 \x7f",
		`"<\u003c` + "\U0001f600\"": "<<\U0001f600",
	} {
		got, ok := Unquote([]byte("kept "), []byte(raw))
		if !ok || string(got) != "kept "+want {
			t.Errorf("Unquote(%s) = %q, %v, want %q", raw, got, ok, want)
		}
	}
}

func TestUnquoteRefuses(t *testing.T) {
	for _, raw := range []string{
		``, `"`, `a`, `a"`, `"a`, `"a"b"`, `"\"`, `"\x"`, `"\u"`, `"\u12"`, `"\u123"`, `"\u123g"`, `"\u+123"`, `"\U0041"`,
		"\"\n\"", "\"\x00\"", "\"\xff\"", "\"\xe2\x82\"", "\"\xed\xa0\x80\"", `'a'`, `1`, `null`,
	} {
		if got, ok := Unquote(nil, []byte(raw)); ok {
			t.Errorf("Unquote(%q) = %q", raw, got)
		}
	}
}

// FuzzAppendString: the encoder writes the bytes of encoding/json.
func FuzzAppendString(f *testing.F) {
	for _, s := range texts {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, want := string(AppendString(nil, s)), marshal(t, s)
		if got != want {
			t.Fatalf("AppendString(%q) = %s, want %s", s, got, want)
		}
		back, ok := Unquote(nil, []byte(got))
		if !ok || utf8.ValidString(s) && string(back) != s {
			t.Fatalf("%q came back as %q, %v", s, back, ok)
		}
	})
}

// FuzzUnquote: the decoder reads what encoding/json reads, and refuses bad
// UTF-8.
func FuzzUnquote(f *testing.F) {
	for _, s := range texts {
		f.Add(marshal(f, s))
	}
	f.Add(`"\ud83d\ude00\ud83d"`)
	f.Add("\"\\u00\xff00\"")
	f.Add(` "space around" `)
	f.Fuzz(func(t *testing.T, raw string) {
		var want string
		good := strings.HasPrefix(raw, `"`) && strings.HasSuffix(raw, `"`) && utf8.ValidString(raw) && json.Unmarshal([]byte(raw), &want) == nil
		got, ok := Unquote(nil, []byte(raw))
		if ok != good || ok && string(got) != want {
			t.Fatalf("Unquote(%q) = %q, %v; encoding/json: %q, %v", raw, got, ok, want, good)
		}
	})
}

// values are JSON and almost JSON.
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

// TestValidDepth: the limit of depth is that of encoding/json.
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

// FuzzValid compares the check with those of the standard library.
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

// TestEscapesUnicode has the two bytes at each place of texts around a word's length.
func TestEscapesUnicode(t *testing.T) {
	for n := range 40 {
		text := []byte(strings.Repeat(`u\`, n/2+1)[:n])
		if escapesUnicode(text) != bytes.Contains(text, []byte(`\u`)) {
			t.Errorf("%q", text)
		}
		for i := range n - 1 {
			text := bytes.Repeat([]byte("\x29\\"), n)[:n] // \x29 is a backslash xor u
			if escapesUnicode(text) {
				t.Errorf("found in %q", text)
			}
			copy(text[i:], `\u`)
			if !escapesUnicode(text) {
				t.Errorf("not found in %q", text)
			}
		}
	}
}

func TestReplaceSurrogates(t *testing.T) {
	for text, want := range map[string]string{
		``:                              ``,
		`"plain"`:                       `"plain"`,
		`"\ud83d\ude00 \uD83D\uDE00"`:   `"\ud83d\ude00 \uD83D\uDE00"`,
		`"\ud83d x \ude00"`:             `"\ufffd x \ufffd"`,
		`"\uD83D\uD83D\uDE00"`:          `"\ufffd\uD83D\uDE00"`,
		`"\\ud83d \\\ud83d \n\u00e4\d"`: `"\\ud83d \\\ufffd \n\u00e4\d"`,
		`"\ud8`:                         `"\ud8`,
		`\`:                             `\`,
	} {
		got := []byte(text)
		if ReplaceSurrogates(got); string(got) != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
