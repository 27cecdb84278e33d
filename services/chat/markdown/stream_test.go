package markdown

import (
	"encoding/json"
	"html"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"zino/pkg/zinotest"
	"zino/services/chat/screen"
)

func newStream(width int) *Stream {
	return &Stream{
		Options:  Options{Widths: screen.NewWidths(false), Width: func() int { return width }},
		CodeRows: func() int { return 8 },
	}
}

// printed returns what a text gives that arrives in pieces.
func printed(width int, pieces ...string) string {
	s := newStream(width)
	var out strings.Builder
	for _, piece := range pieces {
		out.WriteString(s.Write(piece))
		s.Live(8)
	}
	out.WriteString(s.End())
	return out.String()
}

// plain removes styles.
func plain(s string) string { return screen.Strip(s) }

func TestBlocks(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"heading", "## Head *it* ##\ntext", "Head it\n\ntext\n"},
		{"soft line break", "one\ntwo  \nthree", "one two\nthree\n"},
		{"wrap", strings.Repeat("word ", 9), "word word word word word word\nword word word\n"},
		{"link", "[the spec](https://go.dev/ref/spec) <https://x.y> [a@b.c](mailto:a@b.c)", "the spec\n(https://go.dev/ref/spec)\nhttps://x.y a@b.c\n"},
		{"image", `![logo](l.png "the logo")`, "[image: logo] (l.png \"the\nlogo\")\n"},
		{"reference before its use", "[1]: http://z\n\nsee [this][1]\n", "[1]: http://z\n\nsee this (http://z)\n"},
		{"entities and escapes", `&amp;lt; \*x\* &copy; \&amp;`, "&lt; *x* © &amp;\n"},
		{"control characters of entities", "a&#27;[31m &#x202e;", "a^[[31m \\u202e\n"},
		{"lists", "- a\n- b\n  more\n\n  para\n  1. x\n  2. y\n* c\n", "• a\n• b more\n\n  para\n  1. x\n  2. y\n\n• c\n"},
		{"repeated numbers", "1. a\n1. b\n1. c\n", "1. a\n2. b\n3. c\n"},
		{"a list that starts at 9", "9. a\n10. b\n", "9. a\n10. b\n"},
		{"tasks", "- [x] done\n- [ ] open\n", "[x] done\n[ ] open\n"},
		{"quote", "> a\n> b\n>\n> - c\n", "│ a b\n│\n│ • c\n"},
		{"rule", "a\n\n***\n", "a\n\n" + strings.Repeat("─", 31) + "\n"},
		{"html", "a <b>c</b>\n\n<div>\nx\n</div>\n", "a <b>c</b>\n\n<div>\nx\n</div>\n"},
		{"comment", "<!-- hidden -->\n", "<!-- hidden -->\n"},
		{"code", "```go\nfunc f() {\n\treturn\n}\n```\ntext", "  func f() {\n      return\n  }\n\ntext\n"},
		{"code with control characters", "~~~\na\x1b]52;c;x\a\n~~~\n", "  a^[]52;c;x^G\n"},
		{"code without end", "```\nx", "  x\n"},
		{"code with longer fence", "````\n```\n````\nx\n", "  ```\n\nx\n"},
		{"table", "|a|b|\n|---|--:|\n|one|2|\n|漢字|10|\n", "a    │  b\n─────┼───\none  │  2\n漢字 │ 10\n"},
		{"table with wrapped cells", "|name|remark|\n|---|---|\n|x|" + strings.Repeat("word ", 6) + "|\n", "name │ remark\n─────┼─────────────────────────\nx    │ word word word word word\n     │ word\n"},
		{"table as records", "|aaaaaaaaaa|bbbbbbbbbb|cccccccccc|dddddddddd|\n|-|-|-|-|\n|1|2|3|4|\n", "aaaaaaaaaa: 1\nbbbbbbbbbb: 2\ncccccccccc: 3\ndddddddddd: 4\n"},
		{"strikethrough", "~~old~~ new", "~~old~~ new\n"},
	} {
		if got := plain(printed(31, c.in)); got != c.want {
			t.Errorf("%s:\n%q gives\n%q, want\n%q", c.name, c.in, got, c.want)
		}
	}
}

