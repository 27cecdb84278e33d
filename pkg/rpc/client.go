package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/wire"
	"zino/proto"
)

// silenceLimit is how long a peer may say nothing while it owes an answer.
const silenceLimit = 30 * time.Second

// maxMore is how much more a peer is given at most.
const maxMore = 500 * time.Millisecond

// maxIdle is how many connections a client keeps for later.
const maxIdle = 4

// Client calls one service. Its fields are set before use and not changed
// thereafter; it is safe for concurrent use. Each request has a connection of
// its own while it runs, and quiet ones are kept for the next.
type Client struct {
	Service string        // the service's short name, for errors
	Path    string        // its socket
	Silence time.Duration // limit of silence; zero: 30 s

	mu     sync.Mutex
	idle   []*clientConn
	closed bool
}

// clientConn is a connection with what is needed to use it again.
type clientConn struct {
	nc    net.Conn
	in    *wire.Reader
	out   []byte
	quiet func() bool // nothing has arrived and the peer has not hung up
	until time.Time   // the deadline of reads and writes
}

// Close closes the connections that are kept.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cc := range c.idle {
		cc.nc.Close()
	}
	c.idle, c.closed = nil, true
}

// take returns a kept connection that is still good, or a new one.
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

// probe returns a function that looks whether nothing happened on a kept
// connection: one on which anything did is of no use.
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
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &connectError{c.Service, err}
	}
	return &clientConn{nc: nc, in: wire.NewReader(nc), quiet: probe(nc)}, nil
}

// put keeps a connection whose answer was read to the end.
func (c *Client) put(cc *clientConn) {
	if cap(cc.out) > 2*coalesce {
		cc.out = nil
	}
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
	// packet takes the packets of the answer one by one. done says that it was
	// the last; an error before that hangs up.
	packet func(in *wire.Reader, payload []byte) (done bool, err error)
}

// do carries out x. A request that the peer certainly did not take is sent
// once more, on a new connection.
func (c *Client) do(ctx context.Context, x exchange) error {
	again, err := c.try(ctx, x)
	if again {
		_, err = c.try(ctx, x)
	}
	return err
}

func (c *Client) try(ctx context.Context, x exchange) (again bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, c.stopped(err)
	}
	cc, err := c.take(ctx)
	if err != nil {
		return false, err
	}
	if cc.out, err = x.build(cc.out[:0]); err != nil {
		c.put(cc)
		return false, err
	}
	stop := context.AfterFunc(ctx, func() { cc.nc.Close() }) // hanging up is how one cancels
	t := c.talk(cc, x.packet)
	switch uncanceled := stop(); {
	case t.done && uncanceled && !errors.Is(t.err, proto.ErrDenied): // who is denied is hung up on
		c.put(cc)
	case !t.done && !uncanceled:
		return false, c.stopped(ctx.Err())
	default:
		cc.nc.Close()
	}
	return !t.done && !t.answered && notTaken(t.err), t.err
}

// stopped words the end of a call that was cancelled or took too long.
func (c *Client) stopped(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s did not answer in time: %w", c.Service, err)
	}
	return err
}

// notTaken reports an error that says the peer closed before it read anything.
func notTaken(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// talked says how far a try came.
type talked struct {
	answered bool // a packet of the answer arrived
	done     bool // the last one did
	err      error
}

// talk writes the request and reads packets up to the last.
func (c *Client) talk(cc *clientConn, packet func(*wire.Reader, []byte) (bool, error)) (t talked) {
	if t.err = c.send(cc); t.err != nil {
		return t
	}
	for !t.done && t.err == nil {
		payload, err := c.receive(cc)
		if err != nil {
			t.err = c.explain(err, t.answered)
			return t
		}
		t.answered = true
		t.done, t.err = packet(cc.in, payload)
	}
	return t
}

func (c *Client) send(cc *clientConn) error {
	c.allow(cc)
	_, err := cc.nc.Write(cc.out)
	if err != nil && !notTaken(err) {
		return c.explain(err, false)
	}
	return err
}

// receive reads one packet, waiting for at most the limit of silence.
func (c *Client) receive(cc *clientConn) ([]byte, error) {
	if !cc.in.Ready() {
		c.allow(cc)
	}
	return cc.in.Next()
}

// allow gives the peer the limit of silence from now on, or a little more: a
// deadline is set anew only when it has come that much closer.
func (c *Client) allow(cc *clientConn) {
	limit, now := c.silence(), time.Now()
	if cc.until.Sub(now) < limit {
		cc.until = now.Add(limit + min(limit/16, maxMore))
		cc.nc.SetDeadline(cc.until)
	}
}

func (c *Client) silence() time.Duration {
	if c.Silence > 0 {
		return c.Silence
	}
	return silenceLimit
}

// explain words the ways in which a connection ends before the answer does.
func (c *Client) explain(err error, answered bool) error {
	switch {
	case timedOut(err):
		return &proto.Error{
			Code: proto.CodeTimeout, Service: c.Service,
			Message: fmt.Sprintf("%s said nothing for %v", c.Service, c.silence()),
		}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), answered && notTaken(err):
		return &proto.Error{
			Code: proto.CodeUnavailable, Service: c.Service,
			Message: c.Service + " hung up before its answer was complete",
		}
	case notTaken(err):
		return err
	}
	return fmt.Errorf("%s: %w", c.Service, err)
}
