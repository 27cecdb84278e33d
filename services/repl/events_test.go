package repl

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"zino/proto"
)

// said returns events of console.log with the messages first to last.
func said(first, last int) (events []proto.PageEvent) {
	for i := first; i <= last; i++ {
		events = append(events, proto.PageEvent{Type: "console", Level: "log", TS: "10:02:12.120", Place: "app.js:12", Message: fmt.Sprint(i)})
	}
	return events
}

// messages returns the messages of an answer, and what it left out.
func (b *env) messages(req proto.ReadPageLog) (got, next string) {
	b.t.Helper()
	l, err := b.Log(b.t.Context(), req)
	must(b.t, err)
	var all []string
	for _, e := range l.Events {
		all = append(all, e.Message)
	}
	return fmt.Sprintf("%s -%d", strings.Join(all, " "), l.LeftOut), l.Next
}

// TestLogSince checks that the next of an answer continues it, also after a reload and
// when the page is gone, and that events that were left out are counted.
func TestLogSince(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.page(proto.Attach{Name: "shop", ID: "1a2b"})
	check := func(req proto.ReadPageLog, want string) (next string) {
		t.Helper()
		req.Page = "shop-1a2b"
		got, next := b.messages(req)
		if got != want {
			t.Errorf("%+v: %q, want %q", req, got, want)
		}
		return next
	}
	start := check(proto.ReadPageLog{}, " -0")
	must(t, f.events(said(1, 3)...))
	check(proto.ReadPageLog{}, "1 2 3 -0")
	check(proto.ReadPageLog{Limit: 2}, "2 3 -1")
	check(proto.ReadPageLog{After: "0", Limit: 2}, "1 2 -0")
	second := check(proto.ReadPageLog{After: start, Limit: 2}, "1 2 -0")
	third := check(proto.ReadPageLog{After: second}, "3 -0")
	check(proto.ReadPageLog{After: third}, " -0")
	f.leave()
	check(proto.ReadPageLog{After: second}, "3 -0")
	f = b.page(proto.Attach{Name: "shop", ID: "1a2b"})
	must(t, f.events(said(4, 4)...))
	check(proto.ReadPageLog{After: second}, "3 4 -0")
	must(t, f.events(said(5, 1010)...))
	if got, _ := b.messages(proto.ReadPageLog{Page: "shop", After: third, Limit: 1}); got != "11 -7" {
		t.Errorf("after more events than are kept: %q", got)
	}
	check(proto.ReadPageLog{Limit: 1}, "1010 -1009")
	check(proto.ReadPageLog{After: "0badcafe-5", Limit: 1}, "11 -10") // of an earlier start
}

// TestLogKeepsEvents checks that the fields of events are kept, long texts are cut, and
// the memory for a page is bounded.
func TestLogKeepsEvents(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	f := b.page(proto.Attach{Name: "shop", ID: "1a2b"})
	long := strings.Repeat("語", 100_000)
	must(t, f.events(said(1, 1)[0], proto.PageEvent{Type: "request", Source: "fetch", Level: "error", TS: "10:02:13", Message: long, Stack: long}))
	l, err := b.Log(t.Context(), proto.ReadPageLog{Page: "1a2b"})
	must(t, err)
	want := said(1, 1)[0]
	want.Source = "console.log"
	if len(l.Events) != 2 || !reflect.DeepEqual(l.Events[0], want) {
		t.Fatalf("%+v", l.Events)
	}
	for _, s := range []string{l.Events[1].Message, l.Events[1].Stack} {
		if len(s) > keptText+100 || !strings.Contains(s, " bytes left out) ...\n") {
			t.Errorf("%d bytes: %.100s", len(s), s)
		}
	}
	for range 40 {
		must(t, f.events(proto.PageEvent{Type: long, Level: long, Message: long, Stack: long}))
	}
	kept := &b.logs["1a2b"].events
	if kept.bytes > keptBytes || len(kept.kept) < 5 || kept.last != 42 {
		t.Errorf("%d events with %d bytes are kept of %d", len(kept.kept), kept.bytes, kept.last)
	}
	must(t, f.events(proto.PageEvent{Type: "console", Message: "without a time"}))
	if l, err = b.Log(t.Context(), proto.ReadPageLog{Page: "1a2b", Limit: 1}); err != nil || len(l.Events) != 1 || len(l.Events[0].TS) != len("10:02:12.120") {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestLogErrors(t *testing.T) {
	t.Parallel()
	b := newEnv(t, "")
	b.page(proto.Attach{Name: "shop", ID: "1a2b"})
	b.page(proto.Attach{Name: "shop", ID: "3c4d"})
	for _, req := range []proto.ReadPageLog{
		{Page: "shop"}, {Page: "1a2b", Limit: -1}, {Page: "1a2b", Limit: 1001}, {Page: "1a2b", After: "x"}, {Page: "1a2b", After: "a-"}, {Page: "1a2b", After: "a--1"},
	} {
		if l, err := b.Log(t.Context(), req); !errors.Is(err, proto.ErrInvalid) {
			t.Errorf("%+v: %+v, %v", req, l, err)
		}
	}
	if l, err := b.Log(t.Context(), proto.ReadPageLog{Page: "none"}); !errors.Is(err, proto.ErrNotFound) {
		t.Errorf("%+v, %v", l, err)
	}
}

// FuzzLogSince checks that every position is accepted or refused, and that the numbers of
// an answer agree.
func FuzzLogSince(f *testing.F) {
	for _, after := range []string{"", "0", "e-0", "e-7", "e-99", "e-9223372036854775807", "e-9223372036854775808", "x-3", "-", "--", "e-+1"} {
		f.Add(after, 5, 10)
	}
	f.Fuzz(func(t *testing.T, after string, limit, n int) {
		l := eventLog{epoch: "e"}
		limit, n = 1+(limit&1023), n&2047
		for _, e := range said(1, n) {
			l.add(e)
		}
		got, err := l.since(after, limit)
		if err != nil {
			if !errors.Is(err, proto.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		var last int
		if _, err := fmt.Sscanf(got.Next, "e-%d", &last); err != nil || got.LeftOut < 0 || len(got.Events) > limit || last > n {
			t.Fatalf("%q of %d: %d events, next %q, %d left out, %v", after, n, len(got.Events), got.Next, got.LeftOut, err)
		}
		if k := len(got.Events); k > 0 && (got.Events[k-1].Message != fmt.Sprint(last) || got.Events[0].Message != fmt.Sprint(last-k+1)) {
			t.Fatalf("%q: %+v", after, got)
		}
	})
}
