package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/wire"
	"zino/proto"
)

const (
	stallLimit = 30 * time.Second       // from the first byte of a frame to its last
	freshLimit = 500 * time.Millisecond // while draining: for the first request of a connection
	halfLimit  = time.Second            // while draining: for the rest of a frame
)

// state is the state of a connection between and during requests.
type state uint8

const (
	stateNew      state = iota // accepted, no byte of a request has arrived
	stateIdle                  // waiting for the next request
	stateReading               // a request has begun to arrive
	stateHandling              // a request is being answered
	stateClosing               // ends after the requests that have arrived
)

// conn is a connection. Its requests are answered one after the other.
type conn struct {
	s    *Server
	nc   net.Conn
	in   *wire.Reader
	hup  *hangup
	out  []byte // write buffer, kept between requests
	peer peer
	own  bool // the peer is this process

	methods []string // that the peer may call; nil: all

	passive  atomic.Bool // the request in flight does not count as use of the service
	reserved int         // bytes for the frame that is being read

	mu    sync.Mutex
	state state
	last  bool          // close after the request in flight to make room for others
	since time.Duration // from s.started to the end of the last request, or to the accepting
}

func newConn(s *Server, nc net.Conn) *conn {
	nc = newSocket(nc)
	c := &conn{s: s, nc: nc, in: wire.NewReader(nc), hup: newHangup(nc), peer: peer{nc: nc}}
	c.own = c.peer.pid() == s.pid
	c.in.Reserve = c.reserve
	c.since = time.Since(s.started)
	return c
}

// ends reports whether the connection ends with the request in flight. c.mu is
// locked.
func (c *conn) ends() bool { return c.last || c.s.draining.Load() }

// wake stops the wait for the next request on a connection that ends. A request that is
// being read, and the first one of a connection, have a short timeout: a client that
// connects just before a service stops may not retry its request.
func (c *conn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.state {
	case stateNew:
		c.nc.SetReadDeadline(time.Now().Add(c.s.fresh))
	case stateReading:
		c.nc.SetReadDeadline(time.Now().Add(c.s.half))
	case stateIdle:
		c.state = stateClosing
		c.nc.SetReadDeadline(past)
	}
}

// begin records that a request has begun to arrive or has arrived. Only reading a frame
// has a timeout.
func (c *conn) begin(next state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	until := time.Time{}
	if next == stateReading {
		if until = time.Now().Add(c.s.stall); c.ends() {
			until = time.Now().Add(c.s.half)
		}
	}
	if next == stateReading || c.state == stateReading || c.ends() {
		c.nc.SetReadDeadline(until)
	}
	c.state = next
}

// rest records that no request is in flight.
func (c *conn) rest() {
	c.used()
	c.mu.Lock()
	if c.since = time.Since(c.s.started); c.state != stateNew {
		c.state = stateIdle
	}
	ends := c.ends()
	c.mu.Unlock()
	if ends {
		c.wake()
	}
}

// idle reports whether a connection has no complete request, and since when.
func (c *conn) idle() (since time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, !c.last && c.state != stateHandling
}

// working reports whether a request of another process has begun.
func (c *conn) working() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state == stateReading && !c.own || c.state == stateHandling && !c.own && !c.passive.Load()
}

// used records that the service is in use, for Retire.
func (c *conn) used() {
	if !c.own {
		c.s.used.Store(int64(time.Since(c.s.started)))
	}
}

// end closes a connection after the request in flight.
func (c *conn) end() {
	c.mu.Lock()
	c.last = true
	c.mu.Unlock()
	c.wake()
}

// serve answers requests until the peer is done or breaks the protocol, or the
// connection ends.
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

// next waits for a request and reads it. The wait between two requests has no
// limit.
func (c *conn) next() ([]byte, error) {
	c.rest()
	if err := c.in.Wait(); err != nil && !c.arrived(err) {
		return nil, err
	}
	if c.in.Ready() {
		c.begin(stateHandling)
	} else {
		c.begin(stateReading)
		defer c.begin(stateHandling)
	}
	defer c.unreserve()
	return c.in.Next()
}

// arrived reports whether a request arrived while the wait for it timed out.
func (c *conn) arrived(err error) bool {
	readable := false
	if timedOut(err) {
		control(c.nc, func(fd int) { readable = polled(fd, unix.POLLIN)&unix.POLLIN != 0 })
	}
	return readable
}

func (c *conn) answer(payload []byte) error {
	if c.methods == nil && wire.IsPing(payload) {
		c.out = wire.AppendPong(c.out[:0], c.s.pong, int64(time.Since(c.s.started)/time.Second))
		_, err := c.nc.Write(c.out)
		return err
	}
	typ, metaText, err := wire.Type(payload)
	meta, metaErr := readMeta(metaText)
	if err = errors.Join(err, metaErr); err != nil {
		return c.refuse(invalid(err))
	}
	if e := c.deniedMethod(typ); e != nil {
		return c.refuse(e)
	}
	h, ok := c.s.handlers[typ]
	if !ok {
		// No handler has read the values: if they are malformed, that is the answer.
		if _, err := wire.RequestType(payload); err != nil {
			return c.refuse(invalid(err))
		}
		return c.refuse(proto.Errorf(proto.CodeUnknown, "Unknown message type: %s", typ))
	}
	return c.run(typ, meta, h, payload)
}

