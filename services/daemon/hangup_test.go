package daemon

import (
	"context"
	"strings"
	"testing"

	"zino/pkg/rpc"
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
func (b *bench) leave(payload string, n *blocked) {
	b.t.Helper()
	c := b.dial()
	c.send(payload)
	wait(b.t, n.begun, "the work to begin")
	c.nc.Close()
	wait(b.t, n.cancelled, "the work to be cancelled")
	b.idle()
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
				b := newBench(t, n)
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
	b := newBench(t, n)
	c := b.dial()
	c.send(`{"message":"hi","channel_id":"a"}`)
	wait(t, storing, "the turn to be stored")
	c.nc.Close()
	b.ask(`{"type":"ping"}`)
	close(left)
	b.idle()
	if stored := b.stored.list(); len(stored) != 1 || strings.Contains(b.log.String(), "could not be stored") {
		t.Errorf("stored %d, the log says %s", len(stored), b.log)
	}
}

// TestHalfClose: a caller that only ended its sending side has its answer, and
// then the end.
func TestHalfClose(t *testing.T) {
	modes(t, func(t *testing.T, stream bool, more string) {
		b := newBench(t, all())
		c := b.dial()
		c.send(`{"message":"hi","channel_id":"a"` + more + `}`)
		if err := c.nc.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		var streamed strings.Builder
		p := c.next()
		for ; p.Type == "chunk"; p = c.next() {
			streamed.WriteString(p.Delta)
		}
		if p.text() != "The answer." || stream && streamed.String() != "The answer." || len(b.stored.list()) != 1 {
			t.Errorf("streamed %q, then %s", streamed.String(), p.raw)
		}
		if end := c.next(); end.Type != "" {
			t.Errorf("after the terminal packet: %s", end.raw)
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
		b := newBench(t, n)
		_, last := b.ask(`{"message":"hi","channel_id":"a","meta":{"deadline_ms":200}` + more + `}`)
		if last.Type != "error" || last.Code != "timeout" {
			t.Errorf("last packet %s", last.raw)
		}
		b.idle()
		if n := len(b.infers.list()) + len(b.stored.list()); n > 0 {
			t.Errorf("%d requests after the deadline", n)
		}
	})
}
