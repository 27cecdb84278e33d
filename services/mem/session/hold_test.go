package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"zino/proto"
)

// held is a session that the test holds.
type held struct {
	proto.SessionHeld
	release func() error
}

// hold takes a session and returns when it has it.
func (b *bench) hold(id string, waiting func()) held {
	b.t.Helper()
	return b.holds(proto.HoldSession{SessionID: id}, waiting)
}

func (b *bench) holds(req proto.HoldSession, waiting func()) held {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	got, done := make(chan proto.SessionHeld, 1), make(chan error, 1)
	go func() {
		done <- b.Hold(ctx, req, func() error { waiting(); return nil }, func(h proto.SessionHeld) error { got <- h; return nil })
	}()
	select {
	case h := <-got:
		return held{h, func() error { cancel(); return <-done }}
	case err := <-done:
		cancel()
		b.t.Fatal(err)
	}
	return held{}
}

// alone is for holds that nobody is in the way of.
func (b *bench) alone() func() { return func() { b.t.Error("somebody else holds the session") } }

func TestHold(t *testing.T) {
	b := newBench(t, "")
	h := b.hold("new", b.alone()) // a turn may begin a session
	if h.SessionHeld != (proto.SessionHeld{SessionID: "new"}) || b.files() != "new.lock" {
		t.Errorf("%+v, files %s", h.SessionHeld, b.files())
	}
	next := b.put("new", user("q"))
	if err := h.release(); err != nil {
		t.Error(err)
	}
	if got := b.files(); got != "new.jsonl" {
		t.Errorf("files %s", got)
	}
	h = b.hold("new", b.alone())
	if h.Next != next || h.Mended != 0 {
		t.Errorf("%+v, want %d", h, next)
	}
	if err := h.release(); err != nil {
		t.Error(err)
	}
}