// refuseFrame answers a frame that is too large, or exceeds the memory limits. It does
// not answer other errors.
func (c *conn) refuseFrame(err error) {
	e, ok := errors.AsType[*proto.Error](err)
	if errors.Is(err, wire.ErrTooLarge) {
		e, ok = proto.Errorf(proto.CodeTooLarge, "Request refused: %v.", err), true
	}
	if ok && c.refuse(e) == nil {
		c.s.linger(c.nc)
	}
}

// refuse answers a request with an error without calling a handler.
func (c *conn) refuse(e *proto.Error) error {
	c.s.failures.Add(1)
	c.s.log.Info("request refused", "error", e.Message, "uid", c.peer.uid())
	out := &Out{nc: c.nc, ctx: c.s.ctx, buf: buffer(c.out)}
	return out.end("error", packet(c.s.service, "", e))
}

// run handles one request and sends exactly one terminal packet. It returns the error of
// writing to the caller.
func (c *conn) run(typ string, meta proto.Meta, h handler, payload []byte) error {
	s, started := c.s, time.Now()
	s.inFlight.Add(1)
	ctx, cancel := requestContext(s.ctx, &c.peer, meta)
	added := &notes{passive: &c.passive}
	ctx = context.WithValue(ctx, notesKey{}, added)
	stopWatch := c.hup.watch(cancel)
	out := &Out{nc: c.nc, ctx: ctx, buf: buffer(c.out), sent: func(packet []byte) { s.logContent(ctx, "reply", typ, packet) }}
	s.logContent(ctx, "request begins", typ, payload)
	stopKeepalive := func() bool { return true }
	if meta.Keepalive {
		stopKeepalive = out.keepAlive(s.keepalive)
	}
	err := c.protect(func() error { return h(ctx, payload, out) })
	if err != nil {
		e := packet(s.service, typ, err)
		if err = out.end("error", e); err == nil {
			err = e
		}
	}
	c.passive.Store(false)
	stopKeepalive()
	stopWatch()
	cancel()
	if out.limit.Load() > 0 {
		c.nc.SetWriteDeadline(time.Time{})
	}
	c.out = out.buf[:0]
	s.inFlight.Add(-1)
	s.record(ctx, typ, started, err, &c.peer, added.attrs)
	added.free()
	return out.err
}

// protect turns a panic into an error, so that the client gets its packet.
func (c *conn) protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.s.log.Error("panic", "value", p, "stack", string(debug.Stack()))
			err = errors.New("the service failed; its log says more")
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

// quiet are the types that are logged at level DEBUG only.
var quiet = map[string]bool{"ping": true, "describe": true, "stats": true, "capabilities": true}

// contentMax and contentsMax limit the logged bytes of a field and of a packet.
const (
	contentMax  = 4 << 10
	contentsMax = 16 << 10
)

// logContent logs the fields of a packet, at the level DEBUG only.
func (s *Server) logContent(ctx context.Context, message, typ string, packet []byte) {
	if quiet[typ] || !s.log.Enabled(ctx, slog.LevelDebug) || s.private(typ, packet) {
		return
	}
	var text strings.Builder
	for key, value := range wire.Members(packet) {
		switch string(key) {
		case "type", "meta", "env", "base", "stdin", "project", "client", "mcp_servers", "mask", "token", "grant", "grants": // env is the caller's whole environment
			continue
		}
		fmt.Fprintf(&text, "%s: %s\n", key, shortened(string(value), contentMax))
	}
	s.log.DebugContext(ctx, message, "type", nameOf(typ), "trace", Trace(ctx), "content", shortened(strings.TrimSuffix(text.String(), "\n"), contentsMax))
}

// private reports whether a packet may hold secrets that its fields do not tell: hints, input
// of programs and of people, and what the client of MCP servers gets and answers, also through forward.
func (s *Server) private(typ string, packet []byte) bool {
	switch typ {
	case proto.RtrMaskHints.Type, proto.ExcPipeWrite.Type, proto.DaemonInputRequest.Type, proto.DaemonAnswerInput.Type:
		return true
	case proto.DaemonForward.Type:
		for key, value := range wire.Members(packet) {
			if string(key) == "service" {
				return string(value) == `"mcp"`
			}
		}
	}
	return s.service == "mcp"
}

// shortened returns the head and the tail of a text that is longer than limit.
func shortened(text string, limit int) string {
	if len(text) > limit {
		text = fmt.Sprintf("%s[%d bytes left out]%s", text[:limit/2], len(text)-limit/2*2, text[len(text)-limit/2:])
	}
	return strings.ToValidUTF8(text, "?")
}

// nameOf returns the type of a request for the log. The daemon's chat requests have an
// empty type on the wire.
func nameOf(typ string) string {
	if typ == "" {
		return "chat"
	}
	return typ
}

// poison overwrites a payload that a handler must no longer read. Only builds
// with the race detector do so.
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
