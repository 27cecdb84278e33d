package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/wire"
	"zino/proto"
)

// stallLimit is how long a peer may take from the first byte of a frame to its
// last.
const stallLimit = 30 * time.Second

// freshLimit is how long a drain waits for the first request of a connection.
const freshLimit = 500 * time.Millisecond

// halfLimit is how long a drain waits for the rest of a frame that has begun.
const halfLimit = time.Second

// conn is one client's connection: requests are answered one after the other.
type conn struct {
	s    *Server
	nc   net.Conn
	in   *wire.Reader
	hup  *hangup
	out  []byte // write buffer, kept between requests
	peer peer
	own  bool // the other end is this process

	reserved int // bytes for the frame that is read

	mu    sync.Mutex
	busy  bool // a request has begun
	half  bool // and is not there as a whole
	fresh bool // accepted, first request not yet read

	ending bool          // closed after the request in flight
	since  time.Duration // s.started to the last request's end, or to the accepting
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{s: s, nc: nc, in: wire.NewReader(nc), hup: newHangup(nc), peer: peer{nc: nc}}
	c.own = c.peer.pid() == s.pid
	c.in.Reserve = c.reserve
	c.since = time.Since(s.started)
	return c
}

// wake ends the wait for a next request; a request that is there goes on, and
// one that is coming must be there soon. The first one may take a moment to
// come: whoever connects just before a service is stopped may know nothing of
// asking again.
func (c *conn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.fresh:
		c.nc.SetReadDeadline(time.Now().Add(c.s.fresh))
	case c.half:
		c.nc.SetReadDeadline(time.Now().Add(c.s.half))
	case !c.busy:
		c.nc.SetReadDeadline(past) // what has arrived is still answered
	}
}

// begin marks the beginning of a request, which has no deadline yet, and rest
// its end: from then on a drain ends the connection.
func (c *conn) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fresh = false
	if c.busy = true; c.drains() {
		c.nc.SetReadDeadline(time.Time{})
	}
}

func (c *conn) rest() {
	c.used()
	c.mu.Lock()
	c.busy, c.since = false, time.Since(c.s.started)
	drains := c.drains()
	c.mu.Unlock()
	if drains {
		c.wake()
	}
}

// drains reports whether the connection ends with the request in flight. c.mu
// is locked.
func (c *conn) drains() bool { return c.ending || c.s.draining.Load() }

// serve answers requests until the peer is done, misbehaves, or the server
// drains.
func (c *conn) serve() {
	defer c.nc.Close()
	for {
		payload, err := c.next()
		if err != nil {
			c.refuseFrame(err)
			return
		}
		if err := c.answer(payload); err != nil {
			return
		}
		poison(payload)
	}
}

// next waits for a request and reads it. Nothing limits the wait between two
// requests; one that has begun must arrive within stallLimit, or halfLimit when
// the server drains.
func (c *conn) next() ([]byte, error) {
	c.rest()
	if err := c.in.Wait(); err != nil && !c.arrived(err) {
		return nil, err
	}
	c.begin()
	if !c.in.Ready() {
		c.await(true)
		defer c.await(false)
	}
	defer c.unreserve()
	return c.in.Next()
}

// await limits the wait for the rest of a frame, or ends that.
func (c *conn) await(half bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	until := time.Time{}
	if c.half = half; half {
		until = time.Now().Add(c.s.stall)
		if c.drains() {
			until = time.Now().Add(c.s.half)
		}
	}
	c.nc.SetReadDeadline(until)
}

// arrived reports whether a request came in the moment in which the wait for it
// was ended.
func (c *conn) arrived(err error) bool {
	came := false
	if timedOut(err) {
		control(c.nc, func(fd int) { came = polled(fd, unix.POLLIN)&unix.POLLIN != 0 })
	}
	return came
}

