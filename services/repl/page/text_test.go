package page

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// FuzzFenced: no body of a block can end its fence.
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
		tr := &transition{State: New(Options{Name: "zen", ID: "1a2b"})}
		l := tr.layoutOf(out, 0)
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
		"a\r\r":     "a\r\r\n",
		"a\n\r":     "a\n\r\n",
	} {
		if got := string(closeParagraph([]byte(text), "\n")); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	for _, c := range []struct{ out, follow, want string }{
		{"a", "", "a\n"}, {"a", "b", "a\n\n"}, {"a\n", "\nb", "a\n"}, {"a\n", " \t\r\nb", "a\n"}, {"a\n\n", "b", "a\n\n"},
	} {
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

func testOptions() *Options {
	o := Options{Name: "index-7-zen", ID: "1a2b"}.withDefaults()
	return &o
}

func TestRequest(t *testing.T) {
	const full = "index-7-zen-1a2b"
	for line, want := range map[string]string{
		"> **agent** to " + full + " at 22:52:47":                       "agent|" + full + "|22:52:47|true",
		"> **agent** to " + full + " at 22:52:47 \t":                    "agent|" + full + "|22:52:47|true",
		"> **agent** to index-7-zen at 22:52:47":                        "agent|index-7-zen|22:52:47|true",
		"> **agent** to " + full:                                        "agent|" + full + "||false",
		"> **a b** to " + full + " at 22:52:47":                         "a b|" + full + "|22:52:47|false",
		"> ** a ** to x at 22:52:47":                                    "a|x|22:52:47|true",
		"> **a*b** to x":                                                "a*b|x||false",
		"> **\xff** to x":                                               "\xff|x||false",
		"> **agent** to " + full + " at 22:52:47 (17ms)":                "",
		"> **agent** to " + full + " at 22:52":                          "",
		"> **agent** to " + full + " at 2a:52:47":                       "",
		"> **agent** to " + full + " today":                             "",
		"> **agent** to  " + full:                                       "",
		"> **agent** to ":                                               "",
		"> ** ** to x":                                                  "",
		"> **** to x":                                                   "",
		"> **" + full + "** to agent at 22:52:47":                       "",
		"> **Index-7-Zen** to agent at 22:52:47":                        "",
		"> agent to x at 22:52:47":                                      "",
		">**agent** to x":                                               "",
		" > **agent** to x":                                             "",
		"**agent** to x":                                                "",
		"> **agent** background at 22:52:47":                            "",
		"> **" + strings.Repeat("a", nameMax+1) + "** to x":             "",
		"> **agent** to " + strings.Repeat("x", nameMax+1):              "",
		"> **a** to b at 22:52:47 ** to " + full + " at 22:52:47":       "",
		"> **a** to **b** to x":                                         "",
		"> **agent** to " + full + " at 22:52:47\x00":                   "",
		"> **agent** to " + full + " at 22:52:47" + "\u00a0":            "",
		"> **agent\x1b** to " + full + " at 22:52:47":                   "agent\x1b|" + full + "|22:52:47|true",
		"> **" + strings.Repeat("a", nameMax) + "** to x at 00:00:00":   strings.Repeat("a", nameMax) + "|x|00:00:00|true",
		"> **agent** to " + strings.Repeat("x", nameMax) + "  \t ":      "agent|" + strings.Repeat("x", nameMax) + "||false",
		"> **agent** to " + full + " at 99:99:99":                       "agent|" + full + "|99:99:99|true",
		"> **\u202eagent** to " + full + " at 22:52:47":                 "\u202eagent|" + full + "|22:52:47|true",
		"> **agent** to " + full + " at 22:52:47 at 22:52:47":           "",
		"> **agent** to " + full + " **at** 22:52:47":                   "",
		"> **agent** to " + full + " at  22:52:47":                      "",
		"> **index-7-zen-1a2b** to index-7-zen-1a2b at 22:52:47":        "agent|" + full + "|22:52:47|true",
		"> **index-7-zen-1a2b ** to index-7-zen-1a2b at 22:52:47":       "agent|" + full + "|22:52:47|true",
		"> **index-7-zen-ffff** to index-7-zen-1a2b at 22:52:47":        "index-7-zen-ffff|" + full + "|22:52:47|true",
		"> **agent** to " + full + " at 22:52:47" + "(**ERROR** after)": "",
	} {
		got := ""
		if h, ok := testOptions().request([]byte(line)); ok {
			got = fmt.Sprintf("%s|%s|%s|%v", h.agent, h.page, h.time, h.exact())
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func TestMark(t *testing.T) {
	for line, want := range map[string]mark{
		"> **index-7-zen-1a2b** to agent at 22:52:47":                         announces,
		"> **index-7-zen-1a2b** to a b at 22:52:47 \t":                        announces,
		"> **index-7-zen-1a2b** to agent at 22:52:47 (17ms)":                  replies,
		"> **index-7-zen-1a2b** to agent at 22:52:47 (**ERROR** after 60.0s)": replies,
		"> **index-7-zen-1a2b** to x (y) at 22:52:47":                         announces,
		"> **index-7-zen-1a2b** background at 22:52:47":                       reports,
		"> **index-7-zen-1a2b** note at 22:52:47":                             reports,
		"> **index-7-zen** to agent at 22:52:47":                              noMark,
		"> **index-7-zen** to agent at 22:52:47 (17ms)":                       replies,
		"> **Index-7-Zen-1A2B** to agent at 22:52:47 (17ms)":                  replies,
		"> **index-7-zen** note at 22:52:47":                                  noMark,
		"> **index-7-zen-ffff** to agent at 22:52:47 (17ms)":                  noMark,
		"> **index-7-zen-1a2b** to agent":                                     noMark,
		"> **index-7-zen-1a2b** to  at 22:52:47":                              noMark,
		"> **index-7-zen-1a2b** said at 22:52:47":                             noMark,
		"> **index-7-zen-1a2b** ":                                             noMark,
		"> **index-7-zen-1a2b** to agent at 22:52:4x":                         noMark,
		"> **agent** to index-7-zen-1a2b at 22:52:47":                         noMark,
		"index-7-zen-1a2b":                                                    noMark,
	} {
		if got, _ := testOptions().mark([]byte(line)); got != want {
			t.Errorf("%q: %d, want %d", line, got, want)
		}
	}
}

func TestPlaceholder(t *testing.T) {
	for line, want := range map[string]string{
		"executing (0s)": "0", "executing (60s)  ": "60", "executing (00001s)": "00001",
		"executing ()": "", "executing (s)": "", "executing (5)": "", "executing (-1s)": "", "Executing (5s)": "", "executing (5s) x": "",
		"executing (1234567890123s)": "", " executing (5s)": "", "executing ...": "?", "executing the plan": "",
		"executing (5s): page busy or frozen since 22:52:47": "5", "waiting for the page to reload (7s)": "7", "waiting": "",
	} {
		got, ok := placeholder([]byte(line))
		if ok && got == "" {
			got = "?" // unknown
		}
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q %v", line, got, ok)
		}
	}
}

// FuzzHeader: no line is both a request and the service's, and the service parses what
// it writes for an agent of any name.
func FuzzHeader(f *testing.F) {
	for _, s := range append(phrases, forged...) {
		f.Add(strings.TrimSpace(s))
	}
	f.Add("> **a** to b at 00:00:00 (x) (y)")
	f.Fuzz(func(t *testing.T, line string) {
		o := testOptions()
		h, asked := o.request([]byte(line))
		if kind, _ := o.mark([]byte(line)); asked && kind != noMark {
			t.Fatalf("%q is a request and mark %d", line, kind)
		}
		if asked && (h.agent == "" || h.page == "" || strings.Contains(h.page, " ")) {
			t.Fatalf("%q: %+v", line, h)
		}
		tr := &transition{State: New(*o), now: begin}
		j := &job{agent: o.agent(line), asked: begin.Format(time.TimeOnly)}
		if h, ok := o.request([]byte(tr.headline(j))); !ok || h.page != o.full() || h.time != j.asked {
			t.Fatalf("the service writes %q", tr.headline(j))
		}
		announced := tr.appendLine(nil, "to "+oneLine(j.agent))
		if kind, agent := o.mark(announced[:len(announced)-1]); kind != announces || agent != oneLine(j.agent) {
			t.Fatalf("the service writes %q: %d %q", announced, kind, agent)
		}
	})
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0ms", 0: "0ms", 999 * time.Microsecond: "0ms", 17 * time.Millisecond: "17ms", 2 * time.Second: "2000ms",
		2001 * time.Millisecond: "2.0s", 2050 * time.Millisecond: "2.0s", 2051 * time.Millisecond: "2.1s", time.Minute: "60.0s", time.Hour: "3600.0s",
	} {
		if got := span(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

func TestSanitize(t *testing.T) {
	for name, want := range map[string]string{
		"Index - 7 Zen":                 "index-7-zen",
		"index-7-zen":                   "index-7-zen",
		"":                              "page",
		"日本語":                           "page",
		"  --  ":                        "page",
		"../../etc/passwd":              "etc-passwd",
		"..":                            "page",
		"C:\\x\x00y\n":                  "c-x-y",
		"Äpfel & Birnen":                "pfel-birnen",
		"-a-":                           "a",
		"\xff\xfea":                     "a",
		"\u212a":                        "page", // the Kelvin sign, which is not K
		strings.Repeat("a", 100):        strings.Repeat("a", 80),
		strings.Repeat("a", 79) + " bc": strings.Repeat("a", 79),
		strings.Repeat("a", 78) + " bc": strings.Repeat("a", 78) + "-b",
		strings.Repeat("ab ", 100):      strings.TrimSuffix(strings.Repeat("ab-", 27), "-"),
	} {
		if got := Sanitize(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
}

func FuzzSanitize(f *testing.F) {
	for _, s := range []string{"Index - 7 Zen", "", "../x", "\x00", strings.Repeat("é1", 90)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := Sanitize(name)
		if got == "" || len(got) > 80 || strings.Trim(got, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" ||
			strings.Contains(got, "--") || got[0] == '-' || got[len(got)-1] == '-' || Sanitize(got) != got {
			t.Fatalf("%q becomes %q", name, got)
		}
	})
}

func TestShortID(t *testing.T) {
	for id, want := range map[string]bool{
		"1a2b": true, "00000000": true, "1a2": false, "1a2b3c4d5": false, "1A2B": false, "1a2g": false, "": false, "../a": false,
	} {
		if IsShortID(id) != want {
			t.Errorf("%q: %v", id, !want)
		}
	}
}
