package rpc

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"zino/pkg/wire"
	"zino/proto"
)

// Callers are those who may call a service. Who somebody is says the kernel
// (SO_PEERCRED): the user and the groups of the process when it connected.
type Callers struct {
	UIDs []int  // users
	GIDs []int  // groups whose members may call
	Text string // who they are, for people: "root, zino-daemon, group zino"
}

const (
	refusalLinger = 5 * time.Second // for a caller that was refused to take its answer
	refusalsMax   = 32              // that may take so long at a time
	refusalEvery  = time.Minute     // between two lines of the log about them
	overflowUID   = 65534           // what the kernel shows in place of a user whom a namespace does not know
)

// Only has the server answer nobody but those. Anyone else gets one error with
// the code denied, whatever they ask, and is hung up on. Call it before Serve;
// without it everybody is answered who can connect.
func (s *Server) Only(callers Callers) { s.callers = &callers }

// admits reports whether a peer is among the callers.
func (s *Server) admits(p *peer) bool {
	switch {
	case s.callers == nil, slices.Contains(s.callers.UIDs, p.uid()):
		return true
	case len(s.callers.GIDs) == 0:
		return false
	}
	return slices.Contains(s.callers.GIDs, p.gid()) || slices.ContainsFunc(p.groups(), func(gid uint32) bool {
		return slices.Contains(s.callers.GIDs, int(gid))
	})
}

// refusals keeps the log, and the descriptors, from being flooded by callers
// that are refused.
type refusals struct {
	now  func() time.Time
	open atomic.Int32 // connections that were refused and are still open

	mu     sync.Mutex
	logged time.Time // when the last line was written
	silent int       // refusals since then
}

// turnAway answers a peer who may not call, and hangs up.
func (s *Server) turnAway(c *conn) {
	defer c.nc.Close()
	s.failures.Add(1)
	e := s.denied(c)
	s.refusals.log(s, c, e)
	c.nc.SetDeadline(time.Now().Add(refusalLinger))
	out := &Out{nc: c.nc, ctx: s.ctx}
	if out.end("error", e) == nil { // else it is gone already
		s.linger(c.nc)
	}
}

// linger gives a caller that was refused time to read the answer.
func (s *Server) linger(nc net.Conn) {
	defer s.refusals.open.Add(-1)
	if s.refusals.open.Add(1) <= refusalsMax && !s.draining.Load() {
		nc.SetDeadline(time.Now().Add(refusalLinger))
		drainPeer(nc)
	}
}

// drainPeer reads what the peer still sends: if it were left unread, or the
// connection closed at once, a peer that is still writing its request would
// find an error in the place of its answer.
func drainPeer(nc net.Conn) {
	if half, ok := nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		io.Copy(io.Discard, io.LimitReader(nc, wire.MaxPayload)) // it has its answer, whatever the end
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

// log writes a line about a refusal, unless there was one just now.
func (r *refusals) log(s *Server, c *conn, e *proto.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if r.silent++; !r.logged.IsZero() && now.Sub(r.logged) < refusalEvery {
		return
	}
	s.log.Warn("caller refused", "error", e.Message, "uid", c.peer.uid(), "pid", c.peer.pid(), "refused", r.silent)
	r.logged, r.silent = now, 0
}
