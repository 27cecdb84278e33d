package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// held is a session locked by the test.
type held struct {
	proto.SessionHeld
	release func() error
}

// hold locks a session. waiting is called if another turn has the lock.
func (b *env) hold(id string, waiting func()) held {
	b.t.Helper()
	return b.holds(proto.HoldSession{SessionID: id}, waiting)
}

func (b *env) holds(req proto.HoldSession, waiting func()) held {
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

// unexpected returns a waiting function that fails the test.
func (b *env) unexpected() func() { return func() { b.t.Error("another turn has locked the session") } }

func TestHold(t *testing.T) {
	b := newEnv(t, "")
	h := b.hold("new", b.unexpected()) // the session need not exist
	if !reflect.DeepEqual(h.SessionHeld, proto.SessionHeld{SessionID: "new"}) || b.files() != "new.lock" {
		t.Errorf("%+v, files %s", h.SessionHeld, b.files())
	}
	next := b.put("new", user("q"))
	if err := h.release(); err != nil {
		t.Error(err)
	}
	zinotest.Equal(t, "files", b.files(), "new.jsonl")
	h = b.hold("new", b.unexpected())
	if h.Next != next || h.Mended != 0 {
		t.Errorf("%+v, want %d", h, next)
	}
	if err := h.release(); err != nil {
		t.Error(err)
	}
}

// TestHoldClosesCalls checks that Hold appends results for the calls that an
// interrupted turn left open.
func TestHoldClosesCalls(t *testing.T) {
	b := newEnv(t, "")
	whole := []string{user("q"), use("1"), use("2"), result("1"), says("x"), user("r"), use("1"), use("3")}
	for end := range len(whole) + 1 {
		id := fmt.Sprint("s", end)
		b.write(id, append([]string{head}, whole[:end]...)...)
		before, sent := b.file(id), b.messages(id)
		var open []string
		for i, e := range whole[:end] {
			answered := i == 1 && end > 3
			if strings.Contains(e, "tool_use") && !strings.Contains(e, "tool_result") && !answered {
				open = append(open, closed(str(parse([]byte(e)).id)))
			}
		}
		want := before
		if len(open) > 0 {
			want += strings.Join(open, "\n") + "\n"
		}
		for round := range 2 { // in the second round no call is open
			h := b.hold(id, b.unexpected())
			if got := b.file(id); got != want || h.Next != int64(len(want)) || round == 0 && h.Mended != len(open) || round == 1 && h.Mended != 0 {
				t.Errorf("%d events: %+v, file\n%s\nwant\n%s", end, h.SessionHeld, got, want)
			}
			zinotest.Must(t, h.release())
		}
		if got := b.messages(id); got != sent {
			t.Errorf("%d events: before\n%s\nafter\n%s", end, sent, got)
		}
	}
}

// TestHoldTurns checks that a turn waits for the end of a turn of another store.
func TestHoldTurns(t *testing.T) {
	a := newEnv(t, "")
	b := newEnv(t, a.dir)
	first := a.hold("s", a.unexpected())
	a.put("s", user("q"), use("1"))
	waits, second := make(chan struct{}), make(chan held, 1)
	go func() { second <- b.hold("s", func() { close(waits) }) }()
	<-waits
	a.put("s", result("1"), says("x"))
	_, err := b.Remove(t.Context(), proto.RemoveSession{SessionID: "s"})
	zinotest.Error(t, err, proto.ErrBusy, `"s"`)
	zinotest.Must(t, first.release())
	h := <-second
	if h.Mended != 0 || h.Next != int64(len(a.file("s"))) {
		t.Errorf("%+v: a call of a running turn was closed\n%s", h.SessionHeld, a.file("s"))
	}
	if err := h.release(); err != nil {
		t.Error(err)
	}
	if gone, err := b.Remove(t.Context(), proto.RemoveSession{SessionID: "s"}); err != nil || gone.SessionID != "s" || a.files() != "" {
		t.Errorf("%+v, %v, files %s", gone, err, a.files())
	}
}

func TestHoldEnds(t *testing.T) {
	b := newEnv(t, "")
	h := b.hold("s", b.unexpected())
	gone := errors.New("gone")
	never := func(proto.SessionHeld) error { t.Error("the session was locked twice"); return nil }
	if err := b.Hold(t.Context(), proto.HoldSession{SessionID: "s"}, func() error { return gone }, never); !errors.Is(err, gone) {
		t.Errorf("waiting returned an error: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := b.Hold(ctx, proto.HoldSession{SessionID: "s"}, func() error { cancel(); return nil }, never); !errors.Is(err, context.Canceled) {
		t.Errorf("the context was canceled: %v", err)
	}
	if err := h.release(); err != nil {
		t.Error(err)
	}
	if err := b.Hold(t.Context(), proto.HoldSession{SessionID: "s"}, func() error { return nil }, func(proto.SessionHeld) error { return gone }); err != gone {
		t.Errorf("held returned an error: %v", err)
	}
	b.writeText("notes", "buy milk\n")
	err := b.Hold(t.Context(), proto.HoldSession{SessionID: "notes"}, func() error { return nil }, never)
	zinotest.Error(t, err, proto.ErrInvalid, "is not a session")
	zinotest.Equal(t, "files", b.files(), "notes.jsonl")
}

// TestRemove checks that no file contains data of a removed session.
func TestRemove(t *testing.T) {
	b := newEnv(t, "")
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
	zinotest.Equal(t, "files", b.files(), "other.jsonl")
	if data, err := os.ReadFile(b.dir + "/" + indexFile); err != nil || strings.Contains(string(data), "secret") {
		t.Errorf("the index contains %s, %v", data, err)
	}
	zinotest.Must(t, os.Mkdir(b.path("dir"), 0o700))
	if _, err := b.Remove(t.Context(), proto.RemoveSession{SessionID: "dir"}); err == nil || b.files() != "dir.jsonl other.jsonl" {
		t.Errorf("a directory was removed: %v, files %s", err, b.files())
	}
}

// TestHoldPipe checks that Hold fails on a FIFO instead of blocking.
func TestHoldPipe(t *testing.T) {
	b := newEnv(t, "")
	zinotest.Must(t, syscall.Mkfifo(b.path("pipe"), 0o600))
	err := b.Hold(t.Context(), proto.HoldSession{SessionID: "pipe"}, func() error { return nil }, func(proto.SessionHeld) error { t.Error("held"); return nil })
	if err == nil || !strings.Contains(err.Error(), "not a regular file") || b.files() != "pipe.jsonl" {
		t.Errorf("%v, files %s", err, b.files())
	}
}

// TestHoldAgain checks that Hold with Next set, for a turn that outlived a restart of
// the service, does not change the session.
func TestHoldAgain(t *testing.T) {
	for name, text := range map[string]string{
		"no session yet": "", "calls are open": head + "\n" + user("q") + "\n" + use("1") + "\n", "a torn line": head + "\n" + user("q") + "\n" + `{"type":"message","role":"ass`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t, "")
			if text != "" {
				b.writeText("s", text)
			}
			end, known := int64(strings.LastIndex(text, "\n")+1), int64(7)
			h := b.holds(proto.HoldSession{SessionID: "s", Next: &known}, b.unexpected())
			if h.Next != end || h.Mended != 0 || text != "" && b.file("s") != text {
				t.Errorf("%+v, want %d", h.SessionHeld, end)
			}
			zinotest.Must(t, h.release())
		})
	}
}

// TestAppendHeld checks that Append ignores held, which older daemons send.
func TestAppendHeld(t *testing.T) {
	b := newEnv(t, "")
	if _, err := b.add(proto.AppendSession{SessionID: "s", Create: true, Held: true}, user("yes")); err != nil {
		t.Error(err)
	}
}