func (c *conn) answer(payload []byte) error {
	if wire.IsPing(payload) {
		c.out = wire.AppendPong(c.out[:0], c.s.pong, int64(time.Since(c.s.started)/time.Second))
		_, err := c.nc.Write(c.out)
		return err
	}
	typ, metaText, err := wire.Type(payload)
	meta, metaErr := readMeta(metaText)
	if err = errors.Join(err, metaErr); err != nil {
		return c.refuse(invalid(err))
	}
	h, ok := c.s.handlers[typ]
	if !ok {
		return c.refuse(unknown(typ, payload))
	}
	return c.run(typ, meta, h, payload)
}

// refuseFrame answers a frame that is too large, or for which there is no
// memory; a connection that broke gets no answer.
func (c *conn) refuseFrame(err error) {
	e, ok := errors.AsType[*proto.Error](err)
	if errors.Is(err, wire.ErrTooLarge) {
		e, ok = &proto.Error{Code: proto.CodeTooLarge, Message: "Request refused: " + err.Error() + "."}, true
	}
	if ok && c.refuse(e) == nil {
		c.s.linger(c.nc)
	}
}

// refuse answers a request that no handler sees.
func (c *conn) refuse(e *proto.Error) error {
	c.s.failures.Add(1)
	c.s.log.Info("request refused", "error", e.Message, "uid", c.peer.uid())
	out := &Out{nc: c.nc, ctx: c.s.ctx, buf: c.out[:0]}
	return out.end("error", packet(c.s.service, "", e))
}

// run carries out one request and sees to it that exactly one terminal packet
// ends it.
func (c *conn) run(typ string, meta proto.Meta, h handler, payload []byte) error {
	started := time.Now()
	c.s.inFlight.Add(1)
	ctx, cancel := requestContext(c.s.ctx, &c.peer, meta)
	added := new(notes)
	ctx = context.WithValue(ctx, notesKey{}, added)
	stopWatch := c.hup.watch(cancel)
	out := &Out{nc: c.nc, ctx: ctx, buf: c.out[:0], sent: func(packet []byte) { c.s.logContent(ctx, "reply", typ, packet) }}
	c.s.logContent(ctx, "request begins", typ, payload)
	stopKeepalive := func() bool { return true }
	if meta.Keepalive {
		stopKeepalive = out.keepAlive(c.s.keepalive)
	}
	err := c.protect(func() error { return h(ctx, payload, out) })
	if err != nil {
		err = c.fail(typ, out, err)
	}
	stopKeepalive()
	stopWatch()
	cancel()
	c.out = out.buf[:0]
	c.s.inFlight.Add(-1)
	c.s.record(ctx, typ, started, err, &c.peer, added.attrs)
	return out.err
}

// fail sends err as the terminal packet.
func (c *conn) fail(typ string, out *Out, err error) error {
	e := packet(c.s.service, typ, err)
	if sendErr := out.end("error", e); sendErr != nil {
		return sendErr
	}
	return e
}

// protect turns a panic into an error, so that the client gets its packet.
func (c *conn) protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.s.log.Error("panic", "value", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("the service failed; its log says more")
		}
	}()
	return f()
}

// record counts and logs a request that has ended.
func (s *Server) record(ctx context.Context, typ string, started time.Time, err error, p *peer, more []slog.Attr) {
	s.requests.Add(1)
	if err != nil {
		s.failures.Add(1)
	}
	level := slog.LevelInfo
	if quiet[typ] {
		level = slog.LevelDebug
	}
	if !s.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("type", nameOf(typ)), slog.Duration("duration", time.Since(started)),
		slog.String("trace", Trace(ctx)), slog.Int("uid", p.uid()),
	}
	attrs = append(attrs, more...)
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	s.log.LogAttrs(ctx, level, "request", attrs...)
}

// quiet are the types that would drown the log.
var quiet = map[string]bool{"ping": true, "describe": true, "stats": true, "capabilities": true}

// poison overwrites a payload that a handler must no longer look at. Only tests
// with the race detector pay for it.
func poison(payload []byte) {
	if !poisoning {
		return
	}
	for i := range payload {
		payload[i] = 0xdb
	}
}

// timedOut reports an error of an exceeded read deadline.
func timedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
