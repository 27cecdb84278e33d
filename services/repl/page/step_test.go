package page

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestImmutable holds that a page stays as it is, whatever is applied to it.
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
			Connected{w.now},
			Started{w.now, w.job},
			Result{At: w.now, Job: w.job, OK: true, Value: "1"},
			Background{w.now, []Captured{{Type: "x"}, {Type: "y"}}},
			Eval{At: w.now, Key: "l", Code: "4"},
			Abort{w.now, "k"},
		} {
			for _, v := range []View{view, {Unavailable: true}, {Missing: true}, {Tail: []byte("else\n")}} {
				if next, _, _ := w.page.Apply(v, e); next == w.page {
					t.Fatalf("%T left the page as it was", e)
				}
				if !reflect.DeepEqual(before, *w.page) {
					t.Fatalf("%T changed the page", e)
				}
			}
		}
	}
}

// TestBounded holds that a page's memory is bounded.
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
	p, past, size := w.page, 0, 0
	for _, e := range p.history {
		past += len(e.reply)
	}
	for _, e := range p.backlog.shown() {
		size += len(e.Type) + len(e.Level) + len(e.Message) + len(e.Stack) + len(e.raw) + len(e.text)
	}
	if past > historySize || past < historySize/2 || len(p.history) != historyMax || len(p.late) != lateMax {
		t.Errorf("%d replies of %d bytes, %d late", len(p.history), past, len(p.late))
	}
	if n := len(p.backlog.captured()); n != 10 || size > n*(3*p.options.BodyMax+300) || p.backlog.total != 20 || len(p.file.anchor.bytes) > anchorMax {
		t.Errorf("%d events of %d bytes, an anchor of %d", n, size, len(p.file.anchor.bytes))
	}
	w.pass(2 * time.Second)
	w.rests()
}

// TestNeeds holds what a page asks for, step by step.
func TestNeeds(t *testing.T) {
	w := newWorld(t, Options{})
	w.save(log(500_000))
	n := int64(len(w.file))
	next, edit, effects := w.page.Apply(View{Tail: w.file[n-100:], Offset: n - 100}, Start{w.now})
	if edit.Need != Head || next != w.page || len(effects) != 0 || edit.Changed {
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
	// the file has been cut: first it looks further up, then at all of it
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

// TestWrongScan: a Scan that does not fit the file is asked for once more.
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

// TestWake holds when a page is to be woken.
func TestWake(t *testing.T) {
	w := newWorld(t, Options{})
	wakes := func(what string, want time.Duration) {
		t.Helper()
		if got := w.page.Deadline().Sub(w.now); w.page.Deadline().IsZero() != (want < 0) || want >= 0 && got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	w.start()
	wakes("idle", -1)
	w.append("text\n")
	wakes("text", 2*time.Second)
	w.pass(2 * time.Second)
	wakes("settled", -1)
	w.save(append(w.file, "```js\n1\n```\n"...))
	w.apply(Tick{w.now})
	wakes("seen, and nobody has told", 150*time.Millisecond)
	w.pass(150 * time.Millisecond)
	wakes("executing", 5*time.Second)
	w.pass(58 * time.Second)
	wakes("near the timeout", 2*time.Second)
	w.apply(Result{At: w.now, Job: w.job, OK: true})
	wakes("answered", -1)
	w.apply(Background{w.now, []Captured{{Type: "x"}}})
	wakes("background", time.Second)
	w.append("```js\n")
	wakes("background and a draft", -1)
	w.held = true
	w.apply(Tick{w.now})
	wakes("held", 2*time.Second)
}
