package rpc

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"zino/pkg/heap"
	"zino/pkg/wire"
	"zino/proto"
)

// Callers are the users that may call a service, as the kernel reports them
// (SO_PEERCRED): the user and the groups of the process when it connected.
type Callers struct {
	UIDs    []int            // users
	GIDs    []int            // groups whose members may call
	Methods map[int][]string // users that may call these methods only
	// GroupMethods are groups whose members may call these methods only.
	GroupMethods map[int][]string
	Text         string // all of them, for people: "root, zino-daemon, group zino, zino-mem (embed)"
}

const (
	refusalLinger = 5 * time.Second // for a refused caller to read its answer
	refusalsMax   = 32              // refused connections that linger at a time
	refusalEvery  = time.Minute     // between two log lines about refused callers
	overflowUID   = 65534           // the kernel's uid for users that the namespace does not map
)

// Only restricts who may call. Any other peer gets one error with the code denied
// for any request, and the connection is closed. Call it before Serve; without
// it, every peer that can connect may call.
func (s *Server) Only(callers Callers) { s.callers = &callers }

// admits reports whether a peer is among the callers, and the methods that it may
// call; nil: all.
func (s *Server) admits(p *peer) (ok bool, methods []string) {
	if s.callers == nil || slices.Contains(s.callers.UIDs, p.uid()) {
		return true, nil
	}
	if len(s.callers.GIDs) > 0 && (slices.Contains(s.callers.GIDs, p.gid()) || slices.ContainsFunc(p.groups(), func(gid uint32) bool {
		return slices.Contains(s.callers.GIDs, int(gid))
	})) {
		return true, nil
	}
	if methods, ok = s.callers.Methods[p.uid()]; ok {
		return true, methods
	}
	for gid, list := range s.callers.GroupMethods {
		if gid == p.gid() || slices.ContainsFunc(p.groups(), func(g uint32) bool { return int(g) == gid }) {
			methods = append(methods, list...)
		}
	}
	return methods != nil, methods
}

// refusals bounds the log lines and descriptors that refused callers cost.
type refusals struct {
	now  func() time.Time
	open atomic.Int32 // refused connections that are still open

	mu      sync.Mutex
	logged  time.Time // when the last line was written
	skipped int       // refusals since then
}

// turnAway answers a peer that may not call with an error, and hangs up.
func (s *Server) turnAway(c *conn) {
	defer c.nc.Close()
	s.failures.Add(1)
	e := s.denied(c)
	s.refusals.log(s, c, e)
	c.nc.SetDeadline(time.Now().Add(refusalLinger))
	out := &Out{nc: c.nc, ctx: s.ctx}
	if out.end("error", e) == nil {
		s.linger(c.nc)
	}
}

// linger gives a refused caller time to read the answer: unread data of its
// request, or an early close, would make it fail with ECONNRESET instead.
func (s *Server) linger(nc net.Conn) {
	defer s.refusals.open.Add(-1)
	if s.refusals.open.Add(1) <= refusalsMax && !s.draining.Load() {
		nc.SetDeadline(time.Now().Add(refusalLinger))
		if half, ok := nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			io.Copy(io.Discard, io.LimitReader(nc, wire.MaxPayload)) // ends with the peer or the deadline
		}
	}
}

func (s *Server) denied(c *conn) *proto.Error {
	uid, who := c.peer.uid(), ""
	switch uid {
	case -1:
		who = " (the kernel does not say who it is)"
	case overflowUID:
		who = " (nobody, or a user whom this service cannot see: PrivateUsers=yes in its unit hides them)"
	}
	return &proto.Error{
		Code: proto.CodeDenied, Service: s.service,
		Message: fmt.Sprintf("uid %d%s may not call %s on %s. Those who may: %s", uid, who, s.service, c.nc.LocalAddr(), s.callers.Text),
	}
}