// TestHoldMends gives calls that a dead turn left their results, in the file.
func TestHoldMends(t *testing.T) {
	b := newBench(t, "")
	lost := func(id string) string {
		return `{"type":"tool_result","tool_use_id":"` + id + `","output":` + lostResult + `,"ok":false,"synthetic":true,"ts":"` + now + `"}`
	}
	whole := []string{user("q"), use("1"), use("2"), result("1"), says("x"), user("r"), use("1"), use("3")}
	for end := range len(whole) + 1 {
		id := fmt.Sprint("s", end)
		b.write(id, append([]string{head}, whole[:end]...)...)
		before, sent := b.file(id), b.messages(id)
		var open []string
		for i, e := range whole[:end] {
			answered := i == 1 && end > 3
			if strings.Contains(e, "tool_use") && !strings.Contains(e, "tool_result") && !answered {
				open = append(open, lost(str(read([]byte(e)).id)))
			}
		}
		want := before
		if len(open) > 0 {
			want += strings.Join(open, "\n") + "\n"
		}
		for round := range 2 { // the second time all is well
			h := b.hold(id, b.alone())
			if got := b.file(id); got != want || h.Next != int64(len(want)) || round == 0 && h.Mended != len(open) || round == 1 && h.Mended != 0 {
				t.Errorf("%d events: %+v, file\n%s\nwant\n%s", end, h.SessionHeld, got, want)
			}
			if err := h.release(); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.messages(id); got != sent {
			t.Errorf("%d events: before\n%s\nafter\n%s", end, sent, got)
		}
	}
}

func (b *bench) messages(id string) string {
	b.t.Helper()
	reply, err := b.Messages(b.t.Context(), proto.GetMessages{SessionID: id})
	if err != nil {
		b.t.Fatal(err)
	}
	return string(reply.Messages)
}

// TestHoldTurns has a second process wait for the end of the first one's turn.
func TestHoldTurns(t *testing.T) {
	a := newBench(t, "")
	b := newBench(t, a.dir)
	first := a.hold("s", a.alone())
	a.put("s", user("q"), use("1"))
	waits, second := make(chan struct{}), make(chan held, 1)
	go func() { second <- b.hold("s", func() { close(waits) }) }()
	<-waits
	a.put("s", result("1"), says("x"))
	_, err := b.Remove(t.Context(), proto.RemoveSession{SessionID: "s"})
	wantError(t, err, proto.ErrBusy, `"s"`)
	if err := first.release(); err != nil {
		t.Fatal(err)
	}
	h := <-second
	if h.Mended != 0 || h.Next != int64(len(a.file("s"))) {
		t.Errorf("%+v: a call of a turn under way was taken for lost\n%s", h.SessionHeld, a.file("s"))
	}
	if err := h.release(); err != nil {
		t.Error(err)
	}
	if gone, err := b.Remove(t.Context(), proto.RemoveSession{SessionID: "s"}); err != nil || gone.SessionID != "s" || a.files() != "" {
		t.Errorf("%+v, %v, files %s", gone, err, a.files())
	}
}

func TestHoldEnds(t *testing.T) {
	b := newBench(t, "")
	h := b.hold("s", b.alone())
	gone := errors.New("gone")
	never := func(proto.SessionHeld) error { t.Error("two have the session"); return nil }
	if err := b.Hold(t.Context(), proto.HoldSession{SessionID: "s"}, func() error { return gone }, never); !errors.Is(err, gone) {
		t.Errorf("nobody to tell: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := b.Hold(ctx, proto.HoldSession{SessionID: "s"}, func() error { cancel(); return nil }, never); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left: %v", err)
	}
	if err := h.release(); err != nil {
		t.Error(err)
	}
	if err := b.Hold(t.Context(), proto.HoldSession{SessionID: "s"}, func() error { return nil }, func(proto.SessionHeld) error { return gone }); err != gone {
		t.Errorf("nobody to take it: %v", err)
	}
	b.writeText("notes", "buy milk\n")
	err := b.Hold(t.Context(), proto.HoldSession{SessionID: "notes"}, func() error { return nil }, never)
	wantError(t, err, proto.ErrInvalid, "is no session")
	if got := b.files(); got != "notes.jsonl" {
		t.Errorf("files %s", got)
	}
}

// TestRemove leaves nothing of a session, wherever it was.
func TestRemove(t *testing.T) {
	b := newBench(t, "")
	b.writeText("s", head+"\n"+user("secret")[:30])
	b.put("s", user("secret"))
	b.put("other", user("x"))
	b.list(0)
	if got := b.files(); got != "other.jsonl s.jsonl s.jsonl.damaged-1" || len(b.events) != 1 {
		t.Fatalf("files %s, events %v", got, b.events)
	}
	if _, err := b.Remove(t.Context(), proto.RemoveSession{SessionID: "s"}); err != nil {
		t.Fatal(err)
	}
	if got := b.files(); got != "other.jsonl" {
		t.Errorf("files %s", got)
	}
	if data, err := os.ReadFile(b.dir + "/" + indexFile); err != nil || strings.Contains(string(data), "secret") {
		t.Errorf("the index holds %s, %v", data, err)
	}
	if err := os.Mkdir(b.path("dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Remove(t.Context(), proto.RemoveSession{SessionID: "dir"}); err == nil || b.files() != "dir.jsonl other.jsonl" {
		t.Errorf("a directory was removed: %v, files %s", err, b.files())
	}
}

// TestHoldPipe: what cannot be a session is an error that says so, and no wait.
func TestHoldPipe(t *testing.T) {
	b := newBench(t, "")
	if err := syscall.Mkfifo(b.path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := b.Hold(t.Context(), proto.HoldSession{SessionID: "pipe"}, func() error { return nil }, func(proto.SessionHeld) error { t.Error("held"); return nil })
	if err == nil || !strings.Contains(err.Error(), "not a regular file") || b.files() != "pipe.jsonl" {
		t.Errorf("%v, files %s", err, b.files())
	}
}

// TestHoldAgain: a turn that outlived the service has its lock again, if the
// session ends where the turn has left it. Nothing is mended.
func TestHoldAgain(t *testing.T) {
	never := func() { t.Error("waiting") }
	for _, c := range []struct {
		name, file string // what is in the file, if anything
		more       int64  // how much longer it is than the turn knows
		want       string // in the error
	}{
		{"no session yet", "", 0, ""},
		{"calls are open", head + "\n" + user("q") + "\n" + use("1") + "\n", 0, ""},
		{"a torn line, which nobody was told of", head + "\n" + user("q") + "\n", 0, ""},
		{"longer", head + "\n" + user("q") + "\n", -1, "was used by somebody else"},
		{"shorter", head + "\n" + user("q") + "\n", 1, "was used by somebody else"},
		{"gone", "", 10, "was used by somebody else"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, "")
			text := c.file
			if strings.Contains(c.name, "torn") {
				text += `{"type":"message","role":"ass`
			}
			if text != "" {
				b.writeText("s", text)
			}
			next := int64(len(c.file)) + c.more
			if c.want != "" {
				err := b.Hold(t.Context(), proto.HoldSession{SessionID: "s", Next: &next}, func() error { never(); return nil }, func(proto.SessionHeld) error { t.Error("held"); return nil })
				if !errors.Is(err, proto.ErrBusy) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v", err)
				}
				return
			}
			h := b.holds(proto.HoldSession{SessionID: "s", Next: &next}, never)
			if h.Next != next || h.Mended != 0 || text != "" && b.file("s") != text {
				t.Errorf("%+v", h.SessionHeld)
			}
			b.put("s", says("x"))
			if err := h.release(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestHoldAgainTaken: somebody else has the lock. It is not waited for.
func TestHoldAgainTaken(t *testing.T) {
	a := newBench(t, "")
	b := newBench(t, a.dir)
	h := a.hold("s", a.alone())
	var next int64
	err := b.Hold(t.Context(), proto.HoldSession{SessionID: "s", Next: &next}, func() error { t.Error("waiting"); return nil }, func(proto.SessionHeld) error { t.Error("held"); return nil })
	if !errors.Is(err, proto.ErrBusy) {
		t.Errorf("error %v", err)
	}
	if err := h.release(); err != nil {
		t.Error(err)
	}
}

// TestAppendHeld: what counts on a lock is stored while there is one here, and
// only then.
func TestAppendHeld(t *testing.T) {
	a := newBench(t, "")
	b := newBench(t, a.dir)
	req := proto.AppendSession{SessionID: "s", Create: true, Held: true}
	refused := func(by *bench, when string) {
		t.Helper()
		if _, err := by.add(req, user("no")); !errors.Is(err, proto.ErrUnavailable) {
			t.Errorf("%s: %v", when, err)
		}
	}
	refused(a, "before")
	h := a.hold("s", a.alone())
	if _, err := a.add(req, user("yes")); err != nil {
		t.Error(err)
	}
	refused(b, "by another service")
	if err := h.release(); err != nil {
		t.Error(err)
	}
	refused(a, "afterwards")
	if text := a.file("s"); strings.Contains(text, "no") || !strings.Contains(text, "yes") {
		t.Errorf("the file is %s", text)
	}
}
