package page

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"zino/pkg/replfile"
)

// TestImmutable: Apply does not change the state.
func TestImmutable(t *testing.T) {
	w := newWorld(t, Options{})
	w.start()
	w.append("```js\n1\n```\n```js\n2\n```\n")
	for range 12 {
		w.apply(Background{w.now, []Captured{{Type: "console.log", Message: "x"}}})
	}
	w.apply(Eval{At: w.now, Key: "k", Code: "3"})
	before, view := *w.page, w.view(w.page.From(), nil)
	for range 2 {
		for _, e := range []Event{
			Start{w.now},
			Changed{w.now},
			Tick{w.now.Add(time.Minute)},
			Gone{w.now},
			Frozen{w.now, w.now},
			Thawed{w.now},
			Stopping{w.now},
			Connected{At: w.now},
			Started{w.now, w.job},
			Result{At: w.now, Job: w.job, OK: true, Value: "1"},
			Background{w.now, []Captured{{Type: "x"}, {Type: "y"}}},
			Eval{At: w.now, Key: "l", Code: "4"},
			Abort{w.now, "k"},
		} {
			for _, v := range []View{view, {Unavailable: true}, {Missing: true}, {Tail: []byte("else\n")}} {
				if next, _, _ := w.page.Apply(v, e); next == w.page {
					t.Fatalf("%T returned the same state", e)
				}
				if !reflect.DeepEqual(before, *w.page) {
					t.Fatalf("%T changed the state", e)
				}
			}
		}
	}
}

// TestBounded: the memory of a state is bounded.
func TestBounded(t *testing.T) {
	w := newWorld(t, Options{BodyMax: 100_000})
	w.start()
	long := strings.Repeat("long `` \x1b text ", 4000)
	for i := range 100 {
		w.append(fmt.Sprintf("```js\n%d\n```\n", i))
		switch {
		case i < 20:
			w.apply(Background{w.now, []Captured{{Type: long, Level: long, Message: long[:20_000], Stack: long[:20_000]}}})
			w.pass(61 * time.Second)
		case i < 70:
			w.answer(time.Second, "1")
		default:
			w.answer(time.Second, long[:40_000])
		}
	}
	for range 20 {
		w.apply(Background{w.now, []Captured{{Type: long, Level: "log", Message: long[:20_000], Stack: long}}})
	}
	p, total, size := w.page, 0, 0
	for _, e := range p.history {
		total += len(e.reply)
	}
	for _, e := range p.backlog.shown() {
		size += len(e.Type) + len(e.Level) + len(e.Message) + len(e.Stack) + len(e.raw) + len(e.text)
	}
	if total > historySize || total < historySize/2 || len(p.history) != historyMax || len(p.late) != lateMax {
		t.Errorf("%d replies of %d bytes, %d late", len(p.history), total, len(p.late))
	}
	if n := len(p.backlog.captured()); n != 10 || size > n*(3*p.options.BodyMax+300) || p.backlog.total != 20 || len(p.file.anchor.bytes) > anchorMax {
		t.Errorf("%d events of %d bytes, an anchor of %d", n, size, len(p.file.anchor.bytes))
	}
	w.pass(2 * time.Second)
	w.rests()
}

// TestNeeds checks what Apply asks for.
func TestNeeds(t *testing.T) {
	w := newWorld(t, Options{})
	w.save(log(500_000))
	n := int64(len(w.file))
	next, edit, actions := w.page.Apply(View{Tail: w.file[n-100:], Offset: n - 100}, Start{w.now})
	if edit.Need != Head || next != w.page || len(actions) != 0 || edit.Changed {
		t.Fatalf("%+v", edit)
	}
	w.start()
	from := w.page.From()
	if from > n-100 || from < n-2*anchorMax || w.page.Settled() != from+anchorMax {
		t.Fatalf("from %d, settled up to %d of %d", from, w.page.Settled(), n)
	}
	_, edit, _ = w.page.Apply(View{Tail: w.file[from+1:], Offset: from + 1}, Changed{w.now})
	if edit.Need != More || edit.From != from {
		t.Fatalf("%+v, want from %d", edit, from)
	}
	// The file was truncated: Apply asks for more above, then for all of it.
	cut := w.file[:bytes.LastIndex(w.file[:n-30_000], []byte("xxx"))]
	at := int64(len(cut))
	_, edit, _ = w.page.Apply(View{Offset: at}, Changed{w.now})
	if edit.Need != More || edit.From != from-reach {
		t.Fatalf("%+v, want from %d", edit, from-reach)
	}
	_, edit, _ = w.page.Apply(View{Tail: cut[at-reach-10_000:], Offset: at - reach - 10_000}, Changed{w.now})
	if edit.Need != Head {
		t.Fatalf("%+v", edit)
	}
	w.scans = 0
	w.save(append(cut, "\n```\n"...))
	w.changed()
	w.pass(3 * time.Second)
	if w.scans != 1 {
		t.Fatalf("%d scans", w.scans)
	}
	w.rests()
}

