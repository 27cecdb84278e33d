package chat

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"zino/pkg/rpc"
	"zino/pkg/wire"
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
			c.version, c.persists = pong.Version, pong.Lifetime == proto.LifetimePersistent
			c.methods = map[string]bool{}
			for _, m := range description.Methods {
				c.methods[m.Type] = true
			}
			c.identify()
		})
	}()
}

// identify learns which model answers, and prints the first line.
func (c *chat) identify() {
	forward(c, "rtr", proto.RtrCapabilities, proto.CapabilitiesRequest{}, func(caps proto.RouterCapabilities, err error) {
		if err == nil && c.model == "" && !caps.Fallback {
			c.model = caps.Model
		}
		c.greet()
		if c.start.SessionID == "" && !c.start.Latest {
			c.begun()
			return
		}
		req := proto.FindSession{SessionID: c.start.SessionID}
		if c.start.Latest {
			req.Root = c.root
		}
		c.find(req)
	})
}

// begun sends what was typed before the services were there.
func (c *chat) begun() {
	c.ready = true
	c.next()
}

// find continues a session.
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

const (
	resumedTurns = 2
	resumedLines = 40
)

// goOn shows the last turns of a session and goes on with it.
func (c *chat) goOn(s proto.SessionSummary) {
	c.session = s.SessionID
	c.retitle(cmp.Or(s.Title, s.Text))
	if s.CostUSD != nil {
		c.usage = usage{cents: *s.CostUSD, known: true, unknown: s.Unpriced > 0}
	}
	forward(c, "mem", proto.MemReadSession, proto.ReadSession{SessionID: s.SessionID}, func(events proto.SessionEvents, err error) {
		if err != nil {
			c.fail(errorOf(err))
			c.begun()
			return
		}
		c.showLast(events.Events, s.Messages)
		c.begun()
		c.joinOpenTurn()
	})
}

// showLast prints the last turns of a log.
func (c *chat) showLast(events proto.Raw, messages int) {
	type message struct{ role, text string }
	var list []message
	elements, err := wire.Elements(events)
	if err != nil {
		return
	}
	for _, event := range elements {
		var m proto.LogMessage
		typ, err := wire.ReplyType(event)
		if err != nil || typ != proto.TypeMessage || wire.DecodeReply(event, &m) != nil {
			continue
		}
		list = append(list, message{m.Role, m.Text})
	}
	from, turns := len(list), 0
	for from > 0 && turns < resumedTurns {
		from--
		if list[from].role == proto.RoleUser {
			turns++
		}
	}
	if from > 0 {
		c.print(kindLine, c.dim(fmt.Sprintf("── %d earlier messages · /show history ──", from)))
	}
	var lines []string
	for _, m := range list[from:] {
		if m.role == proto.RoleUser {
			lines = append(lines, c.quote(m.text)...)
		} else {
			stream := c.newStream()
			lines = append(lines, strings.Split(strings.TrimSuffix(stream.Write(m.text)+stream.End(), "\n"), "\n")...)
		}
		lines = append(lines, "")
	}
	if over := len(lines) - resumedLines; over > 0 {
		lines = append([]string{c.dim(fmt.Sprintf("… %d more lines", over))}, lines[over:]...)
	}
	if len(lines) > 0 {
		c.print(kindText, lines[:len(lines)-1]...)
		c.printed = kindAnswer
	}
}

// joinOpenTurn follows a turn that is under way on the session.
func (c *chat) joinOpenTurn() {
	if !c.can(proto.DaemonTurns.Type) || c.turn != nil {
		return
	}
	session := c.session
	call(c, proto.DaemonTurns, proto.ListTurns{SessionID: session}, func(list proto.TurnList, err error) {
		if err != nil || len(list.Turns) == 0 || c.turn != nil || c.session != session {
			return
		}
		c.followOpen(list.Turns[0].Turn, true)
	})
}

func (c *chat) resume(args string) {
	if args != "" {
		c.find(proto.FindSession{SessionID: args})
		return
	}
	c.pickSession(false)
}

// editLast brings the last message back: sending it goes on from a copy of the session
// that ends before it.
func (c *chat) editLast() {
	if c.past.Len() > 0 {
		c.recall(1)
	}
}
