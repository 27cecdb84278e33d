package markdown

import (
	"regexp"
	"strings"
	"testing"
)

var sequence = regexp.MustCompile("\x1b\\[([0-9;]*)m|\x1b]8;;([!-~]*)\x1b\\\\")

// marked returns a print with {1;36} for the start of a style, {} for its end, and {@URL}
// and {@} for the start and the end of a link.
func marked(s string) string {
	return sequence.ReplaceAllStringFunc(s, func(seq string) string {
		m := sequence.FindStringSubmatch(seq)
		if strings.HasPrefix(seq, "\x1b[") {
			return "{" + m[1] + "}"
		}
		return "{@" + m[2] + "}"
	})
}

// fenced returns a fenced block of code.
func fenced(info, code string) string { return "```" + info + "\n" + code + "```\n" }

// TestPrint shows what each construct prints, with its styles, at a width of 40 cells in a
// terminal that knows links.
func TestPrint(t *testing.T) {
	const nine = "word word word word word word word word word"
	for _, c := range []struct{ name, in, want string }{
		{"headings", "# One *it* ##\n###### Six\n#not one\n", "{1;36}One {}{1;3;36}it{}\n\n{1;36}Six{}\n\n#not one\n"},
		{"setext headings", "One\nmore\n===\nTwo\n---\n", "{1;36}One{} {1;36}more{}\n\n{1;36}Two{}\n"},
		{"emphasis", "**b** __b__ *i* ***bi*** `a *c*`\n", "{1}b{} {1}b{} {3}i{} {1;3}bi{} {36}a *c*{}\n"},
		{"strikethrough", "~~two~~ ~one~ a ~ b\n", "~~two~~ ~one~ a ~ b\n"},
		{"breaks", "soft\nbreak  \nhard\\\nhard\n", "soft break\nhard\nhard\n"},

		{"link", "[text](http://h/a)\n", "{@http://h/a}text{@} (http://h/a)\n"},
		{"link with a title", "[text](http://h \"T\")\n", "{@http://h}text{@} (http://h \"T\")\n"},
		{"link equal to its text", "[http://h](http://h)\n", "{@http://h}http://h{@}\n"},
		{"link without text", "[](http://h)\n", "{@http://h}{@}http://h\n"},
		{"link with styles", "[**b** `c`](http://h)\n", "{@http://h}{1}b{} {36}c{}{@} (http://h)\n"},
		{
			"link over two lines", "> [" + nine + "](http://h)\n",
			"│ {@http://h}word word word word word word word{@}\n│ {@http://h}word word{@} (http://h)\n",
		},
		{"autolinks", "<http://h> <a@b.c> http://h\n", "{@http://h}http://h{@} {@mailto:a@b.c}a@b.c{@} http://h\n"},
		{"schemes of links", "[f](file:///a) [M](MAILTO:a@b.c)\n", "{@file:///a}f{@} (file:///a) {@MAILTO:a@b.c}M{@} (MAILTO:a@b.c)\n"},
		{"schemes that are no links", "[j](javascript:f) <javascript:f> [d](data:x) [r](a.md)\n", "j (javascript:f) javascript:f d (data:x)\nr (a.md)\n"},
		{"link with an escape sequence", "[a](<http://h/\x1b]8;;x\x07>)\n", "{@http://h/%1B]8;;x%07}a{@} (http://h/^[]8;;x^G)\n"},
		{"reference links", "[a]: http://h 'T'\n\n[b][A] [a][] [a] [c]\n", "[a]: http://h \"T\"\n\n{@http://h}b{@} (http://h \"T\") {@http://h}a{@} (http://h \"T\") {@http://h}a{@}\n(http://h \"T\") [c]\n"},
		{"images", "![a *b*](i.png) ![](u)\n", "[image: a {3}b{}] (i.png) [image: ] (u)\n"},
		{"image in a link", "[![a](i)](http://h)\n", "{@http://h}[image: a] (i){@} (http://h)\n"},

		{"lists", "- a\n  more\n- b\n\n  1. c\n  2. d\n* e\n", "• a more\n• b\n  1. c\n  2. d\n\n• e\n"},
		{"ordered lists", "7) a\n7) b\n\n1. c\n", "7) a\n8) b\n\n1. c\n"},
		{"empty items", "-\n- a\n-\n", "•\n• a\n•\n"},
		{"list with code", "- a\n  " + strings.ReplaceAll(fenced("go", "x := 1\n\ny\n"), "\n", "\n  ") + "\n- b\n", "• a\n\n    x := {33}1{}\n\n    y\n• b\n"},
		{"tasks", "- [x] a\n  - [X] b\n- [ ] c\n- [y] d\n", "[x] a\n  [x] b\n[ ] c\n• [y] d\n"},
		{"ordered tasks", "1. [x] a\n2. [ ] b\n", "1. [x] a\n2. [ ] b\n"},
		{"quotes", "> a\nlazy\n>\n> > b\n> 1. c\n", "│ a lazy\n│\n│ │ b\n│\n│ 1. c\n"},
		{"quoted code", "> " + strings.ReplaceAll(strings.TrimSpace(fenced("", "x\n")), "\n", "\n> ") + "\n", "│   x\n"},
		{"rule", "***\n", strings.Repeat("─", 40) + "\n"},

		{
			"aligned table", "|l|c|r|\n|:-|:-:|-:|\n|left|centre|right|\n|`x\\|y`|é|\\||\n",
			"{1}l{}    │   {1}c{}    │     {1}r{}\n─────┼────────┼──────\nleft │ centre │ right\n{36}x|y{}  │   é    │     |\n",
		},
		{"table of missing and extra cells", "|a|b|\n|-|-|\n|1|\n|1|2|3|\n", "{1}a{} │ {1}b{}\n──┼──\n1 │\n1 │ 2\n"},
		{"table without rows", "a|b\n-|-\n", "{1}a{} │ {1}b{}\n──┼──\n"},
		{
			"shrunk table", "|name|remark|\n|-|-:|\n|x|" + nine + "|\n",
			"{1}name{} │                            {1}remark{}\n─────┼──────────────────────────────────\nx    │     word word word word word word\n     │                    word word word\n",
		},
		{
			"link in a shrunk table", "|a|b|\n|-|-|\n|[" + nine + "](http://h)|x|\n",
			"{1}a{}                                    │ {1}b{}\n─────────────────────────────────────┼──\n{@http://h}word word word word word word word{@}   │ x\n{@http://h}word word{@} (http://h)                 │\n",
		},
		{
			"table that is too wide", "|a|b|c|d|\n|-|-|-|-|\n" + strings.Repeat("|"+strings.Repeat("123456789|", 4)+"\n", 2) + "|1|\n",
			"{1}a{}: 123456789\n{1}b{}: 123456789\n{1}c{}: 123456789\n{1}d{}: 123456789\n\n{1}a{}: 123456789\n{1}b{}: 123456789\n{1}c{}: 123456789\n{1}d{}: 123456789\n\n{1}a{}: 1\n{1}b{}:\n{1}c{}:\n{1}d{}:\n",
		},
		{"table behind a paragraph", "text\n|a|\n|-|\n|1|\n", "text\n\n{1}a{}\n─\n1\n"},

		{"raw HTML", "a <b class=\"x\">c</b><br> <!-- d -->\n", "a <b class=\"x\">c</b><br> <!-- d -->\n"},
		{"blocks of HTML", "<details>\n<summary>s</summary>\n\n*a*\n\n</details>\n\n<!--\nb\n-->\n", "<details>\n<summary>s</summary>\n\n{3}a{}\n\n</details>\n\n<!--\nb\n-->\n"},
		{"entities", "&lt; &copy; &#35; &#x22; &amp;amp; &none; &#0;\n", "< © # \" &amp; &none; \ufffd\n"},
		{"escapes", `\*a\* \[b] \\ \a` + "\n", `*a* [b] \ \a` + "\n"},
		{"control characters", "a\x1b[31m\x07\x7f\u009b\ufffe\xff\u202e\u2028&#27;\tb\n", "a^[[31m^G\\u007f\\u009b\ufffe\ufffd\\u202e\\u2028^[ b\n"},

		{"indented code", "a\n\n    b *c*\n\n      d\n\te\n\nf\n", "a\n\n  b *c*\n\n    d\n  e\n\nf\n"},
		{"colours of code", fenced("go", "// c\nfunc f() string { return \"s\" + 12 }\n"), "  {90}// c{}\n  {35}func{} {34}f{}() {35}string{} { {35}return{} {32}\"s\"{} + {33}12{} }\n"},
		{"info string", fenced("Go {.x} more", "12\n"), "  {33}12{}\n"},
		{"unknown language", fenced("none-such", "func 12\n"), "  func 12\n"},
		{"no language", fenced("", "func\t12\n"), "  func    12\n"},
		{"tildes", "~~~go\n``\n12\n~~~~\nb\n", "  {32}``{}\n  {33}12{}\n\nb\n"},
		{"fence without end", "```go\n12", "  {33}12{}\n"},
		{"empty fence", "a\n```\n```\nb\n", "a\n\nb\n"},
		{"no fence", "``` a`b\nc\n", "``` a`b c\n"},
		{"CRLF", "# a\r\nb\r\nc\r\n\r\n- d\r\n\r\n```\r\ne\r\n\r\nf\r\n```\r\n", "{1;36}a{}\n\nb c\n\n• d\n\n  e\n\n  f\n"},
		{"definition of a footnote", "a[^1]\n\n[^1]: b\n", "a[^1]\n\n[^1]: b\n"},
	} {
		s := newStream(40)
		s.Links = true
		if got := marked(s.Write(c.in) + s.End()); got != c.want {
			t.Errorf("%s: %q prints\n%q, want\n%q", c.name, c.in, got, c.want)
		}
	}
}

