package protect

import (
	"slices"
	"strings"
	"testing"
)

func TestParseConfig(t *testing.T) {
	for text, want := range map[string][]setting{
		"[core]\n\thooksPath = .husky\n":                        {{"core", "hookspath", ".husky"}},
		"[CORE] HooksPath=a b  # comment\n[x]y=z":               {{"core", "hookspath", "a b"}, {"x", "y", "z"}},
		"[includeIf \"gitdir:a]b\\\"c\"]\npath = \"~/x y\" ; c": {{"includeif", "path", "~/x y"}},
		"[a.b]\nk = 1\n[ c \"d\"]\nk = 2":                       {{"a", "k", "1"}, {"", "k", "2"}},
		"[a]\nk = one\\\n two\\\\\n":                            {{"a", "k", "one two\\"}},
		"[a]\r\nk = \"x#;\"y\r\nflag\r\nm =\r\n":                {{"a", "k", "x#;y"}, {"a", "m", ""}},
		"[a\nk = v\n":                                           {{"", "k", "v"}},
		"\ufeff; c\n# d\n!x\n[a]k=v\\q\\n.":                     {{"a", "k", "vq\n."}},
	} {
		if got := parseConfig(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
}

// A value holds nothing that the text does not, and an end is always reached.
func FuzzParseConfig(f *testing.F) {
	for _, seed := range []string{"[core]\n\thooksPath = .husky\n", "[include \"a\\\"\"]\npath=\"x\\\ny\" # z", "[a", "[a]b=\\", "k = v", "[a \"b\nc\"]d=e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range parseConfig(text) {
			if s.key == "" || s.key != strings.ToLower(s.key) || len(s.key)+len(s.value) > len(text) {
				t.Errorf("%q: %+v", text, s)
			}
		}
	})
}
