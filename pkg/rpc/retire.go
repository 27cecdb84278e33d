package rpc

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// KeepWhile has Retire wait for as long as fn reports that the service has
// something to do which is no request. Register it before Serve.
func (s *Server) KeepWhile(fn func() bool) { s.keepWhile = append(s.keepWhile, fn) }

// past is a deadline that is over.
var past = time.Unix(1, 0)

// Retire ends the accepting of connections if the service was not used for
// limit: no connection came, and no request was worked on. Connections that
// are kept for later do not count, nor does what this process asks itself.
//
// It returns 0 if the server accepts no more: Shutdown is next. Otherwise it
// goes on as before and returns how long it can be before another attempt is
// worth it. It is for sockets that somebody else holds open as well: a
// connection that comes from now on waits for the next process.
func (s *Server) Retire(limit time.Duration) (wait time.Duration) {
	if wait := s.untilIdle(limit); wait > 0 {
		return wait
	}
	// Whoever has been accepted before the gate closes is seen by the second
	// look; whoever is not stays in the kernel's queue.
	stopped := s.acceptUntil(past)
	s.gate.Lock()
	defer s.gate.Unlock()
	if wait := s.untilIdle(limit); !stopped || wait > 0 || !s.queuesEmpty() {
		s.acceptUntil(time.Time{})
		return max(wait, limit/2)
	}
	s.draining.Store(true)
	return 0
}

// acceptUntil has the listeners accept until then, the zero time for ever. Where
// Shutdown has begun they accept no more, whatever is asked for.
func (s *Server) acceptUntil(then time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopping {
		s.until = then
	}
	return s.eachListener(func(l retirable) bool { return l.SetDeadline(s.until) == nil })
}

// queuesEmpty reports whether nobody waits to be accepted.
func (s *Server) queuesEmpty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.eachListener(nobodyWaits)
}

// retirable is a listener that can be looked at without accepting.
type retirable interface {
	net.Listener
	syscall.Conn
	SetDeadline(time.Time) error
}

// eachListener calls fn for the listeners and reports whether there are any and
// fn was true for all. The caller holds s.mu.
func (s *Server) eachListener(fn func(retirable) bool) bool {
	all := len(s.listeners) > 0
	for l := range s.listeners {
		r, ok := l.(retirable)
		all = ok && fn(r) && all
	}
	return all
}

// nobodyWaits reports whether the queue of l is empty.
func nobodyWaits(l retirable) bool {
	empty := false
	raw, err := l.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { empty = polled(int(fd), unix.POLLIN) == 0 })
	}
	return err == nil && empty
}

// untilIdle is how long it is at least until the service has not been used for
// limit; 0 or less: it has not been.
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

// used notes that the service was used just now.
func (c *conn) used() {
	if !c.own {
		c.s.used.Store(int64(time.Since(c.s.started)))
	}
}

// working reports whether a request of somebody else's has begun.
func (c *conn) working() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy && !c.own
}
