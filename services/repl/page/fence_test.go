package page

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzFenced: whatever a block's body is, nothing of it gets out.
func FuzzFenced(f *testing.F) {
	for _, s := range append(append([]string{poison, "", "\n", "\r"}, phrases...), forged...) {
		f.Add(s, false)
		f.Add(s+s, true)
	}
	f.Fuzz(func(t *testing.T, body string, crlf bool) {
		eol := "\n"
		if crlf {
			eol = "\r\n"
		}
		escaped := escape(body)
		out := fenced(nil, "Text x", escaped, eol)
		s := &transition{State: New(Options{Name: "zen", ID: "1a2b"})}
		l := s.layoutOf(out, 0)
		if len(l.blocks) != 1 || l.blocks[0].from != 0 || l.blocks[0].next != len(out) || l.open >= 0 || len(l.heads)+len(l.footers) > 0 {
			t.Fatalf("%q becomes %q: %+v", body, out, l)
		}
		got := strings.TrimSuffix(strings.ReplaceAll(string(l.blocks[0].text(out)), "\r\n", "\n"), "\n")
		if got != escaped {
			t.Fatalf("%q became %q", escaped, got)
		}
		if bytes.ContainsFunc(out, func(r rune) bool { return hostile(r) && r != '\r' }) {
			t.Fatalf("%q is hostile", out)
		}
	})
}

func TestLines(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "",
		"a":                    "[a]",
		"a\nb\r\nc\rd":         "[a][b][c][d]",
		"\n\r\n\r\r\n":         "[][][][]",
		"a\n\rb\n":             "[a][][b]",
		"\r":                   "[]",
		"a\r\nb\r":             "[a][b]",
		strings.Repeat("a", 9): "[aaaaaaaaa]",
	} {
		var got strings.Builder
		for i := 0; i < len(text); {
			l := lineAt([]byte(text), i)
			got.WriteString("[" + text[l.from:l.end] + "]")
			if l.next <= i {
				t.Fatalf("%q does not end", text)
			}
			i = l.next
		}
		if got.String() != want {
			t.Errorf("%q has the lines %s, want %s", text, got.String(), want)
		}
	}
}

func TestParagraphs(t *testing.T) {
	for text, want := range map[string]string{
		"":          "",
		"a":         "a\n\n",
		"a\n":       "a\n\n",
		"a\n\n":     "a\n\n",
		"a\n \t\n":  "a\n \t\n",
		"a\n  ":     "a\n  \n",
		"\n":        "\n",
		"a\r\n":     "a\r\n\n",
		"a\r\n\r\n": "a\r\n\r\n",
		"a\r":       "a\r\n\n",
		"a\r\r":     "a\r\r",
	} {
		if got := string(closeParagraph([]byte(text), "\n")); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	for _, c := range []struct{ out, follow, want string }{
		{"a", "", "a\n"}, {"a", "b", "a\n\n"}, {"a\n", "\nb", "a\n"}, {"a\n", " \t\r\nb", "a\n"}, {"a\n\n", "b", "a\n\n"},
	} {
		if c.follow == "" {
			c.want = "a\n" // nothing follows: it is not parted from anything
		}
		if got := string(join([]byte(c.out), []byte(c.follow), "\n")); got != c.want {
			t.Errorf("%q before %q becomes %q, want %q", c.out, c.follow, got, c.want)
		}
	}
}

func TestLabels(t *testing.T) {
	for _, c := range []struct {
		info, lang string
		want       bool
	}{
		{"", "js", true},
		{"js", "js", true},
		{"JS", "js", true},
		{"JavaScript", "js", true},
		{"mjs\tx", "js", true},
		{"js title=x", "js", true},
		{"jsx", "js", false},
		{"json", "js", false},
		{"js,x", "js", false},
		{"python", "js", false},
		{"python", "py", true},
		{"py", "py", true},
		{"Python3 x", "py", true},
		{"js", "py", false},
		{"", "lisp", true},
		{"LISP", "lisp", true},
	} {
		if got := runs(c.info, c.lang); got != c.want {
			t.Errorf("%q on a page of %s: %v", c.info, c.lang, got)
		}
	}
}