// TestPrintMono checks that a terminal without colours gets bold only.
func TestPrintMono(t *testing.T) {
	s := newStream(40)
	s.Palette.Mono = true
	got := marked(s.Write("# A\n\n**b** *i* `c`\n\n|t|\n|-|\n\n"+fenced("go", "func f() {}\n")) + s.End())
	if want := "{1}A{}\n\n{1}b{} i c\n\n{1}t{}\n─\n\n  func f() {}\n"; got != want {
		t.Errorf("printed\n%q, want\n%q", got, want)
	}
}

// TestLongTable checks that a table of 200 rows is aligned, and one of more printed as it is,
// wherever it ends.
func TestLongTable(t *testing.T) {
	const head, row = "|a|b|\n|-|-|\n", "|x|**y**|\n"
	aligned := "{1}a{} │ {1}b{}\n──┼──\n" + strings.Repeat("x │ {1}y{}\n", 200)
	if got := marked(printed(40, head+strings.Repeat(row, 200))); got != aligned {
		t.Errorf("200 rows print\n%q", got)
	}
	for rows := 201; rows < 260; rows += 4 {
		table := head + strings.Repeat(row, rows)
		if got, want := printed(40, "text\n\n"+table+"\na *b* | c\n"), "text\n\n"+table+"\na \x1b[3mb\x1b[m | c\n"; got != want {
			t.Fatalf("%d rows print\n%q, want\n%q", rows, got, want)
		}
	}
	wide := "|" + strings.Repeat("wide ", 200) + "|y|\n"
	if got := plain(printed(40, head+strings.Repeat(wide, 100)+row)); !strings.HasSuffix(got, "\n"+row) || strings.Count(got, "wide") != 200*100 {
		t.Errorf("a table over 64 KiB ends with %q", got[len(got)-100:])
	}
}

// TestLongCode checks that code behind 256 KiB of the same block has no colours.
func TestLongCode(t *testing.T) {
	const line = "return 12\n"
	s := newStream(40)
	s.CodeRows = func() int { return 5000 }
	got := marked(s.Write(fenced("go", strings.Repeat(line, codeMax/len(line)+10000))) + s.End())
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	if len(lines) != codeMax/len(line)+10000 || lines[0] != "  {35}return{} {33}12{}" || lines[len(lines)-1] != "  return 12" {
		t.Errorf("%d lines, the first %q, the last %q", len(lines), lines[0], lines[len(lines)-1])
	}
	r := renderer{Options: &Options{}}
	if got := strings.Join(r.code(strings.Repeat(line, codeMax/len(line)+1), "go"), ""); strings.Contains(got, "\x1b") {
		t.Errorf("code over 256 KiB has colours: %q", got[:100])
	}
}
