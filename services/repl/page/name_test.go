package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"zino/pkg/replfile"
)

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
		"\u212a":                        "page", // the Kelvin sign is no K
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

func TestPage(t *testing.T) {
	p := New(Options{Name: "zen", ID: "1a2b", Footer: "Write\nbelow \x1b\r\n"})
	if p.File() != "debug/zen-1a2b.md" || p.Status() != "gone" || !p.Deadline().IsZero() || p.From() != 0 || p.Settled() != 0 {
		t.Errorf("%+v", p)
	}
	if p.options.Footer != `> Write\nbelow \u001b` || p.options.Timeout != time.Minute || p.options.BodyMax != 256<<10 {
		t.Errorf("%+v", p.options)
	}
	if footer := New(Options{Lang: "lisp"}).options.Footer; footer != "> Write code in a fenced lisp block below to execute against this page." {
		t.Error(footer)
	}
}

func TestRegistry(t *testing.T) {
	at := time.Date(2026, 3, 4, 22, 2, 12, 0, time.UTC)
	got := string(Registry([]Entry{
		{"zen-2", "http://a/", at, "gone", false},
		{"zen-1", "http://user:pass@localhost:8302/x?token=1#y", at.Add(time.Second), "completed (17ms)", true},
		{"b\n* c", "about:blank\n* x", at, "idle\x1b", true},
		{"a", "", at.Add(time.Hour), "gone", false},
		{"c", "http://[::1/%zz?secret", at, "failed after 60000ms (timeout)", true},
		{"d", "http://h/" + strings.Repeat("x", 300), at, "late", true},
		{"e", "http://h?", at, "idle", true},
	}))
	want := replfile.Head +
		"* b\\n* c (about:blank\\n* x) last 22:02:12 state: idle\\u001b\n" +
		"* c (http://[::1/%zz) last 22:02:12 state: failed after 60000ms (timeout)\n" +
		"* d (http://h/" + strings.Repeat("x", 191) + "...) last 22:02:12 state: late\n" +
		"* e (http://h) last 22:02:12 state: idle\n" +
		"* zen-1 (http://localhost:8302/x) last 22:02:13 state: completed (17ms)\n" +
		"* a () last 23:02:12 state: gone\n" +
		"* zen-2 (http://a/) last 22:02:12 state: gone\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !strings.HasPrefix(replfile.Head, "# Connected pages:\n> ") {
		t.Error(replfile.Head)
	}
}

func TestRegistryLong(t *testing.T) {
	var entries []Entry
	for i := range 130 {
		entries = append(entries, Entry{Name: fmt.Sprintf("p%03d", i), Live: i%3 == 0, Last: dawn.Add(time.Duration(i) * time.Second)})
	}
	text := string(Registry(entries))
	if n := strings.Count(text, "\n"); n != 104 || !strings.HasSuffix(text, "\n* ... and 30 more\n") {
		t.Errorf("%d lines:\n%s", n, text)
	}
	if !strings.Contains(text, "\n* p129 () last") || strings.Contains(text, "\n* p001 () last") || entries[0].Name != "p000" {
		t.Errorf("%s", text)
	}
}

func TestEscape(t *testing.T) {
	for s, want := range map[string]string{
		"plain é 😀\n\t": "plain é 😀\n\t", "\x1b[31m": `\u001b[31m`, "\r\n": "\\u000d\n", "\x7f\u0085": `\u007f\u0085`,
		"\u202e\u2066\u200f\u061c": `\u202e\u2066\u200f\u061c`, "\xff\xc3": "\ufffd\ufffd", "": "", "\x00": `\u0000`,
	} {
		if got := escape(s); got != want {
			t.Errorf("%q becomes %q, want %q", s, got, want)
		}
	}
	for _, c := range []struct {
		s, want     string
		limit, left int
	}{
		{"abc", "abc", 3, 0},
		{"abc", "ab", 2, 1},
		{"éé", "é", 3, 2},
		{"éé", "", 1, 4},
		{"a\x1bb", "a", 6, 2},
		{"a\x1bb", `a\u001b`, 7, 1},
		{"\xff\xff", "\ufffd", 5, 1},
		{"abc", "", 0, 3},
	} {
		if got, left := escapeUpTo(c.s, c.limit); got != c.want || left != c.left {
			t.Errorf("%q up to %d: %q and %d left, want %q and %d", c.s, c.limit, got, left, c.want, c.left)
		}
	}
	if got := oneLine("a\nb\tc\r"); got != `a\nb c\u000d` {
		t.Error(got)
	}
}