// deniedMethod returns the error for a method that the peer may not call, nil if it
// may.
func (c *conn) deniedMethod(typ string) *proto.Error {
	if c.methods == nil || slices.Contains(c.methods, typ) {
		return nil
	}
	return proto.Errorf(proto.CodeDenied, "uid %d may call only %s of %s on %s", c.peer.uid(), strings.Join(c.methods, ", "), c.s.service, c.nc.LocalAddr())
}

// log writes a line about a refusal, once a minute at most.
func (r *refusals) log(s *Server, c *conn, e *proto.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if r.skipped++; !r.logged.IsZero() && now.Sub(r.logged) < refusalEvery {
		return
	}
	s.log.Warn("caller refused", "error", e.Message, "uid", c.peer.uid(), "pid", c.peer.pid(), "refused", r.skipped)
	r.logged, r.skipped = now, 0
}

// occupancy limits the resources of connections that have no request in flight.
// Ordinary clients stay far below: a frame is incomplete for some milliseconds,
// and a client keeps four idle connections at most.
type occupancy struct {
	uidBytes, allBytes int // of incomplete frames: of one user, of all
	uidIdle, allIdle   int // connections without a request: of one user, of all
}

var defaultOccupancy = occupancy{uidBytes: 64 << 20, allBytes: 192 << 20, uidIdle: 256, allIdle: 1024}

const (
	freeBytes = 32 << 20        // of frames that are freed, after which memory is returned to the system
	freeDelay = 2 * time.Second // for the garbage of a burst to accumulate
)

// frames counts the bytes of incomplete frames.
type frames struct {
	mu    sync.Mutex
	uids  map[int]int
	all   int
	freed int // since memory was returned to the system
}

// reserve counts total bytes for the frame that c is reading, or refuses it.
func (c *conn) reserve(total int) error {
	f, uid, more := &c.s.frames, c.peer.uid(), total-c.reserved
	f.mu.Lock()
	defer f.mu.Unlock()
	full := f.all+more > c.s.occupancy.allBytes
	if !full && f.uids[uid]+more <= c.s.occupancy.uidBytes {
		f.uids[uid] += more
		f.all += more
		c.reserved = total
		return nil
	}
	whose := fmt.Sprintf("uid %d has", uid)
	if full {
		whose = "there are"
	}
	return &proto.Error{
		Code: proto.CodeBusy, Service: c.s.service,
		Message: fmt.Sprintf("Request refused: %s %d MiB of requests that are not complete. Try again later.", whose, c.s.occupancy.uidBytes>>20),
	}
}

// unreserve ends the reservation: the frame is complete or abandoned.
func (c *conn) unreserve() {
	if c.reserved == 0 {
		return
	}
	f, uid := &c.s.frames, c.peer.uid()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all -= c.reserved
	if f.uids[uid] -= c.reserved; f.uids[uid] == 0 {
		delete(f.uids, uid)
	}
	before := f.freed
	f.freed += c.reserved
	c.reserved = 0
	if before < freeBytes && f.freed >= freeBytes {
		// Otherwise the runtime keeps the memory of a burst for minutes if nothing
		// else is allocated.
		time.AfterFunc(freeDelay, func() {
			f.mu.Lock()
			f.freed = 0
			f.mu.Unlock()
			heap.Release()
		})
	}
}

// shed closes the oldest idle connection if a limit is reached, to make room for
// a new one of uid. The client of a closed one connects again. s.mu is locked.
func (s *Server) shed(uid int) {
	limit := &s.occupancy
	if len(s.conns) < min(limit.uidIdle, limit.allIdle) {
		return
	}
	type idle struct {
		*conn
		since time.Duration
	}
	var all, own []idle
	for c := range s.conns {
		since, ok := c.idle()
		if !ok {
			continue
		}
		all = append(all, idle{c, since})
		if c.peer.uid() == uid {
			own = append(own, idle{c, since})
		}
	}
	older := func(a, b idle) int { return cmp.Compare(a.since, b.since) }
	switch {
	case len(own) >= limit.uidIdle:
		slices.MinFunc(own, older).end()
	case len(all) >= limit.allIdle:
		slices.MinFunc(all, older).end()
	}
}