// TestWrongScan: Apply asks again for a Scan that does not fit the file.
func TestWrongScan(t *testing.T) {
	w := newWorld(t, Options{})
	w.save(log(200_000))
	scan := *w.page.scan(w.file)
	for name, v := range map[string]View{
		"the tail begins too late": {Tail: w.file[scan.From+1:], Offset: scan.From + 1, Scan: &scan},
		"the file is shorter now":  {Tail: w.file[scan.From : scan.From+10], Offset: scan.From, Scan: &scan},
		"no line begins there":     {Tail: []byte(strings.Repeat("x", 2*reach)), Offset: scan.From, Scan: &scan},
	} {
		if _, edit, _ := w.page.Apply(v, Start{w.now}); edit.Need != Head {
			t.Errorf("%s: %+v", name, edit)
		}
	}
	next, edit, _ := w.page.Apply(View{Tail: w.file[scan.From:], Offset: scan.From, Scan: &scan}, Start{w.now})
	if edit.Need != Nothing || edit.Changed || next.Settled() != scan.boundary {
		t.Errorf("%+v", edit)
	}
}

func TestUnfinished(t *testing.T) {
	const ann = "```\n\n> **zen-1a2b** to agent at 10:00:00"
	for end, want := range map[string]bool{
		"":                             false,
		ann:                            true,
		ann + "\r\n":                   true,
		ann + " (17ms)\n":              false,
		ann + "\nexecuting (5s)\nmore": true,
		ann + "\rexecuting (5s)\r":     true,
		ann + "\nexecuting ...":        true,
		ann + "\nwaiting for the page to reload (5s)\n\n> footer\n": true,
		ann + "\n```JSON\n25\n```\n\n> footer\n":                    false,
		"executing the plan\n":                                      false,
	} {
		if got := Unfinished([]byte(end)); got != want {
			t.Errorf("%q: %v", end, got)
		}
	}
}

