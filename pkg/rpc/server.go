package rpc

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/wire"
	"zino/proto"
)

// past is a deadline that is over.
var past = time.Unix(1, 0)

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
	lifetime string // see SetLifetime
	pong     []byte

	stall     time.Duration // see stallLimit
	half      time.Duration // see halfLimit
	fresh     time.Duration // see freshLimit
	keepalive time.Duration // between two keepalives

	ctx       context.Context // of all requests; cancelled when draining takes too long
	cancel    context.CancelFunc
	draining  atomic.Bool
	drainOnce sync.Once
	drained   chan struct{} // closed when draining begins

	occupancy occupancy
	frames    frames

	callers   *Callers // nil: no restriction
	refusals  refusals
	pid       int          // this process: its own requests do not count as use of the service
	used      atomic.Int64 // when the service was last used, in nanoseconds after started
	keepWhile []func() bool
	gate      sync.RWMutex // read-locked while a connection is accepted

	before     []func(context.Context)
	finishOnce sync.Once
	keptOpen   bool

	mu        sync.Mutex
	until     time.Time // when accepting ends; zero: never
	stopping  bool      // accepting has ended for good
	listeners map[net.Listener]bool
	conns     map[*conn]bool
	wg        sync.WaitGroup

	requests, failures, inFlight atomic.Int64
}

// NewServer returns a server for a service by its short name. It answers ping,
// describe and stats.
func NewServer(service string, log *slog.Logger) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		service: service, log: log, handlers: map[string]handler{}, started: time.Now(),
		pong: wire.PongHead(service, Build, proto.Version, ""), ctx: ctx, cancel: cancel,
		stall: stallLimit, half: halfLimit, fresh: freshLimit, keepalive: keepaliveEvery,
		occupancy: defaultOccupancy, frames: frames{uids: map[int]int{}},
		listeners: map[net.Listener]bool{}, conns: map[*conn]bool{},
		drained: make(chan struct{}), pid: os.Getpid(), refusals: refusals{now: time.Now},
	}
	Handle(s, proto.Ping, s.ping)
	Handle(s, proto.Describe, s.describe)
	Handle(s, proto.GetStats, s.stats)
	return s
}

// Serve accepts connections on l until Shutdown. The error is nil after it.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	s.listeners[l] = true
	if r, ok := l.(retirable); ok && !s.until.IsZero() {
		r.SetDeadline(s.until) // Accept returns the same error, if there is one
	}
	s.mu.Unlock()
	if s.draining.Load() {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
	for {
		err := s.accept(l)
		var temporary interface{ Temporary() bool } // such as too many open files
		switch {
		case err == nil:
		case s.draining.Load():
			return nil
		case timedOut(err): // deadline set by Retire, which did not stop the server
		case errors.As(err, &temporary) && temporary.Temporary():
			s.log.Warn("accept failed, trying again", "error", err)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-s.ctx.Done():
			}
		default:
			return err
		}
	}
}

// accept accepts one connection and starts to serve it. It locks the gate for reading,
// so that after gate.Lock every accepted connection is in s.conns.
func (s *Server) accept(l net.Listener) error {
	if _, ok := l.(retirable); ok {
		s.gate.RLock()
		defer s.gate.RUnlock()
	}
	if s.draining.Load() {
		return net.ErrClosed
	}
	nc, err := l.Accept()
	if err != nil {
		return err
	}
	c := newConn(s, nc)
	admitted, methods := s.admits(&c.peer)
	if c.methods = methods; admitted {
		c.used()
	} else {
		c.state = stateIdle
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		nc.Close() // nothing of a request has been read: its client sends it again
		return nil
	}
	s.shed(c.peer.uid())
	s.conns[c] = true
	s.wg.Go(func() {
		if admitted {
			c.serve()
		} else {
			s.turnAway(c)
		}
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	})
	return nil
}

// BeforeShutdown registers fn to be called first by Shutdown, with its ctx. Until
// fn returns, requests are answered as before, since the work that it finishes
// may depend on them; so are new connections, unless they are KeptOpen. Register
// it before Serve.
func (s *Server) BeforeShutdown(fn func(context.Context)) { s.before = append(s.before, fn) }

// KeptOpen declares that another process has the listeners open, too: clients
// that connect once Shutdown has begun wait for the next process.
func (s *Server) KeptOpen() { s.keptOpen = true }

// SetLifetime sets the lifetime in the answer to ping: proto.LifetimePrivate or
// proto.LifetimePersistent. Call it before Serve.
func (s *Server) SetLifetime(lifetime string) {
	s.lifetime = lifetime
	s.pong = wire.PongHead(s.service, Build, proto.Version, lifetime)
}

// Draining returns a channel that is closed when Shutdown begins. Handlers that only
// wait for their caller to hang up must return then: the drain waits for them.
func (s *Server) Draining() <-chan struct{} { return s.drained }

