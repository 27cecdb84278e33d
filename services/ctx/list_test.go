package assemble

import (
	"encoding/json"
	"testing"

	"zino/pkg/message"
)

func TestJoined(t *testing.T) {
	for _, c := range []struct {
		name   string
		lists  []string
		want   string
		refuse int
	}{
		{"nothing", nil, `[]`, 0},
		{"empty lists", []string{`[]`, ` [ ] `}, `[]`, 0},
		{"one", []string{`[{"a":1},{"b":2}]`}, `[{"a":1},{"b":2}]`, 0},
		{"empty ones between", []string{`[]`, `[{"a":1}]`, `[]`, ` [ {"b":2} ] `}, `[{"a":1},{"b":2}]`, 0},
		{"not lists", []string{`{"a":1}`, `null`, `"[]"`, ``, `[`, `5`}, `[]`, 6},
		{"not messages", []string{`[1]`, `["{}"]`, `[null]`, `[{"a":1}]`}, `[{"a":1}]`, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			var j joined
			refused := 0
			for _, list := range c.lists {
				if add(&j, list) != nil {
					refused++
				}
			}
			if got := string(j.array()); got != c.want || refused != c.refuse {
				t.Errorf("got %s with %d errors, want %s with %d", got, refused, c.want, c.refuse)
			}
		})
	}
}

func add(j *joined, list string) error {
	inner, err := message.Inner([]byte(list))
	j.add(inner)
	return err
}

func TestEqualStrings(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`""`, `""`, true},
		{`"a"`, `"a"`, true},
		{`"a"`, `"b"`, false},
		{`"a"`, `"ab"`, false},
		{`"é"`, `"\u00e9"`, true},
		{`"\u00e9"`, `"\u00E9"`, true},
		{`"x\u00e9y"`, `"xéz"`, false},
		{`"\/"`, `"/"`, true},
		{`"\n"`, `"\u000a"`, true},
		{`"\\n"`, `"\n"`, false},
		{`"\ud83d\ude00"`, `"😀"`, true},
		{`"\ud83d"`, `"\ufffd"`, true},
		{`null`, `null`, false},
		{`5`, `5`, false},
		{`"5"`, `5`, false},
		{``, ``, false},
	} {
		if equalStrings([]byte(c.a), []byte(c.b)) != c.want || equalStrings([]byte(c.b), []byte(c.a)) != c.want {
			t.Errorf("%s and %s: want %v", c.a, c.b, c.want)
		}
	}
}

// FuzzEqualStrings compares with the decoded values.
func FuzzEqualStrings(f *testing.F) {
	f.Add(`"caf\u00e9"`, `"café"`)
	f.Add(`"\ud83d\ude00"`, `"\ud83dx"`)
	f.Add(`"a\\u0041"`, `"a\u0041"`)
	f.Fuzz(func(t *testing.T, a, b string) {
		var textA, textB string
		if a == "null" || b == "null" || json.Unmarshal([]byte(a), &textA) != nil || json.Unmarshal([]byte(b), &textB) != nil {
			equalStrings([]byte(a), []byte(b)) // must not panic or hang
			return
		}
		if tight(a) && tight(b) && equalStrings([]byte(a), []byte(b)) != (textA == textB) {
			t.Errorf("%s and %s: %v", a, b, textA != textB)
		}
	})
}

// tight reports whether a string is valid UTF-8, as rpc guarantees, and without
// surrounding white space, like an element of wire.Items.
func tight(s string) bool {
	return s[0] == '"' && s[len(s)-1] == '"' && json.Valid([]byte(s)) && string([]rune(s)) == s
}
