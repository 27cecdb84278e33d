package mem

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzMessages checks for any text that an accepted message is one valid line with
// the same content, that normalizing it again changes nothing, and that
// parseMessage and isMessage agree.
func FuzzMessages(f *testing.F) {
	for _, s := range []string{`[]`, `[{"role":"user","content":"a"}]`, "[{\"role\":\"u\",\n\"content\":\"\\ud800\\\\ud800\"}]", `[{"role":"u","content":"\ud83d\ude00","x":[{}]}]`, `[null]`, `{}`, `[{"role":"u","content":"\\"}]`, `[{"role":"u","content":"\ud83d\`} {
		f.Add([]byte(s))
	}
	for _, s := range []string{`{"role":"u","content":"a","role":null}`, `{"role":null,"content":"a","role":"u"}`, `{"role":1,"content":"a","role":"u"}`, `{"Role":"u","content":"a"}`, `{"role":"u","cont\u0065nt":"a","x":null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := parseMessage(raw); isMessage(raw) != (err == nil) {
			t.Fatalf("%q: isMessage returns %v, parseMessage %v", raw, isMessage(raw), err)
		}
		texts, parsed, err := parseMessages(raw)
		if err != nil {
			return
		}
		var want []map[string]any
		if len(raw) > 0 && json.Unmarshal(raw, &want) != nil || len(want) != len(texts) {
			t.Fatalf("%q was parsed as %q", raw, texts)
		}
		for i, text := range texts {
			if !json.Valid(text) || !utf8.Valid(text) || strings.ContainsAny(string(text), "\r\n") {
				t.Fatalf("%q is not a valid line", text)
			}
			if content, ok := want[i]["content"].(string); !ok || content != parsed[i].Content {
				t.Fatalf("the content of %q is %q", text, parsed[i].Content)
			}
			if again := clean(text); string(again) != string(text) {
				t.Fatalf("%q is normalized again to %q", text, again)
			}
		}
	})
}