func TestDeadline(t *testing.T) {
	w := newWorld(t, Options{})
	deadline := func(what string, want time.Duration) {
		t.Helper()
		if got := w.page.Deadline().Sub(w.now); w.page.Deadline().IsZero() != (want < 0) || want >= 0 && got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	w.start()
	deadline("idle", -1)
	w.append("text\n")
	deadline("text", 2*time.Second)
	w.pass(2 * time.Second)
	deadline("settled", -1)
	w.save(append(w.file, "```js\n1\n```\n"...))
	w.apply(Tick{w.now})
	deadline("changed without an event", 150*time.Millisecond)
	w.pass(150 * time.Millisecond)
	deadline("executing", 5*time.Second)
	w.pass(58 * time.Second)
	deadline("near the timeout", 2*time.Second)
	w.apply(Result{At: w.now, Job: w.job, OK: true})
	deadline("answered", -1)
	w.apply(Background{w.now, []Captured{{Type: "x"}}})
	deadline("background", time.Second)
	w.append("```js\n")
	deadline("background and a draft", -1)
	w.unavailable = true
	w.apply(Tick{w.now})
	deadline("unavailable", 2*time.Second)
}

// TestBacklogMax: the backlog is bounded. An event that exceeds it is cut; the others
// are kept whole.
func TestBacklogMax(t *testing.T) {
	w := newWorld(t, Options{BodyMax: 1000})
	w.start()
	const size = 3 << 20
	for range 20 {
		w.apply(Background{w.now, []Captured{{Type: "console.log", Level: "log", Message: strings.Repeat("\x1b", size)}}})
		waiting := 0
		for _, e := range w.page.backlog.shown() {
			waiting += len(e.raw)
		}
		if waiting > backlogMax {
			t.Fatalf("%d bytes wait", waiting)
		}
	}
	w.pass(2 * time.Second)
	whole, others := 0, 0
	for file, body := range w.kept {
		switch {
		case len(body) == size:
			whole++
		case strings.HasPrefix(body, "console.log 22:52:47.000\n\x1b") && len(body) < leftOutMax+1000:
			others++
		default:
			t.Errorf("%s has %d bytes", file, len(body))
		}
	}
	if text := string(w.file); others != 1 || !strings.Contains(text, "\n... (10 more background events omitted) ...\n... (") {
		t.Errorf("%d files with events that are left out:\n%s", others, text)
	}
	text := string(w.file)
	if whole == 0 || strings.Count(text, "more bytes left out, the whole is in ") != whole ||
		strings.Count(text, "more bytes left out) ...\n") != 10-whole {
		t.Errorf("%d events are kept as a whole:\n%s", whole, text)
	}
	w.rests()
}

func TestPage(t *testing.T) {
	p := New(Options{Name: "zen", ID: "1a2b", Footer: "Write\nbelow \x1b\r\n"})
	if p.File() != "debug/zen-1a2b.md" || p.Status() != "gone" || !p.Deadline().IsZero() || p.From() != 0 || p.Settled() != 0 {
		t.Errorf("%+v", p)
	}
	if p.options.Footer != `> Write\nbelow \u001b` || p.options.Timeout != time.Minute || p.options.BodyMax != 8<<10 {
		t.Errorf("%+v", p.options)
	}
	if footer := New(Options{Lang: "lisp"}).options.Footer; footer != "> Write code in a fenced lisp block below to execute against this page." {
		t.Error(footer)
	}
}

func TestRegistry(t *testing.T) {
	at := time.Date(2026, 3, 4, 22, 2, 12, 0, time.UTC)
	got := string(Registry([]Entry{
		{"zen-2222", "http://a/", at, "gone", false},
		{"zen-f-1111", "http://user:pass@localhost:8302/x?token=1#y", at.Add(time.Second), "completed (17ms)", true},
		{"b\n* c-1a2b", "about:blank\n* x", at, "idle\x1b", true},
		{"a-1a2b", "", at.Add(time.Hour), "gone", true},
		{"c-1a2b", "http://[::1/%zz?secret", at, "failed after 60000ms (timeout)", true},
		{"d-1a2b", "http://h/" + strings.Repeat("x", 300), at, "late", true},
		{"e-1a2b", "http://h?", at, "idle", true},
	}))
	want := replfile.Head +
		"* [b\\n* c](debug/b\\n* c-1a2b.md) (about:blank\\n* x) last 22:02:12 state: idle\\u001b\n" +
		"* [c](debug/c-1a2b.md) (http://[::1/%zz) last 22:02:12 state: failed after 60000ms (timeout)\n" +
		"* [d](debug/d-1a2b.md) (http://h/" + strings.Repeat("x", 191) + "...) last 22:02:12 state: late\n" +
		"* [e](debug/e-1a2b.md) (http://h) last 22:02:12 state: idle\n" +
		"* [zen-f](debug/zen-f-1111.md) (http://localhost:8302/x) last 22:02:13 state: completed (17ms)\n" +
		"* [a](debug/a-1a2b.md) () last 23:02:12 state: gone\n" +
		"* [zen](debug/zen-2222.md) (http://a/) last 22:02:12 state: gone\n"
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
		entries = append(entries, Entry{Name: fmt.Sprintf("p%03d-1a2b", i), Live: i%3 == 0, Last: begin.Add(time.Duration(i) * time.Second)})
	}
	text := string(Registry(entries))
	if n := strings.Count(text, "\n"); n != 105 || strings.Count(text, "\n* ") != 100 || !strings.HasSuffix(text, "\n\n... and 30 more\n") {
		t.Errorf("%d lines:\n%s", n, text)
	}
	if !strings.Contains(text, "\n* [p129](debug/p129-1a2b.md) () last") || strings.Contains(text, "[p001]") || entries[0].Name != "p000-1a2b" {
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
