package rpc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/user"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/wire"
	"zino/proto"
)

const (
	silenceLimit = 30 * time.Second       // between two packets of a peer that sends keepalives
	slowLimit    = 10 * time.Minute       // the same for a peer that does not
	pongLimit    = 5 * time.Second        // for the pong that shows whether a peer sends keepalives
	maxMore      = 500 * time.Millisecond // tolerance of a deadline
	maxIdle      = 4                      // idle connections that a client keeps
)

// Whether a peer sends keepalives: keepalives are not part of the
// specification, so a service may implement it alone.
const (
	unknownPeer int32 = iota
	keepalivePeer
	slowPeer
)

// Client calls one service. Set its fields before use; it is safe for concurrent
// use. Each request has a connection of its own while it runs; idle connections
// are kept for the next.
type Client struct {
	Service string        // the service's short name, for errors
	Path    string        // its socket
	Silence time.Duration // idle timeout of an answer; zero: 30 s
	Slow    time.Duration // the same for a peer that sends no keepalives; zero: 10 min
	// Dialed is called with each new connection before its first request; nil: nothing.
	Dialed func(net.Conn) error

	self *int          // the uid in tests; nil: that of the process
	kind atomic.Int32  // of peer: unknownPeer, keepalivePeer or slowPeer
	pong time.Duration // limit for the answer to a ping; zero: 5 s

	mu     sync.Mutex
	idle   []*clientConn
	closed bool
}

// clientConn is a connection that can be used again.
type clientConn struct {
	nc    net.Conn
	in    *wire.Reader
	out   []byte
	quiet func() bool   // nothing has arrived and the peer has not hung up
	until time.Time     // the deadline of reads and writes
	limit time.Duration // from which until was computed
	kept  bool          // an answer has arrived on it
	alive bool          // a keepalive has arrived on it
}

// Close closes the idle connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cc := range c.idle {
		cc.nc.Close()
	}
	c.idle, c.closed = nil, true
}

// take returns an idle connection that is still usable, or a new one.
func (c *Client) take(ctx context.Context) (*clientConn, error) {
	for {
		c.mu.Lock()
		n := len(c.idle)
		if n == 0 {
			c.mu.Unlock()
			return c.dial(ctx)
		}
		cc := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		if cc.quiet() {
			return cc, nil
		}
		cc.nc.Close()
	}
}

// probe returns a function that reports whether an idle connection is usable:
// nothing has arrived and the peer has not hung up.
func probe(nc net.Conn) (quiet func() bool) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return func() bool { return false }
	}
	raw, err := sc.SyscallConn()
	look := func(fd uintptr) { ok = polled(int(fd), unix.POLLIN|unix.POLLRDHUP) == 0 }
	return func() bool {
		ok = false
		return err == nil && raw.Control(look) == nil && ok
	}
}

func (c *Client) dial(ctx context.Context) (*clientConn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", c.Path)
	if err != nil {
		// The dial can time out before ctx says that its deadline has passed.
		if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
			return nil, c.stopped(cmp.Or(ctx.Err(), context.DeadlineExceeded))
		}
		return nil, &connectError{c.Service, err}
	}
	if err := c.checkServer(nc); err != nil {
		nc.Close()
		return nil, err
	}
	if c.Dialed != nil {
		if err := c.Dialed(nc); err != nil {
			nc.Close()
			return nil, &connectError{c.Service, err}
		}
	}
	nc = newSocket(nc)
	return &clientConn{nc: nc, in: wire.NewReader(nc), quiet: probe(nc)}, nil
}

// Bound reports whether a process has bound the service's socket, without waking it:
// connect(2) with another type of socket fails with EPROTOTYPE then, and with
// ECONNREFUSED if the process is gone.
func (c *Client) Bound() bool {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	return syscall.Connect(fd, &syscall.SockaddrUnix{Name: c.Path}) == syscall.EPROTOTYPE
}