// Shutdown calls the functions of BeforeShutdown, stops accepting, lets the
// requests in flight finish until ctx is done, then cancels them, and returns
// when all have ended.
func (s *Server) Shutdown(ctx context.Context) error {
	finish := func() {
		s.finishOnce.Do(func() {
			for _, fn := range s.before {
				fn(ctx)
			}
		})
	}
	if !s.keptOpen {
		finish()
	}
	s.mu.Lock()
	s.stopping, s.until = true, past
	s.mu.Unlock()
	s.acceptUntil(past)
	s.gate.Lock() // all accepted connections are known now, the others stay in the kernel's queue
	if s.keptOpen {
		finish()
	}
	s.draining.Store(true)
	s.gate.Unlock()
	s.drainOnce.Do(func() { close(s.drained) })
	s.mu.Lock()
	for l := range s.listeners {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.log.Warn("cannot close a listener", "error", err)
		}
	}
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
	select { // a moment to answer, then hang up
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

// KeepWhile makes Retire wait while fn reports that the service has work that is
// not a request. Register it before Serve.
func (s *Server) KeepWhile(fn func() bool) { s.keepWhile = append(s.keepWhile, fn) }

// Retire stops accepting if the service was not used for limit: no connection
// was accepted and no request worked on. Idle connections do not count, nor do
// requests of this process itself.
//
// It returns 0 if the server accepts no more: Shutdown is next. Otherwise the
// server runs on, and Retire returns how long to wait before the next attempt. It
// is for sockets that another process has open as well: a connection that comes
// from now on waits for the next process.
func (s *Server) Retire(limit time.Duration) (wait time.Duration) {
	if wait := s.untilIdle(limit); wait > 0 {
		return wait
	}
	// Check again for connections accepted before the gate was locked. Later ones
	// are in the kernel's queue.
	stopped := s.acceptUntil(past)
	s.gate.Lock()
	defer s.gate.Unlock()
	s.mu.Lock()
	empty := s.eachListener(queueEmpty)
	s.mu.Unlock()
	if wait := s.untilIdle(limit); !stopped || wait > 0 || !empty {
		s.acceptUntil(time.Time{})
		return max(wait, limit/2)
	}
	s.draining.Store(true)
	return 0
}

// acceptUntil sets the deadline of the listeners; the zero time removes it. After
// Shutdown has begun, it stays in the past.
func (s *Server) acceptUntil(then time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopping {
		s.until = then
	}
	return s.eachListener(func(l retirable) bool { return l.SetDeadline(s.until) == nil })
}

// retirable is a listener whose queue can be examined without accepting.
type retirable interface {
	net.Listener
	syscall.Conn
	SetDeadline(time.Time) error
}

// eachListener calls fn for the listeners and reports whether there are any and
// fn was true for all. s.mu is locked.
func (s *Server) eachListener(fn func(retirable) bool) bool {
	all := len(s.listeners) > 0
	for l := range s.listeners {
		r, ok := l.(retirable)
		all = ok && fn(r) && all
	}
	return all
}

// queueEmpty reports whether no connection waits to be accepted.
func queueEmpty(l retirable) bool {
	empty := false
	raw, err := l.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { empty = polled(int(fd), unix.POLLIN) == 0 })
	}
	return err == nil && empty
}

// untilIdle returns how long it takes at least until the service has not been
// used for limit; 0 or less if that is so now.
func (s *Server) untilIdle(limit time.Duration) time.Duration {
	for _, working := range s.keepWhile {
		if working() {
			return limit
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.working() {
			return limit
		}
	}
	return limit - (time.Since(s.started) - time.Duration(s.used.Load()))
}

// OnStats registers fn to add to the answer to stats, for example problems.
func (s *Server) OnStats(fn func(*proto.Stats)) { s.onStats = append(s.onStats, fn) }

// ping answers pings with more fields than the type; conn.answer handles the others.
func (s *Server) ping(context.Context, proto.PingRequest) (proto.Pong, error) {
	return proto.Pong{Service: s.service, Version: Build, Proto: proto.Version, Lifetime: s.lifetime, UptimeS: s.uptime()}, nil
}

func (s *Server) describe(context.Context, proto.DescribeRequest) (proto.Description, error) {
	return DescriptionOf(s.service)
}

// DescriptionOf returns the answer to describe of the service of that name. It decodes
// that service's part of the schema only and keeps nothing: all of it takes 0.4 MB.
func DescriptionOf(service string) (proto.Description, error) {
	for part := range wire.Items(proto.Schema) {
		for key, value := range wire.Members(part) {
			if string(key) != "service" {
				continue
			}
			if string(value) != `"`+service+`"` {
				break
			}
			var d proto.Description
			err := wire.DecodeReply(part, &d)
			return d, err
		}
	}
	return proto.Description{Service: service, Proto: proto.Version, Methods: []proto.MethodDescription{}}, nil
}

func (s *Server) stats(context.Context, proto.StatsRequest) (proto.Stats, error) {
	s.mu.Lock()
	connections := int64(len(s.conns))
	s.mu.Unlock()
	// runtime/metrics has the size of the heap without a pause, but costs every
	// program 0.1 ms at its start, and stats are rare.
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	stats := proto.Stats{
		Service: s.service, UptimeS: s.uptime(), Requests: s.requests.Load(), Errors: s.failures.Load(),
		InFlight: s.inFlight.Load() - 1, Connections: connections, HeapBytes: int64(m.HeapAlloc), Goroutines: int64(runtime.NumGoroutine()), Problems: []string{},
	}
	for _, fn := range s.onStats {
		fn(&stats)
	}
	return stats, nil
}

func (s *Server) uptime() int64 { return int64(time.Since(s.started) / time.Second) }
