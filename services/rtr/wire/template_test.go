package wire

import (
	"encoding/json"
	"testing"
)

func TestTemplate(t *testing.T) {
	event := []byte(`{"a":1,"text":"one","b":"}"}`)
	var tpl template
	if _, ok := tpl.read(nil, event); ok {
		t.Error("an empty template knows an event")
	}
	tpl.learn(event, event[14:19])
	for _, tt := range []struct {
		in, want string
		ok       bool
	}{
		{`{"a":1,"text":"one","b":"}"}`, "one", true},
		{`{"a":1,"text":"","b":"}"}`, "", true},
		{`{"a":1,"text":"Gr\u00fc\nße","b":"}"}`, "Grü\nße", true},
		{`{"a":1,"text":"x\"","b":"}"}`, `x"`, true},
		{`{"a":1,"text":"x\","b":"}"}`, "", false}, // the string goes on
		{`{"a":1,"text":"x","c":"y","b":"}"}`, "", false},
		{`{"a":1,"text":null,"b":"}"}`, "", false},
		{`{"a":2,"text":"one","b":"}"}`, "", false},
		{`{"a":1,"text":"one","b":"]"}`, "", false},
		{`{"a":1,"text":","b":"}"}`, "", false},
		{"{\"a\":1,\"text\":\"\xff\",\"b\":\"}\"}", "", false},
		{`{"a":1`, "", false},
		{``, "", false},
	} {
		got, ok := tpl.read(nil, []byte(tt.in))
		if ok != tt.ok || ok && string(got) != tt.want {
			t.Errorf("%s: got %q, %v", tt.in, got, ok)
		}
	}
}

// FuzzTemplate holds that an event that is known again is JSON that means the
// same but for the one string.
func FuzzTemplate(f *testing.F) {
	f.Add("one", "two", 3)
	f.Add(`a"b`, "\u2028", 0)
	f.Add("", `","t":"`, 1)
	f.Fuzz(func(t *testing.T, first, second string, cut int) {
		frame := func(s string) []byte {
			b, err := json.Marshal(map[string]any{"a": "}", "t": s, "z": []int{1}})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		event := frame(first)
		var tpl template
		tpl.learn(event, event[len(`{"a":"}","t":`):len(event)-len(`,"z":[1]}`)])
		next := frame(second)
		if cut = max(cut, 0) % (len(next) + 1); cut%3 == 0 {
			next = append(next[:cut:cut], next[min(cut+1, len(next)):]...) // one byte is missing
		}
		got, ok := tpl.read(nil, next)
		var v struct {
			A, T string
			Z    []int
		}
		if err := json.Unmarshal(next, &v); ok && (err != nil || v.T != string(got) || v.A != "}" || len(v.Z) != 1) {
			t.Fatalf("%s read as %q: %v", next, got, err)
		}
	})
}