// checkServer refuses a server that another user runs, before anything is sent to
// it. The kernel reports the user that created the socket: root for systemd, the
// caller for zino up, or the host's user for this service.
func (c *Client) checkServer(nc net.Conn) error {
	server := peer{nc: nc}
	uid, own := server.uid(), os.Geteuid()
	if c.self != nil {
		own = *c.self
	}
	if uid == own || uid == 0 {
		return nil
	}
	host := "zino-" + c.Service
	who := "?"
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		who = u.Username
	}
	if who == host {
		return nil
	}
	return &proto.Error{Code: proto.CodeDenied, Service: c.Service, Message: fmt.Sprintf(
		"the socket %s is served by uid %d (%s), not by you (uid %d), root or %s; nothing was sent. Remove it if you do not know it, or use another socket",
		c.Path, uid, who, own, host)}
}

// put returns a connection to the idle ones after its answer was read completely.
func (c *Client) put(cc *clientConn) {
	cc.out = recycle(cc.out)
	cc.kept = true
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) >= maxIdle {
		cc.nc.Close()
		return
	}
	c.idle = append(c.idle, cc)
}

// exchange is one request and its answer.
type exchange struct {
	// build appends the request's frame.
	build func([]byte) ([]byte, error)
	// packet handles one packet of the answer. done marks the last; an error before
	// it hangs up.
	packet func(in *wire.Reader, payload []byte) (done bool, err error)
}

// do carries out x. A request that the peer certainly did not read is sent once
// more, on a new connection.
func (c *Client) do(ctx context.Context, x exchange) error {
	again, err := c.try(ctx, x, c.take)
	if again {
		again, err = c.try(ctx, x, c.dial)
	}
	if again {
		return c.hungUp()
	}
	return err
}

func (c *Client) try(ctx context.Context, x exchange, connect func(context.Context) (*clientConn, error)) (again bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, c.stopped(err)
	}
	cc, err := connect(ctx)
	if err != nil {
		return false, err
	}
	if cc.out, err = x.build(buffer(cc.out)); err != nil {
		c.put(cc)
		return false, err
	}
	stop := context.AfterFunc(ctx, func() { cc.nc.Close() }) // hanging up cancels
	t := c.talk(ctx, cc, x.packet)
	switch uncanceled := stop(); {
	case t.done && uncanceled && !errors.Is(t.err, proto.ErrDenied): // the server hangs up after it
		c.put(cc)
	case !t.done && !uncanceled:
		return false, c.stopped(ctx.Err())
	default:
		cc.nc.Close()
	}
	return !t.done && !t.answered && notRead(t.err), t.err
}

// stopped returns the error of a call that was cancelled or took too long.
func (c *Client) stopped(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s did not answer in time: %w", c.Service, err)
	}
	return err
}

// hungUp returns the error of a call whose peer closed the connection.
func (c *Client) hungUp() error {
	return &hungUpError{&proto.Error{Code: proto.CodeUnavailable, Service: c.Service, Message: c.Service + " hung up before its answer was complete"}}
}

