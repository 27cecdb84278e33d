package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// steps of a turn that are stored, in their order, and how many packets the
// caller has before each.
var stores = []struct {
	event string
	heard int
	count int
}{{storedUser, 0, 1}, {storedA, 3, 3}, {storedDone, 8, 1}, {storedC, 11, 1}}

// storedBefore is how many events are stored before append i.
func storedBefore(i int) (n int) {
	for _, s := range stores[:i] {
		n += s.count
	}
	return n
}

// TestStoredBeforePassedOn: while mem works on an event the caller has all
// packets before it, and not its own.
func TestStoredBeforePassedOn(t *testing.T) {
	for i, step := range stores {
		storing, goOn := make(chan struct{}), make(chan struct{})
		b := newSessionEnv(t, all(), whole)
		b.mem.slow = func(ctx context.Context, event string) {
			if event == step.event {
				close(storing)
				if err := until(ctx, goOn); err != nil {
					t.Error(err)
				}
			}
		}
		c := b.dial()
		c.Send(turnPayload)
		zinotest.Receive(t, "an event to be stored", storing)
		arrived := make(chan packet, len(wholeTurn)+1)
		go func() {
			for {
				p := c.Next()
				arrived <- p
				if p.Type == "done" || p.Type == "" {
					return
				}
			}
		}()
		b.ask(`{"type":"ping"}`) // the daemon goes on meanwhile
		if n := len(arrived); n > step.heard {
			t.Errorf("event %d: the caller has %d packets before it is stored", i, n)
		}
		if n := len(b.trail.stored()); n != storedBefore(i) {
			t.Errorf("append %d: %d events are stored before it", i, n)
		}
		close(goOn)
		for p := range arrived {
			if p.Type == "done" {
				break
			}
			if p.Type == "" {
				t.Fatal("no end")
			}
		}
	}
}

// TestStoringFails: each event in turn cannot be stored. The turn ends with what
// mem says; what the caller saw stays, the text that is not whole too.
func TestStoringFails(t *testing.T) {
	full := &proto.Error{Code: proto.CodeInternal, Message: "mem append_session: no space left on device", Service: "mem"}
	for i, step := range stores {
		b := newSessionEnv(t, all(), whole)
		var once sync.Once
		b.mem.fail = func(event string) (err error) {
			if event == step.event {
				once.Do(func() { err = full })
			}
			return err
		}
		packets := b.turn(turnPayload)
		hint := ""
		if i == 0 {
			hint = "; --no-save answers without storing anything"
		}
		want := []string{`{"type":"error","message":"mem append_session: no space left on device` + hint + `","code":"internal","service":"mem","kind":"session"}`}
		same(t, "packets", raws(packets), append(slices.Clone(wholeTurn[:step.heard]), want...))
		stored := without(storedBy(step.heard), "interrupted")
		if i == 0 {
			stored = nil
		} else {
			stored = append(stored, `{"type":"error","message":"mem append_session: no space left on device","kind":"session","code":"internal"}`)
		}
		same(t, "stored", b.trail.stored(), stored)
	}
}

// TestNothingCanBeStored: a disk that stays full costs the end of the turn in the
// session too. The caller is told of the first failure, and the log of the other.
func TestNothingCanBeStored(t *testing.T) {
	b := newSessionEnv(t, all(), whole)
	b.mem.fail = func(event string) error {
		if event == storedUser {
			return nil
		}
		return &proto.Error{Code: proto.CodeInternal, Message: fmt.Sprintf("cannot store %d bytes", len(event))}
	}
	packets := b.turn(turnPayload)
	if last := packets[len(packets)-1]; !strings.Contains(last.Raw, fmt.Sprintf(`"message":"cannot store %d bytes","code":"internal","service":"mem","kind":"session"`, len(storedA))) {
		t.Errorf("the end is %s", last.Raw)
	}
	if log := b.log.String(); !strings.Contains(log, "the end of a turn could not be stored") || strings.Contains(log, "Let <me>") {
		t.Errorf("the log says %s", log)
	}
}

// TestMemDiesWhileStoring: mem dies with each event in its hands. The turn ends
// at once, and nothing more is asked of it.
func TestMemDiesWhileStoring(t *testing.T) {
	for i, step := range stores {
		storing := make(chan struct{})
		b := newSessionEnv(t, all(), whole)
		b.mem.slow = func(ctx context.Context, event string) {
			if event == step.event {
				close(storing)
				<-ctx.Done()
			}
		}
		mem := newCable(t, b.cfg.Mem.Socket)
		c := b.dial()
		c.Send(turnPayload)
		zinotest.Receive(t, "an event to be stored", storing)
		mem.cut()
		packets := c.rest()
		same(t, "packets", raws(packets[:len(packets)-1]), wholeTurn[:step.heard])
		if last := packets[len(packets)-1]; last.Type != "error" || !strings.Contains(last.Raw, `"kind":"session"`) || !strings.Contains(last.Message, "mem hung up before its answer was complete") && !strings.Contains(last.Message, "Could not connect to mem: ") {
			t.Errorf("the end is %s", last.Raw)
		}
		if n := len(b.mem.of("s-1")); n > storedBefore(i+1) {
			t.Errorf("%d events are stored after event %d", n, i)
		}
	}
}

// TestLeavesWhileStoring: an event that mem is working on when the caller leaves
// is stored once, and the end of the turn behind it.
func TestLeavesWhileStoring(t *testing.T) {
	for i, step := range stores {
		storing, goOn := make(chan struct{}), make(chan struct{})
		b := newSessionEnv(t, all(), whole)
		b.mem.slow = func(ctx context.Context, event string) {
			if event == step.event {
				close(storing)
				if err := until(ctx, goOn); err != nil {
					t.Error(err)
				}
			}
		}
		c := b.dial()
		c.Send(turnPayload)
		zinotest.Receive(t, "an event to be stored", storing)
		c.Close()
		if i == 0 {
			b.ask(`{"type":"ping"}`)
		}
		close(goOn)
		rpctest.WaitIdle(t, b.cfg.Daemon.Socket)
		zinotest.Eventually(t, "the lock to be let go", func() bool { return b.trail.has("released") })
		stored := b.trail.stored()
		if len(stored) < storedBefore(i+1) || stored[storedBefore(i)] != step.event {
			t.Fatalf("stored %s, want event %d", stored, i)
		}
		// The daemon may have come to the end before it noticed; then the turn is
		// whole. Else the last event says that it is not.
		if last := stored[len(stored)-1]; last != storedBreak && len(stored) != storedBefore(len(stores)) {
			t.Errorf("stored %s", stored)
		}
	}
}

// TestTooLargeToStore: an event that does not fit into a request is an error of
// the session, and the session says so.
func TestTooLargeToStore(t *testing.T) {
	huge := `{"type":"assistant_final","text":"` + strings.Repeat("x", 1<<24-40) + `"}`
	b := newSessionEnv(t, all(), func(_ context.Context, say func(...string) error) (proto.Text, error) {
		return ends(), say(deltaA, huge)
	})
	packets := b.turn(turnPayload)
	last := packets[len(packets)-1]
	if last.Type != "error" || last.Code != "too_large" || !strings.Contains(last.Raw, `"kind":"session"`) {
		t.Errorf("the end is %.200s", last.Raw)
	}
	stored := b.trail.stored()
	if len(stored) != 3 || !strings.Contains(stored[1], `"partial":true`) || !strings.Contains(stored[2], `"code":"too_large"`) {
		t.Errorf("stored %.300s", stored)
	}
}
