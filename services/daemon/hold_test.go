package daemon

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

const waitNotice = `{"type":"notice","kind":"wait","text":"Another turn is under way on session s-1: waiting for its end."}`

// blockedPacket is a neighbour that works until its caller hangs up.
func blockedPacket[Req any](b *blocked) func(context.Context, Req, *rpc.Out) error {
	return func(ctx context.Context, _ Req, _ *rpc.Out) error { return b.wait(ctx) }
}

// TestTurnsFollow: the second turn on a session is told that it waits, and
// begins when all of the first one is stored.
func TestTurnsFollow(t *testing.T) {
	var begun atomic.Int32
	goOn := make(chan struct{})
	held := stops(2, func(ctx context.Context) {
		if err := until(ctx, goOn); err != nil {
			t.Error(err)
		}
	})
	b := newSessionEnv(t, all(), func(ctx context.Context, say func(...string) error) (proto.Text, error) {
		if begun.Add(1) == 1 {
			return held(ctx, say)
		}
		return whole(ctx, say)
	})
	first, second := b.dial(), b.dial()
	first.Send(turnPayload)
	first.heard(2)
	second.Send(turnPayload)
	if p := second.Next(); p.Raw != waitNotice {
		t.Errorf("the second is told %s", p.Raw)
	}
	b.turn(strings.Replace(turnPayload, "s-1", "s-2", 1)) // another session does not wait
	if asked := len(b.builds.list()); asked != 2 {
		t.Errorf("ctx was asked %d times", asked)
	}
	close(goOn)
	first.rest()
	if packets := second.rest(); packets[len(packets)-1].Type != "done" {
		t.Errorf("the second ends with %s", raws(packets))
	}
	turn := storedBy(places - 1)
	same(t, "stored", b.mem.of("s-1"), append(slices.Clone(turn), turn...))
	same(t, "stored elsewhere", b.mem.of("s-2"), turn)
}

// TestWaitsQuietly: a caller without events is told nothing and has the answer.
func TestWaitsQuietly(t *testing.T) {
	b := newSessionEnv(t, all(), whole)
	b.mem.lock("s-1") <- struct{}{}
	c := b.dial()
	c.Send(`{"message":"hi","session_id":"s-1"}`)
	zinotest.Eventually(t, "the lock to be asked for", func() bool { return b.trail.has("hold") })
	b.ask(`{"type":"ping"}`)
	<-b.mem.lock("s-1")
	if packets := c.rest(); len(packets) != 1 || packets[0].Raw != `{"type":"response","content":"Done."}` {
		t.Errorf("packets %s", raws(packets))
	}
}

// TestStopsWhileWaiting: a daemon that stops tells the one who waits.
func TestStopsWhileWaiting(t *testing.T) {
	b := newSessionEnv(t, all(), whole)
	b.mem.lock("s-1") <- struct{}{}
	c := b.dial()
	c.Send(turnPayload)
	c.heard(1)
	now, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- b.daemon.Shutdown(now) }()
	same(t, "packets", raws(c.heard(2)), []string{`{"type":"interrupted"}`, interruptedLast})
	zinotest.Receive(t, "the daemon to stop", stopped)
	if stored := b.trail.stored(); len(stored) > 0 {
		t.Errorf("stored %s", stored)
	}
}

// TestNotHeld: what mem says of a session that it cannot lock is what the caller
// is told; and nobody else is asked.
func TestNotHeld(t *testing.T) {
	foreign := &proto.Error{Code: proto.CodeInvalid, Message: "sessions/s-1.jsonl is no session", Service: "mem"}
	for _, c := range []struct {
		name string
		hold func(string) error
		away bool
		want string
	}{
		{"foreign", func(string) error { return foreign }, false, `{"type":"error","message":"sessions/s-1.jsonl is no session","code":"invalid","service":"mem","kind":"session"}`},
		{"canceled", func(string) error { return proto.ErrCanceled }, false, `{"type":"error","message":"canceled","code":"canceled","service":"mem","kind":"session"}`},
		{"away", nil, true, "Could not connect to mem: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := all()
			if c.away {
				n.mem = nil
			}
			b := newSessionEnv(t, n, whole)
			b.mem.hold = c.hold
			packets := b.turn(turnPayload)
			if len(packets) != 1 || !strings.Contains(packets[0].Raw, c.want) || !strings.Contains(packets[0].Raw, `"kind":"session"`) {
				t.Errorf("packets %s", raws(packets))
			}
			if steps := b.trail.list(); len(steps) > 1 {
				t.Errorf("steps %s", steps)
			}
		})
	}
}

// TestReleased: a mem that stops ends the turns that wait for a lock.
func TestReleased(t *testing.T) {
	n := all()
	n.mem = nil
	b := newSessionEnv(t, n, whole)
	b.serve("mem", func(s *rpc.Server) {
		rpc.HandleEvents(s, proto.MemHoldSession, func(_ context.Context, req proto.HoldSession, _ *rpc.Out) (proto.SessionName, error) {
			return proto.SessionName{SessionID: req.SessionID}, nil
		})
	})
	same(t, "the end", raws(b.turn(turnPayload)), []string{`{"type":"error","message":"mem is stopping","code":"unavailable","service":"mem","kind":"session"}`})
}

// TestSessionDeadline: a deadline that passes is an error of that code, in the
// session too if the turn had begun.
func TestSessionDeadline(t *testing.T) {
	const payload = `{"message":"hi <you>","session_id":"s-1","events":true,"meta":{"deadline_ms":300}}`
	b := newSessionEnv(t, all(), func(ctx context.Context, say func(...string) error) (proto.Text, error) {
		if err := say(deltaA, deltaB); err != nil {
			return proto.Text{}, err
		}
		<-ctx.Done()
		return proto.Text{}, ctx.Err()
	})
	packets := b.turn(payload)
	last := packets[len(packets)-1]
	if last.Type != "error" || last.Code != "timeout" { // whoever noticed first says it
		t.Errorf("the end is %s", last.Raw)
	}
	if stored := b.trail.stored(); len(stored) > 0 && !strings.HasSuffix(stored[len(stored)-1], `"code":"timeout"}`) {
		t.Errorf("stored %s", stored)
	}
	zinotest.Eventually(t, "the lock to be let go", func() bool { return len(b.mem.lock("s-1")) == 0 })
	b.mem.lock("s-1") <- struct{}{}
	packets = b.turn(payload)
	last = packets[len(packets)-1]
	if want := `{"type":"error","message":"timed out waiting for the lock on session \"s-1\": context deadline exceeded","code":"timeout","service":"daemon"}`; last.Raw != want {
		t.Errorf("the end is %s", last.Raw)
	}
}