// notRead reports whether err shows that the peer closed the connection before it read
// the request: Linux returns ECONNRESET if unread data was left.
func notRead(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// talked is the progress of a try.
type talked struct {
	answered bool // a packet of the answer arrived
	done     bool // the last packet arrived
	err      error
}

// talk writes the request and reads packets up to the last.
func (c *Client) talk(ctx context.Context, cc *clientConn, packet func(*wire.Reader, []byte) (bool, error)) (t talked) {
	if cc.kept && c.kind.Load() == unknownPeer {
		if t.err = c.ask(cc, c.silence()); t.err != nil {
			return t
		}
	}
	if t.err = c.send(ctx, cc); t.err != nil {
		return t
	}
	for !t.done && t.err == nil {
		payload, err := c.receive(ctx, cc)
		if err != nil {
			t.err = c.explain(cc, err, t.answered)
			return t
		}
		t.answered = true
		if isKeepalive(payload) {
			cc.alive = true
			c.kind.Store(keepalivePeer)
		}
		t.done, t.err = packet(cc.in, payload)
	}
	return t
}

func (c *Client) send(ctx context.Context, cc *clientConn) error {
	c.allow(cc, c.silence())
	n, err := cc.nc.Write(cc.out)
	if timedOut(err) && c.mayBeSlow(ctx, cc) {
		c.allow(cc, c.slow())
		_, err = cc.nc.Write(cc.out[n:])
	}
	if err != nil && !notRead(err) {
		return c.explain(cc, err, false)
	}
	return err
}

// receive reads one packet within the idle timeout.
func (c *Client) receive(ctx context.Context, cc *clientConn) ([]byte, error) {
	if cc.in.Ready() {
		return cc.in.Next()
	}
	c.allow(cc, c.silence())
	err := cc.in.Wait()
	if timedOut(err) && c.mayBeSlow(ctx, cc) {
		c.allow(cc, c.slow())
		err = cc.in.Wait()
	}
	if err != nil {
		return nil, err
	}
	c.allow(cc, c.silence())
	return cc.in.Next()
}

// allow sets the deadline to limit from now, or a little later: it is only set
// again when it is off by more than maxMore.
func (c *Client) allow(cc *clientConn, limit time.Duration) {
	now := time.Now()
	if left := cc.until.Sub(now); left < limit || left > limit+maxMore {
		cc.until, cc.limit = now.Add(limit+min(limit/16, maxMore)), limit
		cc.nc.SetDeadline(cc.until)
	}
}

func (c *Client) silence() time.Duration { return cmp.Or(c.Silence, silenceLimit) }
func (c *Client) slow() time.Duration    { return cmp.Or(c.Slow, slowLimit) }

// mayBeSlow reports whether a peer that was silent for the idle timeout sends no
// keepalives. It asks on a new connection, since another program may serve the
// socket by now. Without an answer, the last known kind decides.
func (c *Client) mayBeSlow(ctx context.Context, cc *clientConn) bool {
	if cc.alive {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.pong, pongLimit))
	defer cancel()
	if asked, err := c.dial(ctx); err == nil {
		defer context.AfterFunc(ctx, func() { asked.nc.Close() })()
		c.ask(asked, pongLimit) // without an answer, kind stays
		asked.nc.Close()
	}
	return c.kind.Load() != keepalivePeer
}

// isKeepalive reports whether a payload is a keepalive in any JSON form. For a chunk it
// costs one search.
func isKeepalive(payload []byte) bool {
	if len(payload) > 256 || !bytes.Contains(payload, []byte(`"keepalive"`)) {
		return false
	}
	typ, err := wire.ReplyType(payload)
	return err == nil && typ == "keepalive"
}

var pingFrame, _ = wire.AppendFrame(nil, []byte(`{"type":"ping"}`)) // cannot fail: it is small

// ask sends a ping and records whether the peer sends keepalives: its pong has the
// contract's number then. If the peer closes the connection instead, the error is
// EPIPE: no request was sent on it.
func (c *Client) ask(cc *clientConn, limit time.Duration) error {
	c.allow(cc, limit)
	_, err := cc.nc.Write(pingFrame)
	var payload []byte
	if err == nil {
		payload, err = cc.in.Next()
	}
	var pong proto.Pong
	switch {
	case timedOut(err):
		return c.explain(cc, err, false)
	case err != nil:
		c.kind.CompareAndSwap(unknownPeer, slowPeer)
		return syscall.EPIPE
	case wire.DecodeReply(payload, &pong) != nil:
		pong.Proto = 0
	}
	c.learn(pong)
	return nil
}

// learn records whether the peer that sent pong sends keepalives.
func (c *Client) learn(pong proto.Pong) {
	if pong.Proto > 0 {
		c.kind.Store(keepalivePeer)
	} else {
		c.kind.Store(slowPeer)
	}
}

// explain returns the error of a connection that ends before the answer does.
func (c *Client) explain(cc *clientConn, err error, answered bool) error {
	switch {
	case timedOut(err):
		return &proto.Error{
			Code: proto.CodeTimeout, Service: c.Service,
			Message: fmt.Sprintf("%s said nothing for %v", c.Service, cc.limit),
		}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), answered && notRead(err):
		return c.hungUp()
	case notRead(err):
		return err
	}
	return fmt.Errorf("%s: %w", c.Service, err)
}
