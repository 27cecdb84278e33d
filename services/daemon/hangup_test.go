package daemon

import (
	"context"
	"strings"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// blocked is a neighbour's handler that works until its caller hangs up.
type blocked struct {
	begun, cancelled chan struct{}
}

func newBlocked() *blocked { return &blocked{make(chan struct{}), make(chan struct{})} }

func (b *blocked) wait(ctx context.Context) error {
	close(b.begun)
	<-ctx.Done()
	close(b.cancelled)
	return ctx.Err()
}

// leave has a caller ask, wait until the neighbour works, and hang up; the
// neighbour must see it.
func (b *env) leave(payload string, n *blocked) {
	b.t.Helper()
	c := b.dial()
	c.Send(payload)
	zinotest.Receive(b.t, "the work to begin", n.begun)
	c.Close()
	zinotest.Receive(b.t, "the work to be cancelled", n.cancelled)
	rpctest.WaitIdle(b.t, b.cfg.Daemon.Socket)
}

// TestHangUp: a caller that leaves cancels whoever works on the turn; nobody
// else is asked, and nothing is stored.
func TestHangUp(t *testing.T) {
	for _, c := range []struct {
		name   string
		block  func(*neighbours, *blocked)
		runs   int
		infers int
	}{
		{"prompt", func(n *neighbours, b *blocked) {
			n.sys = func(ctx context.Context, _ proto.GetPrompt, _ *rpc.Out) error { return b.wait(ctx) }
		}, 0, 0},
		{"context", func(n *neighbours, b *blocked) {
			n.ctx = func(ctx context.Context, _ proto.Build, _ *rpc.Out) error { return b.wait(ctx) }
		}, 0, 0},
		{"agent", func(n *neighbours, b *blocked) {
			n.agr = func(ctx context.Context, _ proto.Run, out *rpc.Out) (proto.Text, error) {
				text, err := say(out, []string{"half"})
				if err == nil {
					err = b.wait(ctx)
				}
				return text, err
			}
		}, 1, 0},
		{"model", func(n *neighbours, b *blocked) {
			n.agr = nil
			n.rtr = func(ctx context.Context, _ proto.Infer, _ *rpc.Out) (proto.Text, error) {
				return proto.Text{}, b.wait(ctx)
			}
		}, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			modes(t, func(t *testing.T, _ bool, more string) {
				n, block := all(), newBlocked()
				c.block(&n, block)
				b := newEnv(t, n)
				b.leave(`{"message":"hi","channel_id":"a"`+more+`}`, block)
				if runs, infers, stored := len(b.runs.list()), len(b.infers.list()), len(b.stored.list()); runs != c.runs || infers != c.infers || stored != 0 {
					t.Errorf("%d runs, %d inferences, %d stored", runs, infers, stored)
				}
			})
		})
	}
}

// TestHangUpWhileStoring: a turn whose answer is there is stored, even if its
// caller leaves at that moment.
func TestHangUpWhileStoring(t *testing.T) {
	storing, left := make(chan struct{}), make(chan struct{})
	n := all()
	n.mem = func(ctx context.Context, _ proto.AppendHistory) (proto.Empty, error) {
		close(storing)
		return proto.Empty{}, until(ctx, left)
	}
	b := newEnv(t, n)
	c := b.dial()
	c.Send(`{"message":"hi","channel_id":"a"}`)
	zinotest.Receive(t, "the turn to be stored", storing)
	c.Close()
	b.ask(`{"type":"ping"}`)
	close(left)
	rpctest.WaitIdle(t, b.cfg.Daemon.Socket)
	if stored := b.stored.list(); len(stored) != 1 || strings.Contains(b.log.String(), "could not be stored") {
		t.Errorf("stored %d, the log says %s", len(stored), b.log)
	}
}

// TestHalfClose: a caller that only ended its sending side has its answer, and
// then the end.
func TestHalfClose(t *testing.T) {
	modes(t, func(t *testing.T, stream bool, more string) {
		b := newEnv(t, all())
		c := b.dial()
		c.Send(`{"message":"hi","channel_id":"a"` + more + `}`)
		c.HalfClose()
		var streamed strings.Builder
		p := c.Next()
		for ; p.Type == "chunk"; p = c.Next() {
			streamed.WriteString(p.Delta)
		}
		if p.Text() != "The answer." || stream && streamed.String() != "The answer." || len(b.stored.list()) != 1 {
			t.Errorf("streamed %q, then %s", streamed.String(), p.Raw)
		}
		if end := c.Next(); end.Type != "" {
			t.Errorf("after the terminal packet: %s", end.Raw)
		}
	})
}

// TestDeadline: a deadline that passes ends the turn with one error.
func TestDeadline(t *testing.T) {
	modes(t, func(t *testing.T, _ bool, more string) {
		n := all()
		n.agr = func(ctx context.Context, _ proto.Run, _ *rpc.Out) (proto.Text, error) {
			return proto.Text{}, newBlocked().wait(ctx)
		}
		b := newEnv(t, n)
		_, last := b.ask(`{"message":"hi","channel_id":"a","meta":{"deadline_ms":200}` + more + `}`)
		if last.Type != "error" || last.Code != "timeout" {
			t.Errorf("last packet %s", last.Raw)
		}
		rpctest.WaitIdle(t, b.cfg.Daemon.Socket)
		if n := len(b.infers.list()) + len(b.stored.list()); n > 0 {
			t.Errorf("%d requests after the deadline", n)
		}
	})
}
