package assemble

import (
	"encoding/json"
	"testing"
)

func TestSame(t *testing.T) {
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
		if same([]byte(c.a), []byte(c.b)) != c.want || same([]byte(c.b), []byte(c.a)) != c.want {
			t.Errorf("%s and %s: want %v", c.a, c.b, c.want)
		}
	}
}

// FuzzSame: two strings are the same just when they decode to the same text.
func FuzzSame(f *testing.F) {
	f.Add(`"caf\u00e9"`, `"café"`)
	f.Add(`"\ud83d\ude00"`, `"\ud83dx"`)
	f.Add(`"a\\u0041"`, `"a\u0041"`)
	f.Fuzz(func(t *testing.T, a, b string) {
		var textA, textB string
		if a == "null" || b == "null" || json.Unmarshal([]byte(a), &textA) != nil || json.Unmarshal([]byte(b), &textB) != nil {
			same([]byte(a), []byte(b)) // must end
			return
		}
		if tight(a) && tight(b) && same([]byte(a), []byte(b)) != (textA == textB) {
			t.Errorf("%s and %s: %v", a, b, textA != textB)
		}
	})
}

// tight reports whether no white space surrounds a string, as in a list that
// was taken apart, and whether it is valid UTF-8, as everything on a socket.
func tight(s string) bool {
	return s[0] == '"' && s[len(s)-1] == '"' && json.Valid([]byte(s)) && string([]rune(s)) == s
}
