package chat

import (
	"errors"
	"fmt"
	"strings"

	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
)

const (
	resumedTurns = 2
	resumedLines = 40
)

// lastTurns are the last turns of a session's log.
type lastTurns struct {
	open    string        // a turn that is left out: it is followed
	turns   [][]proto.Raw // their events
	earlier int           // messages before them
	counts  []int
}

// add adds an event of the log.
func (l *lastTurns) add(event proto.Raw) {
	typ, err := wire.ReplyType(event)
	if err != nil {
		return
	}
	var of turnOf
	if l.open != "" && wire.DecodeReply(event, &of) == nil && of.Turn == l.open {
		return
	}
	message := typ == proto.TypeMessage
	var m proto.LogMessage
	if message && wire.DecodeReply(event, &m) != nil {
		return
	}
	if message && m.Role == proto.RoleUser && m.Via != proto.ViaSteer && proto.ViaUser(m.Via) {
		l.turns, l.counts = append(l.turns, nil), append(l.counts, 0)
		if len(l.turns) > resumedTurns {
			l.earlier += l.counts[0]
			l.turns, l.counts = l.turns[1:], l.counts[1:]
		}
	}
	n := len(l.turns) - 1
	switch {
	case n < 0 && message:
		l.earlier++
	case n >= 0:
		l.turns[n] = append(l.turns[n], event)
		if message {
			l.counts[n]++
		}
	}
}

// readLast reads the last turns of a session, page by page, without the open one.
func (c *chat) readLast(session, open string) (l lastTurns, err error) {
	l.open = open
	for from := int64(0); ; {
		page, err := forwarded(c.ctx, c, "mem", proto.MemReadSession, proto.ReadSession{SessionID: session, From: from})
		if err != nil {
			return l, err
		}
		elements, err := wire.Elements(page.Events)
		if err != nil {
			return l, fmt.Errorf("session %s cannot be read: %w", shortID(session), err)
		}
		for _, event := range elements {
			l.add(event)
		}
		if !page.More {
			return l, nil
		}
		if page.Next <= from {
			return l, errors.New("session " + shortID(session) + " cannot be read: its log does not end")
		}
		from = page.Next
	}
}

// showLast prints the last turns of a session, as they were printed when they ran.
func (c *chat) showLast(l lastTurns) {
	var b strings.Builder
	printed := c.printed
	c.held, c.printed = &b, kindNone
	t := c.newTurn(c.session, "")
	for _, events := range l.turns {
		for _, event := range events {
			c.replayEvent(t, event)
		}
		c.flush(t)
		t.todo = todo{}
	}
	c.held = nil
	last := c.printed
	c.printed = printed
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if b.Len() == 0 {
		return
	}
	var head []string
	if l.earlier > 0 || len(lines) > resumedLines {
		label := "── more above · /show history ──"
		if l.earlier > 0 {
			label = fmt.Sprintf("── %s · /show history ──", text.Count(l.earlier, "earlier message"))
		}
		head = []string{c.dim(label), ""}
		if c.start.Chat.ScreenReader {
			head = []string{strings.ReplaceAll(strings.Trim(label, "─ "), " ·", ":")}
		}
		lines = lines[max(0, len(lines)-(resumedLines-len(head))):]
		for len(lines) > 0 && lines[0] == "" {
			lines = lines[1:]
		}
	}
	c.print(kindAnswer, append(head, lines...)...)
	c.printed = last
}

// replayEvent shows an event of the log.
func (c *chat) replayEvent(t *turn, event proto.Raw) {
	typ, err := wire.ReplyType(event)
	if err != nil {
		return
	}
	p := packet{turn: t, typ: typ, payload: event}
	switch typ {
	case proto.TypeMessage:
		decode(p, func(m proto.LogMessage) {
			if m.Role == proto.RoleUser {
				c.userMessage(t, proto.UserMessage{Text: m.Typed(), Via: m.Via})
				return
			}
			c.final(t, m.Text)
		})
	case proto.TypeToolUse:
		decode(p, func(u proto.LogToolUse) { c.requested(t, proto.ToolRequested{ID: u.ID, Name: u.Name, Input: u.Input}) })
	case proto.TypeToolResult:
		decode(p, func(r proto.LogToolResult) {
			c.finished(t, proto.ToolFinished{ID: r.ToolUseID, Name: r.Name, OK: r.OK, Result: r.Output, DurationMS: r.DurationMS, Diff: r.Diff})
		})
	case proto.TypeUsage: // what it has cost is known already
		decode(p, func(u proto.InferenceUsage) { c.lastUsed(u) })
	case proto.TypeTodo:
		decode(p, func(l proto.Todo) { t.todo.items = l.Items }) // the last one is printed at the end of the turn
	case proto.TypeInterrupted:
		c.flush(t)
		c.say("Interrupted.")
	case proto.TypeError:
		c.flush(t)
		decode(p, func(e proto.LogError) {
			c.fail(&proto.Error{Message: e.Message, Kind: e.Kind, Code: e.Code, Status: e.Status, Details: e.Details})
		})
	}
}
