package rpc

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"zino/proto"
)

// occupancy limits what connections may occupy while they have no request in
// flight. Programs that send requests do not come near: a frame is unfinished
// for some milliseconds, and a client keeps four idle connections at most.
type occupancy struct {
	uidBytes, allBytes int // of unfinished frames: of one user, of all
	uidIdle, allIdle   int // connections without a request: of one user, of all
}

var defaultOccupancy = occupancy{uidBytes: 64 << 20, allBytes: 192 << 20, uidIdle: 256, allIdle: 1024}

const (
	freeBytes = 32 << 20        // of frames that are let go, after which memory is given back
	freeDelay = 2 * time.Second // for the garbage of a burst to come together
)

// frames counts the bytes of the frames that are unfinished.
type frames struct {
	mu    sync.Mutex
	uids  map[int]int
	all   int
	freed int // since memory was given back to the system
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

// unreserve ends the reservation: the frame is complete or given up.
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
		time.AfterFunc(freeDelay, f.giveBack)
	}
}

// giveBack returns the memory of frames to the system. Without it the runtime
// keeps the memory of a burst for minutes where nothing else is allocated.
func (f *frames) giveBack() {
	f.mu.Lock()
	f.freed = 0
	f.mu.Unlock()
	debug.FreeOSMemory()
}

// shed ends the oldest idle connection if there are as many as a limit allows,
// so that a new one of uid's can be served. The peer of a connection that is
// ended connects again. s.mu is locked.
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

// idle reports whether a connection has no complete request, and since when.
func (c *conn) idle() (since time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, !c.ending && (!c.busy || c.half)
}

// end ends a connection as a drain does.
func (c *conn) end() {
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	c.wake()
}
