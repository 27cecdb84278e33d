package rpc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// SetLimits shortens the limits of a server that has not started yet.
func (s *Server) SetLimits(stall, keepalive time.Duration) { s.stall, s.keepalive = stall, keepalive }

// SetUID sets the uid that the client compares the server's with.
func (c *Client) SetUID(uid int) { c.self = &uid }

// SetPongLimit sets how long a peer has for the answer to a ping.
func (c *Client) SetPongLimit(limit time.Duration) { c.pong = limit }

// SetFresh sets how long a drain waits for the first request of a connection.
func (s *Server) SetFresh(limit time.Duration) { s.fresh = limit }

// SetClock sets the clock of the log of refusals.
func (s *Server) SetClock(now func() time.Time) { s.refusals.now = now }

// CountOwn makes requests of this process count as use.
func (s *Server) CountOwn() { s.pid = -2 }

// Refused is the number of refused connections that are open.
func (s *Server) Refused() int { return int(s.refusals.open.Load()) }

// Idle is the number of idle connections that the client keeps.
func (c *Client) Idle() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.idle)
}

// SetHalf sets how long a drain waits for the rest of a frame.
func (s *Server) SetHalf(limit time.Duration) { s.half = limit }

// Reading is the number of incomplete frames, Handling that of requests that are
// being answered.
func (s *Server) Reading() int  { return s.count(stateReading) }
func (s *Server) Handling() int { return s.count(stateHandling) }

func (s *Server) count(in state) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.mu.Lock()
		if c.state == in {
			n++
		}
		c.mu.Unlock()
	}
	return n
}

// SetFrameBytes bounds the bytes of incomplete frames, of one user and of all.
func (s *Server) SetFrameBytes(uid, all int) { s.occupancy.uidBytes, s.occupancy.allBytes = uid, all }

// SetIdle bounds the idle connections, of one user and of all.
func (s *Server) SetIdle(uid, all int) { s.occupancy.uidIdle, s.occupancy.allIdle = uid, all }

// FrameBytes is the number of bytes reserved for incomplete frames.
func (s *Server) FrameBytes() int {
	s.frames.mu.Lock()
	defer s.frames.mu.Unlock()
	return s.frames.all
}

// Connections is the number of open connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// endless reads as the same frame again and again.
type endless []byte

func (e endless) Read(b []byte) (int, error) { return copy(b, e), nil }

// discard is a sink that counts bytes.
type discard struct{ n int }

func (d *discard) Text(delta []byte) error { d.n += len(delta); return nil }
func (d *discard) Flush() error            { return nil }

// TestChunksDoNotAllocate: passing a chunk to a sink or an Out allocates nothing.
func TestChunksDoNotAllocate(t *testing.T) {
	frame, err := wire.AppendChunk(nil, "thirty bytes of\na \"model's\" text")
	zinotest.Must(t, err)
	d, out := &discard{}, &Out{stream: true, buf: make([]byte, 0, coalesce)}
	for _, s := range []*textStream{
		{c: &Client{}, reply: "response", sink: d, streaming: true},
		{c: &Client{}, reply: "response", sink: d, relay: out, streaming: true},
	} {
		in := wire.NewReader(endless(frame))
		take := func() {
			out.buf = out.buf[:0]
			payload, err := in.Next()
			zinotest.Must(t, err)
			if done, err := s.packet(in, payload); done || err != nil {
				t.Fatal(done, err)
			}
		}
		if n := testing.AllocsPerRun(100, take); n != 0 {
			t.Errorf("relay %v: %v allocations", s.relay != nil, n)
		}
	}
	if d.n == 0 || len(out.buf) != len(frame) {
		t.Errorf("the sink has %d bytes, the relay %d", d.n, len(out.buf))
	}
}

// TestWrappedErrors: a wrapped error keeps its code, origin and details.
func TestWrappedErrors(t *testing.T) {
	origin := &proto.Error{Message: "no", Code: proto.CodeBusy, Service: "rtr", Kind: "http_status", Status: 529, Details: "overloaded"}
	want := *origin
	want.Message = "agr run: while asking: no"
	if got := packet("agr", "run", fmt.Errorf("while asking: %w", origin)); *got != want {
		t.Errorf("got %+v, want %+v", *got, want)
	}
}

// TestDeadlineIsRoundedUp: the next hop's deadline never passes before that of
// the caller.
func TestDeadlineIsRoundedUp(t *testing.T) {
	for range 1000 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour+rand.N(time.Millisecond))
		deadline, _ := ctx.Deadline()
		meta := metaOf(ctx)
		if passed := time.Now().Add(time.Duration(meta.DeadlineMS) * time.Millisecond); passed.Before(deadline) {
			t.Errorf("%d ms pass %v before the deadline", meta.DeadlineMS, deadline.Sub(passed))
		}
		cancel()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 48*time.Hour)
	defer cancel()
	if got := metaOf(ctx).DeadlineMS; got != maxDeadline.Milliseconds() {
		t.Errorf("two days are sent as %d ms", got)
	}
}
