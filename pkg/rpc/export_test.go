package rpc

import "time"

// SetLimits shortens the limits of a server that has not started yet.
func (s *Server) SetLimits(stall, keepalive time.Duration) { s.stall, s.keepalive = stall, keepalive }

// Idle returns the number of connections that the client keeps.
func (c *Client) Idle() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.idle)
}