func TestFinalTextIsPrintedEarly(t *testing.T) {
	s := newStream(40)
	for _, step := range []struct{ write, final, live string }{
		{"Hello *wor", "", "Hello *wor"},
		{"ld*.\n", "", "Hello world."},
		{"\n", "", "Hello world."},
		{"1. on", "", "Hello world.\n\n1. on"},
		{"e\n", "Hello world.\n", "\n1. one"},
		{"2. two\n", "\n1. one\n", "2. two"},
		{"```go\n", "2. two\n", ""},
		{"x := 1", "", "\n  x := 1"},
		{"\n```\n", "\n  x := 1\n", ""},
		{"|a|b|\n|-|-|\n|1|2", "", "\n|a|b|\n|-|-|\n|1|2"},
	} {
		if got := plain(s.Write(step.write)); got != step.final {
			t.Errorf("after %q: printed %q, want %q", step.write, got, step.final)
		}
		if got := plain(strings.Join(s.Live(8), "\n")); got != step.live {
			t.Errorf("after %q: live %q, want %q", step.write, got, step.live)
		}
	}
	if got, want := plain(s.End()), "\na │ b\n──┼──\n1 │ 2\n"; got != want {
		t.Errorf("the end prints %q, want %q", got, want)
	}
}

func TestLongCodeIsPrintedInBatches(t *testing.T) {
	s := newStream(40)
	got := s.Write("```\n" + strings.Repeat("line\n", 20))
	if lines := strings.Count(got, "\n"); lines != 18 {
		t.Errorf("%d lines are printed before the end, want 18", lines)
	}
	if live := s.Live(8); len(live) != 2 && len(live) != 3 {
		t.Errorf("live block: %q", live)
	}
}

func TestLongPendingTextIsPrinted(t *testing.T) {
	s := newStream(80)
	got := s.Write("> " + strings.Repeat(strings.Repeat("word ", 15)+"\n> ", 1000))
	if got == "" || s.pending.Len() > pendingMax {
		t.Errorf("%d bytes are pending, %d printed", s.pending.Len(), len(got))
	}
}

func TestLongTableIsPrintedAsItIs(t *testing.T) {
	rows := strings.Repeat("|x|y|\n", 500)
	got := plain(printed(80, "|a|b|\n|-|-|\n"+rows+"\nend\n"))
	if strings.Count(got, "x") != 500 || !strings.HasSuffix(got, "\nend\n") {
		t.Errorf("%d rows; the end is %q", strings.Count(got, "x"), got[len(got)-30:])
	}
}

// example is a text in Markdown and its HTML.
type example struct{ Markdown, HTML string }

// examples returns those of CommonMark's specification, and those of GitHub's tables,
// strikethrough, task lists and autolinks, which come with goldmark.
func examples(t *testing.T) (list []example) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/yuin/goldmark").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(string(out))
	if err := json.Unmarshal([]byte(zinotest.Read(t, filepath.Join(dir, "_test/spec.json"))), &list); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"table", "strikethrough", "tasklist", "linkify"} {
		before := len(list)
		for part := range strings.SplitSeq(zinotest.Read(t, filepath.Join(dir, "extension/_test", name+".txt")), "//= = = = = = = = = = = = = = = = = = = = = = = =//\n") {
			fields := strings.Split(part, "//- - - - - - - - -//\n") // number, Markdown, HTML
			if len(fields) != 3 {
				continue
			}
			if strings.Contains(fields[0], `"enableEscape": true`) {
				fields[1] = strings.ReplaceAll(fields[1], `\t`, "\t")
			}
			list = append(list, example{fields[1], fields[2]})
		}
		if len(list) == before {
			t.Fatalf("goldmark has no examples of %s", name)
		}
	}
	return list
}

var (
	tags  = regexp.MustCompile(`<[^>]*>`)
	words = regexp.MustCompile(`\pL[\pL\pN]+`)
)

