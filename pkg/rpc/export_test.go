package rpc

import "time"

// SetLimits shortens the limits of a server that has not started yet.
func (s *Server) SetLimits(stall, keepalive time.Duration) { s.stall, s.keepalive = stall, keepalive }

// SetUID has the client take uid for its own.
func (c *Client) SetUID(uid int) { c.self = &uid }

// SetPongLimit sets how long a peer has for the answer to a ping.
func (c *Client) SetPongLimit(limit time.Duration) { c.pong = limit }

// SetFresh sets how long a drain waits for the first request of a connection.
func (s *Server) SetFresh(limit time.Duration) { s.fresh = limit }

// SetClock gives the log of refusals another clock.
func (s *Server) SetClock(now func() time.Time) { s.refusals.now = now }

// CountOwn has the server take this process for any other.
func (s *Server) CountOwn() { s.pid = -2 }

// Refused is the number of connections that were refused and are still open.
func (s *Server) Refused() int { return int(s.refusals.open.Load()) }

// Idle returns the number of connections that the client keeps.
func (c *Client) Idle() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.idle)
}

// SetHalf sets how long a drain waits for the rest of a frame.
func (s *Server) SetHalf(limit time.Duration) { s.half = limit }

// Reading is the number of frames that have begun and not come to their ends.
func (s *Server) Reading() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.mu.Lock()
		if c.half {
			n++
		}
		c.mu.Unlock()
	}
	return n
}

// SetFrameBytes bounds the bytes of unfinished frames, of one user and of all.
func (s *Server) SetFrameBytes(uid, all int) { s.occupancy.uidBytes, s.occupancy.allBytes = uid, all }

// SetIdle bounds the idle connections, of one user and of all.
func (s *Server) SetIdle(uid, all int) { s.occupancy.uidIdle, s.occupancy.allIdle = uid, all }

// FrameBytes is what is reserved for unfinished frames.
func (s *Server) FrameBytes() int {
	s.frames.mu.Lock()
	defer s.frames.mu.Unlock()
	return s.frames.all
}

// Connections is the number of open connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}
