package page

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

var (
	opener = regexp.MustCompile("^ {0,3}(?:(`{3,})([^`]*)|(~{3,})(.*))$")
	closer = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})[ \t]*$")
)

// reference says of each line what it is to the fences, in the slow and obvious way.
func reference(lines []string) (all []part) {
	open := ""
	for _, l := range lines {
		switch {
		case open == "":
			m := opener.FindStringSubmatch(l)
			if m == nil {
				all = append(all, outside)
				continue
			}
			open = m[1] + m[3]
			all = append(all, opens)
		default:
			if m := closer.FindStringSubmatch(l); m != nil && strings.HasPrefix(m[1], open) {
				open = ""
				all = append(all, closes)
				continue
			}
			all = append(all, inside)
		}
	}
	return all
}

func FuzzFence(f *testing.F) {
	for _, s := range phrases {
		f.Add(s + "text\n```js\na\n```\n")
	}
	f.Add("```\n~~~\n```\n~~~\n```~~~\n~~~`\n")
	f.Add("````js\n```\n````` \n ``` `\n  ~~~~ ~\n~~~\n~~~~~\t\n")
	f.Fuzz(func(t *testing.T, text string) {
		var f fence
		var all []string
		for _, l := range lines([]byte(text)) {
			all = append(all, string(trimEnd(l)))
		}
		for i, want := range reference(all) {
			if got := f.step([]byte(all[i])); got != want {
				t.Fatalf("line %d of %q is %d, want %d", i, text, got, want)
			}
		}
	})
}

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
		s := &step{Page: New(Options{Name: "zen", ID: "1a2b"})}
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