func TestExamplesLoseNoText(t *testing.T) {
	for _, e := range examples(t) {
		got := plain(printed(80, e.Markdown))
		squeezed := strings.NewReplacer("\n", "", " ", "", "│", "").Replace(got)
		for _, word := range words.FindAllString(html.UnescapeString(tags.ReplaceAllString(e.HTML, " ")), -1) {
			if !strings.Contains(squeezed, word) {
				t.Errorf("%q lost %q:\n%q", e.Markdown, word, got)
				break
			}
		}
	}
}

func TestSplitsGiveTheSamePrint(t *testing.T) {
	texts := []string{strings.Repeat("# A\n\ntext *b*\n\n1. x\n1. y\n\n   z\n\n```go\nfunc f() {}\n```\n\n|a|b|\n|-|-|\n|1|2|\n\n> q\n> - r\n\n", 3)}
	for _, e := range examples(t) {
		texts = append(texts, e.Markdown)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, s := range texts {
		want := printed(40, s)
		if got := printed(40, strings.Split(s, "")...); got != want {
			t.Errorf("%q by characters:\n%q, want\n%q", s, got, want)
		}
		for range 5 {
			if got := printed(40, pieces(s, random)...); got != want {
				t.Errorf("%q in pieces:\n%q, want\n%q", s, got, want)
			}
		}
	}
}

// pieces splits a text anywhere.
func pieces(s string, random *rand.Rand) (list []string) {
	for len(s) > 0 {
		n := 1 + random.IntN(min(len(s), 20))
		list = append(list, s[:n])
		s = s[n:]
	}
	return list
}

var ours = regexp.MustCompile("\x1b\\[[0-9;]*m|\x1b]8;;[!-~]*\x1b\\\\")

// FuzzStream checks that every split gives the same print, and that no control sequence
// but ours is printed.
func FuzzStream(f *testing.F) {
	f.Add("# h\n- a\n- b\n\n```go\nx\n```\n|a|\n|-|\n|\x1b[31m|\n", uint64(1))
	f.Add("1. a\n\n   b\n2. <x\x07>\n> [l](http://x\u202e)\n&#27;", uint64(2))
	f.Add("[a]: <b\x9b> 'c'\n\n[a] ![x](y)\n\n    code\n***\nfoo\n===\n", uint64(3))
	f.Fuzz(func(t *testing.T, s string, seed uint64) {
		if len(s) > 4000 {
			return
		}
		want := printed(40, s)
		if got := printed(40, pieces(s, rand.New(rand.NewPCG(seed, 0)))...); got != want {
			t.Fatalf("%q in pieces: %q, want %q", s, got, want)
		}
		stream := newStream(40)
		stream.Links = true
		out := stream.Write(s) + stream.End()
		if rest := ours.ReplaceAllString(out, ""); strings.ContainsFunc(rest, func(r rune) bool { return r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || r == '\u202e' }) {
			t.Fatalf("%q prints %q", s, rest)
		}
	})
}

// TestHostileText checks that text which takes parsers quadratic time is shown, and none
// of it is lost. With such a parser this test takes minutes.
func TestHostileText(t *testing.T) {
	for name, s := range map[string]string{
		"brackets": strings.Repeat("[", 1<<20), "stars": strings.Repeat("*", 1<<20), "backticks": "a" + strings.Repeat("`", 1<<20),
		"quotes": strings.Repeat(">", 1<<12) + "x", "line": strings.Repeat("word ", 1<<18), "emphasis": strings.Repeat("*a ", 1<<14),
		"links": strings.Repeat("[a](", 1<<14), "images": strings.Repeat("![a](", 1<<13), "definitions": strings.Repeat("[a]: b\n\n", 1<<10),
		"one item": "- a\n" + strings.Repeat("  b\n", 1<<13), "comment": "<!--\n" + strings.Repeat("x\n", 1<<14),
	} {
		got := plain(printed(80, s))
		for _, c := range "[`wadx" {
			if n, want := strings.Count(got, string(c)), strings.Count(s, string(c)); n < want {
				t.Errorf("%s: %d of %d %q are shown", name, n, want, c)
			}
		}
	}
}
