package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// during is a real mem whose turn does something after place packets.
func during(t *testing.T, place int, happen func(context.Context, *realEnv)) *realEnv {
	t.Helper()
	var b *realEnv
	b = newRealEnv(t, stops(place, func(ctx context.Context) { happen(ctx, b) }))
	b.service.storeTimeout = zinotest.Timeout
	return b
}

// TestMemComesBack: mem is started anew at every step of a turn. The turn goes
// on, and the session has all of it.
func TestMemComesBack(t *testing.T) {
	for place := range places {
		b := during(t, place, func(_ context.Context, b *realEnv) {
			if err := b.stop(); err != nil {
				t.Error(err)
			}
			b.startMem()
		})
		c := b.dial()
		c.Send(turnPayload)
		packets := c.rest()
		same(t, "packets", raws(packets[:len(packets)-1]), wholeTurn)
		if last := packets[len(packets)-1]; last.Type != "done" {
			t.Errorf("started anew after %d packets: %s", place, last.Raw)
		}
		same(t, "the session", b.file("s-1"), append([]string{`{"type":"meta","schema_version":1,"root":"/r"}`}, storedBy(places-1)...))
		rpctest.WaitIdle(t, b.cfg.Daemon.Socket)
	}
}

// TestMemComesBackTwice: a turn outlives its mem as often as need be.
func TestMemComesBackTwice(t *testing.T) {
	b := during(t, 3, func(_ context.Context, b *realEnv) {
		for range 3 {
			if err := b.stop(); err != nil {
				t.Error(err)
			}
			b.startMem()
		}
	})
	c := b.dial()
	c.Send(turnPayload)
	if packets := c.rest(); packets[len(packets)-1].Type != "done" {
		t.Errorf("packets %s", raws(packets))
	}
}

// TestUsedMeanwhile: somebody else has used the session while mem was away, or
// uses it now. The turn ends, and nothing of it is stored behind that.
func TestUsedMeanwhile(t *testing.T) {
	const theirs = `{"type":"message","role":"user","text":"mine","ts":"2026-11-21T10:00:00Z"}`
	for name, use := range map[string]func(b *realEnv, file string) error{
		"written": func(b *realEnv, file string) error {
			f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = fmt.Fprintln(f, theirs)
			return err
		},
		"removed": func(b *realEnv, file string) error { return os.Remove(file) },
	} {
		t.Run(name, func(t *testing.T) {
			var left string
			b := during(t, 4, func(_ context.Context, b *realEnv) {
				file := filepath.Join(b.sessions, "s-1.jsonl")
				err := b.stop()
				if err == nil {
					err = use(b, file)
				}
				if err != nil {
					t.Error(err)
				}
				text, _ := os.ReadFile(file) // none: it was removed
				left = string(text)
				b.startMem()
			})
			c := b.dial()
			c.Send(turnPayload)
			packets := c.rest()
			last := packets[len(packets)-1]
			if want := `session "s-1" was changed by another process during the turn`; last.Message != want || last.Code != "busy" || !strings.Contains(last.Raw, `"kind":"session"`) {
				t.Errorf("the end is %s", last.Raw)
			}
			rpctest.WaitIdle(t, b.cfg.Daemon.Socket)
			if text, _ := os.ReadFile(filepath.Join(b.sessions, "s-1.jsonl")); string(text) != left {
				t.Errorf("the file is\n%swant\n%s", text, left)
			}
		})
	}
}

// TestLeavesMeanwhile: the caller leaves while mem is away. What the turn had,
// and that it was interrupted, is stored when mem is back.
func TestLeavesMeanwhile(t *testing.T) {
	left := make(chan struct{})
	b := during(t, 3, func(ctx context.Context, b *realEnv) {
		if err := b.stop(); err != nil {
			t.Error(err)
		}
		close(left)
		<-ctx.Done()
	})
	c := b.dial()
	c.Send(turnPayload)
	zinotest.Receive(t, "mem to be away", left)
	c.heard(3)
	c.Close()
	b.startMem()
	want := append([]string{`{"type":"meta","schema_version":1,"root":"/r"}`, storedUser, storedPart}, storedBreak)
	zinotest.Eventually(t, "all of it to be stored", func() bool { return len(b.file("s-1")) == len(want) })
	same(t, "the session", b.file("s-1"), want)
	rpctest.WaitIdle(t, b.cfg.Daemon.Socket)
}

// TestAnswerLost: the answer of every append is lost once. The append is repeated,
// and every event is stored once.
func TestAnswerLost(t *testing.T) {
	b := newRealEnv(t, whole)
	var mu sync.Mutex
	lost := map[string]bool{}
	newLossyCable(t, b.cfg.Mem.Socket, func(answer []byte) bool {
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(string(answer), `"type":"session"`) || lost[string(answer)] {
			return false
		}
		lost[string(answer)] = true
		return true
	})
	b.service.storeTimeout = zinotest.Timeout
	if packets := b.turn(turnPayload); packets[len(packets)-1].Type != "done" {
		t.Errorf("packets %s", raws(packets))
	}
	mu.Lock()
	defer mu.Unlock()
	if len(lost) != len(stores) {
		t.Errorf("%d answers were lost, want %d", len(lost), len(stores))
	}
	same(t, "the session", b.file("s-1"), append([]string{`{"type":"meta","schema_version":1,"root":"/r"}`}, storedBy(places-1)...))
}

// TestLockedAgain: after a restart of mem the session is locked again for the
// turn.
func TestLockedAgain(t *testing.T) {
	reached, goOn := make(chan struct{}), make(chan struct{})
	b := newRealEnv(t, stops(3, func(context.Context) { close(reached); <-goOn }))
	unblock := sync.OnceFunc(func() { close(goOn) })
	defer unblock()
	c := b.dial()
	c.Send(turnPayload)
	zinotest.Receive(t, "the step", reached)
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	b.startMem()
	client := rpctest.Client(t, "mem", b.cfg.Mem.Socket)
	zinotest.Eventually(t, "the session to be locked again", func() (locked bool) {
		rpc.CallEvents(t.Context(), client, proto.MemHoldSession, proto.HoldSession{SessionID: "s-1"}, func(typ string, _ []byte) error {
			locked = typ == proto.TypeWaiting
			return context.Canceled // hang up
		})
		return locked
	})
	unblock()
	if packets := c.rest(); packets[len(packets)-1].Type != "done" {
		t.Errorf("packets %s", raws(packets))
	}
}
