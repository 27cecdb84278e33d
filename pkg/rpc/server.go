// Package rpc answers and makes requests over Unix sockets: one packet in, the
// packets of its answer out, and nothing else on that connection meanwhile. A
// connection is the request in flight, and closing it cancels the work behind
// it through every hop. Concurrency in Zino lives here.
package rpc

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"zino/pkg/wire"
	"zino/proto"
)

// handler answers one request whose payload has been read. It sends the
// terminal packet itself unless it returns an error.
type handler func(ctx context.Context, payload []byte, out *Out) error

// Server answers the requests of one service on any number of listeners.
type Server struct {
	service  string
	log      *slog.Logger
	handlers map[string]handler
	onStats  []func(*proto.Stats)
	started  time.Time
	pong     []byte

	stall     time.Duration // limit for the arrival of a frame that has begun
	half      time.Duration // the same while draining
	fresh     time.Duration // for the first request of a connection while draining
	keepalive time.Duration // between two keepalives

	ctx       context.Context // of all requests; cancelled when draining takes too long
	cancel    context.CancelFunc
	draining  atomic.Bool
	drainOnce sync.Once
	drained   chan struct{} // closed when draining begins

	occupancy occupancy
	frames    frames

	callers   *Callers // nil: everybody
	refusals  refusals
	pid       int          // our own process: what it asks itself is no use of the service
	used      atomic.Int64 // when the service was last used, in nanoseconds after started
	keepWhile []func() bool
	gate      sync.RWMutex // held for reading while a connection is accepted

	before     []func(context.Context)
	finishOnce sync.Once
	keptOpen   bool

	mu        sync.Mutex
	until     time.Time // when the accepting ends; zero: never
	stopping  bool      // it has ended for good
	listeners map[net.Listener]bool
	conns     map[*conn]bool
	wg        sync.WaitGroup

	requests, failures, inFlight atomic.Int64
}

// NewServer returns a server for the service of that short name, which answers
// ping, describe and stats.
func NewServer(service string, log *slog.Logger) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		service: service, log: log, handlers: map[string]handler{}, started: time.Now(),
		pong: wire.PongHead(service, Build, proto.Version), ctx: ctx, cancel: cancel,
		stall: stallLimit, half: halfLimit, fresh: freshLimit, keepalive: keepaliveEvery,
		occupancy: defaultOccupancy, frames: frames{uids: map[int]int{}},
		listeners: map[net.Listener]bool{}, conns: map[*conn]bool{},
		drained: make(chan struct{}), pid: os.Getpid(), refusals: refusals{now: time.Now},
	}
	handleCommon(s)
	return s
}

// Serve accepts connections on l until Shutdown. The error is nil after it.
func (s *Server) Serve(l net.Listener) error {
	if !s.track(l) {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
	for {
		err := s.accept(l)
		switch {
		case err == nil:
		case s.draining.Load():
			return nil
		case timedOut(err): // Retire looked and went on
		case temporary(err):
			s.log.Warn("accept failed, trying again", "error", err)
			s.pause(100 * time.Millisecond)
		default:
			return err
		}
	}
}

// accept takes one connection. Whoever closes the gate waits for its end, so
// that whatever was accepted is also known.
func (s *Server) accept(l net.Listener) error {
	if _, ok := l.(retirable); ok {
		s.gate.RLock()
		defer s.gate.RUnlock()
	}
	if s.draining.Load() {
		return net.ErrClosed
	}
	nc, err := l.Accept()
	if err == nil {
		s.start(nc)
	}
	return err
}

// temporary reports an error that passes, such as too many open files.
func temporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

func (s *Server) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
	}
}

func (s *Server) track(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners[l] = true
	if r, ok := l.(retirable); ok && !s.until.IsZero() {
		r.SetDeadline(s.until) // an error is one of Accept's, too
	}
	return !s.draining.Load()
}

func (s *Server) start(nc net.Conn) {
	c := newConn(s, nc)
	admitted := s.admits(&c.peer)
	if c.fresh = admitted; admitted {
		c.used()
	}
	if !s.enlist(c) {
		nc.Close() // nothing of a request has been read: its caller sends it again
		return
	}
	go func() {
		defer s.wg.Done()
		if admitted {
			c.serve()
		} else {
			s.turnAway(c)
		}
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
}

// enlist adds a connection to those that Shutdown waits for, unless that has
// begun to wait.
func (s *Server) enlist(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		return false
	}
	s.shed(c.peer.uid())
	s.conns[c] = true
	s.wg.Add(1)
	return true
}

// Shutdown does what comes before it, stops accepting, lets the requests in
// flight finish until ctx is done, then cancels them, and returns when all have
// ended.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopAccepting(ctx)
	s.drainOnce.Do(func() { close(s.drained) })
	s.closeListeners()
	s.mu.Lock()
	for c := range s.conns {
		c.wake()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.cancel()
	return s.abandon(done)
}

// stopAccepting has no connection accepted any more. Those that were are known
// when it returns; the others stay in the kernel's queue, for the next process
// if somebody holds the socket open. Then they do so already while the service
// finishes what it has begun.
func (s *Server) stopAccepting(ctx context.Context) {
	if !s.keptOpen {
		s.finish(ctx)
	}
	s.mu.Lock()
	s.stopping, s.until = true, past
	s.mu.Unlock()
	s.acceptUntil(past)
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.keptOpen {
		s.finish(ctx)
	}
	s.draining.Store(true)
}

// Draining is closed when Shutdown begins. A handler that only waits for its
// caller to hang up ends then: nothing is worked on that a drain should wait
// for.
func (s *Server) Draining() <-chan struct{} { return s.drained }

// abandon gives cancelled requests a moment to answer, then hangs up.
func (s *Server) abandon(done <-chan struct{}) error {
	select {
	case <-done:
	case <-time.After(2 * time.Second):
		s.mu.Lock()
		for c := range s.conns {
			c.nc.Close()
		}
		s.mu.Unlock()
		<-done
	}
	return context.DeadlineExceeded
}

func (s *Server) closeListeners() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.log.Warn("cannot close a listener", "error", err)
		}
	}
}
