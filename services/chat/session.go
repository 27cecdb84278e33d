package chat

import (
	"cmp"
	"errors"

	"zino/pkg/rpc"
	"zino/proto"
)

// can reports whether the daemon has a method.
func (c *chat) can(method string) bool { return c.methods[method] }

// connected asks the daemon what it can do, and continues the session that was named.
func (c *chat) connected() {
	go func() {
		pong, err := rpc.Call(c.ctx, c.client, proto.Ping, proto.PingRequest{})
		description, err2 := rpc.Call(c.ctx, c.client, proto.Describe, proto.DescribeRequest{})
		c.after(func() {
			if err := cmp.Or(err, err2); err != nil {
				c.fail(errorOf(err))
				c.stop(exitFailed)
				return
			}
			c.version, c.lifetime = pong.Version, pong.Lifetime
			c.methods = map[string]bool{}
			for _, m := range description.Methods {
				c.methods[m.Type] = true
			}
			c.modes = description.TakesMode()
			c.identify()
		})
	}()
}

// begun carries out what was typed before the services were there.
func (c *chat) begun() {
	c.ready = true
	c.listFiles(func(error) { c.listed() })
	commands := c.typedCommands
	c.typedCommands = nil
	for _, run := range commands {
		run()
	}
	c.next()
}

// find continues a session at the start.
func (c *chat) find(req proto.FindSession) {
	forward(c, "mem", proto.MemFindSession, req, func(s proto.SessionSummary, err error) {
		switch {
		case errors.Is(err, proto.ErrNotFound) && req.SessionID != "": // a new session of that name
			c.session = req.SessionID
		case err != nil:
			c.fail(errorOf(err))
		default:
			c.goOn(s)
			return
		}
		c.begun()
	})
}

// goOn shows the last turns of a session and goes on with it, in the directory that the user
// chooses.
func (c *chat) goOn(s proto.SessionSummary) {
	c.chooseRoot(s, func() { c.openSession(s) })
}

// openSession shows the last turns of a session and goes on with it.
func (c *chat) openSession(s proto.SessionSummary) {
	c.session = s.SessionID
	c.retitle(cmp.Or(s.Title, s.Text))
	c.usage = usage{unknown: s.Unpriced > 0}
	if s.CostUSD != nil {
		c.usage.dollars, c.usage.known = *s.CostUSD, true
	}
	lists := c.can(proto.DaemonTurns.Type)
	go func() {
		var open proto.TurnInfo
		if lists {
			open = c.openTurnOf(s.SessionID)
		}
		last, err := c.readLast(s.SessionID, open.Turn)
		c.after(func() {
			if err != nil {
				c.fail(errorOf(err))
			} else {
				c.showLast(last)
			}
			if open.Turn != "" && c.turn == nil && c.session == s.SessionID {
				c.followOpen(open, true)
			}
			c.begun()
			c.handAll()
		})
	}()
}

// openTurnOf returns the turn that is under way on a session; without an id no turn is open.
func (c *chat) openTurnOf(session string) (open proto.TurnInfo) {
	list, err := rpc.Call(c.ctx, c.client, proto.DaemonTurns, proto.ListTurns{SessionID: session})
	if err != nil {
		return open // the session is shown as far as it goes
	}
	for _, t := range list.Turns { // the last one that is queued is the first to begin
		if open = t; t.State != proto.TurnQueued {
			break
		}
	}
	return open
}
