package chat

import (
	"errors"
	"slices"
	"strings"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/chat/input"
)

// queuedMax is how many messages wait.
const queuedMax = 16

// message is a message of the user.
type message struct {
	draft  input.Draft // as it was typed
	text   string      // as it is sent: with the files that it names
	images []picture

	command, arguments string // of a slash command of a file, whose text the daemon sends
}

// messageOf returns a message of a text.
func (c *chat) messageOf(s string) message { return message{draft: c.editor.NewDraft(s), text: s} }

// files returns a line for each file that is attached to the message.
func (m message) files() []string {
	_, files := unattached(m.text)
	for _, image := range m.images {
		files = append(files, image.shown)
	}
	return files
}

// waitsHere reports whether a message cannot wait at the daemon: turn_say has no images,
// and a command is expanded when its turn begins.
func (m message) waitsHere() bool { return len(m.images) > 0 || m.command != "" }

// queued is a message that waits: here, at the daemon, or on its way there. Only the
// answers of the daemon decide what becomes of it, so no order of events loses it or
// sends it twice.
type queued struct {
	message
	mode      string // proto.ViaSteer: it joins the next inference; proto.ViaQueue: a turn of its own
	requestID string
	sending   bool   // the answer to turn_say is missing
	withdrawn bool   // it is back in the editor, which the daemon does not know yet
	say       string // its id at the daemon; "": it waits here
	turn      string // the turn that gets it there; "": the open one
}

// waiting returns the messages that are shown as waiting.
func (c *chat) waiting() (list []*queued) {
	for _, q := range c.queued {
		if !q.withdrawn {
			list = append(list, q)
		}
	}
	return list
}

// steers reports whether the daemon accepts messages for an open turn.
func (c *chat) steers() bool { return c.can(proto.DaemonTurnSay.Type) && !c.noSave }

// wait queues a message: it steers the open turn, or becomes a turn of its own.
func (c *chat) wait(m message, mode string) {
	if !c.steers() || m.waitsHere() {
		mode = proto.ViaQueue
	}
	q := &queued{message: m, mode: mode, requestID: requestID()}
	c.queued = append(c.queued, q)
	if c.start.Chat.ScreenReader {
		c.say("%s%s", q.label(true), safe(text.OneLine(m.draft.Shown())))
	}
	c.hand(q)
}

// label returns what stands in front of a message that waits.
func (q *queued) label(sentence bool) string {
	label := "next: "
	if q.mode == proto.ViaQueue {
		label = "then: "
	}
	if sentence {
		return strings.ToUpper(label[:1]) + label[1:]
	}
	return label
}

// handAll gives the daemon what waits here, when a turn has begun.
func (c *chat) handAll() {
	for _, q := range slices.Clone(c.queued) {
		c.hand(q)
	}
}

// hand gives a message that waits here to the daemon, if a turn is open.
func (c *chat) hand(q *queued) {
	t := c.turn
	if t == nil || t.id == "" || q.sending || q.withdrawn || q.say != "" || q.waitsHere() || !c.steers() {
		return
	}
	q.sending = true
	say := proto.TurnSay{SessionID: t.session, Turn: t.id, Text: q.text, Mode: q.mode, RequestID: q.requestID}
	insist(c, proto.DaemonTurnSay, say, func(said proto.Said, err error) { c.said(q, t, said, err) })
}

// said handles the daemon's answer to a message for the turn t, which may have ended.
func (c *chat) said(q *queued, t *turn, said proto.Said, err error) {
	q.sending = false
	if !slices.Contains(c.queued, q) {
		return // it was delivered before the answer
	}
	switch {
	case err == nil:
		q.say, q.mode, q.turn = said.Say, said.Mode, said.Turn
		switch {
		case slices.Contains(t.returned, q.say) || t.over && q.joins(t):
			c.dequeue(q)
			if !q.withdrawn {
				c.returnToEditor([]*queued{q})
			}
		case q.withdrawn:
			c.withdraw(q)
		case t.moved:
			c.moved(t)
		default:
			c.next()
		}
	case q.withdrawn:
		c.dequeue(q)
	case errors.Is(err, proto.ErrNotFound): // the turn has ended
		c.afterTurn(q, t)
	case errors.Is(err, proto.ErrBusy) && q.mode == proto.ViaSteer: // too many, or too large to steer
		q.mode = proto.ViaQueue
		c.hand(q)
		c.afterTurn(q, t)
	case errors.Is(err, proto.ErrBusy): // it waits here
		c.afterTurn(q, t)
	default:
		c.dequeue(q)
		c.fail(errorOf(err))
		c.returnToEditor([]*queued{q})
	}
}

// afterTurn decides what becomes of a message that waits here for a turn t, if that has
// ended: after an interruption or an error it goes back into the editor.
func (c *chat) afterTurn(q *queued, t *turn) {
	switch {
	case q.sending || c.turn == t:
	case t.failed:
		c.dequeue(q)
		c.returnToEditor([]*queued{q})
	case c.turn != nil:
		c.hand(q)
	default:
		c.next()
	}
}

// delivered returns the message that a packet is about, if it waited here.
func (c *chat) delivered(m proto.UserMessage) (message, bool) {
	i := slices.IndexFunc(c.queued, func(q *queued) bool { return m.Say != "" && q.say == m.Say })
	if i < 0 { // the answer to turn_say is still missing
		i = slices.IndexFunc(c.queued, func(q *queued) bool {
			return q.sending && strings.TrimSpace(q.text) == strings.TrimSpace(m.Text)
		})
	}
	if i < 0 {
		return message{}, false
	}
	q := c.queued[i]
	c.dequeue(q)
	if q.withdrawn { // too late
		c.emptyDelivered(q)
	}
	return q.message, true
}

// emptyDelivered empties the editor again if it has a message that was taken back too late.
func (c *chat) emptyDelivered(q *queued) {
	if c.editor.Text() == q.draft.Text() {
		c.editor.Reset()
		c.say("The message was on its way already.")
	}
}

func (c *chat) dequeue(q *queued) {
	c.queued = slices.DeleteFunc(c.queued, func(other *queued) bool { return other == q })
}

// takeBack brings the newest message that waits back into the editor.
func (c *chat) takeBack() {
	list := c.waiting()
	q := list[len(list)-1]
	c.editor.SetDraft(q.draft)
	if q.say == "" && !q.sending {
		c.dequeue(q)
		return
	}
	q.withdrawn = true
	if !q.sending {
		c.withdraw(q)
	}
}

// withdraw takes a message back from the daemon. If it was delivered meanwhile, the packet
// about it comes, or has come.
func (c *chat) withdraw(q *queued) {
	insist(c, proto.DaemonTurnSay, proto.TurnSay{SessionID: c.session, Say: q.say}, func(_ proto.Said, err error) {
		switch {
		case !slices.Contains(c.queued, q):
		case err == nil:
			c.dequeue(q)
		default:
			c.emptyDelivered(q)
		}
	})
}

// returnToEditor puts messages into the editor, in front of what is in it, joined by blank lines.
func (c *chat) returnToEditor(list []*queued) {
	var drafts []input.Draft
	for _, q := range list {
		drafts = append(drafts, q.draft)
	}
	if !c.editor.Empty() {
		drafts = append(drafts, c.editor.Draft())
	}
	if len(list) > 0 {
		c.editor.SetDraft(input.JoinDrafts(drafts))
	}
}

// joins reports whether the message was to join an inference of the turn t.
func (q *queued) joins(t *turn) bool {
	return q.say != "" && q.mode == proto.ViaSteer && q.turn == t.id
}

// settle decides what becomes of the messages that wait when the turn t has ended. Those
// that it has not consumed go back into the editor, after a failure also those that wait
// here: returned are those that the daemon had, of this chat and of others.
func (c *chat) settle(t *turn, failed bool, returned []proto.Say) {
	t.over, t.failed = true, failed
	for _, say := range returned {
		t.returned = append(t.returned, say.Say)
	}
	var back, rest []*queued
	for _, q := range c.queued {
		switch {
		case q.sending: // the answer decides
			rest = append(rest, q)
		case q.withdrawn: // it is in the editor
		case slices.Contains(t.returned, q.say) || failed && q.say == "" || q.joins(t):
			back = append(back, q)
		case q.say != "" && q.turn == t.id: // it was the turn
		default:
			rest = append(rest, q)
		}
	}
	c.queued = rest
	c.returnToEditor(back)
	c.next()
}

// moved notes that a turn goes on in another session: what was to join it is part of its
// first message there, and what was queued behind it is queued there.
func (c *chat) moved(t *turn) {
	t.moved = true
	for _, q := range slices.Clone(c.queued) {
		switch {
		case q.say == "" || q.turn != t.id && q.mode == proto.ViaSteer:
		case q.mode == proto.ViaSteer:
			c.dequeue(q)
			c.echo(q.message)
		default:
			q.turn = ""
		}
	}
}

// next begins the turn of the next message that waits here. Those at the daemon begin by
// themselves: they are followed.
func (c *chat) next() {
	if c.turn != nil || !c.ready || len(c.queued) == 0 {
		return
	}
	for _, q := range c.queued {
		if q.say != "" && !q.withdrawn {
			c.followOpen(proto.TurnInfo{Turn: q.turn}, false)
			return
		}
	}
	q := c.queued[0]
	if q.sending || q.withdrawn {
		return // its answer comes first
	}
	c.dequeue(q)
	c.echo(q.message)
	c.begin(q.message)
}

// insist is call for a request that may be repeated: it is, while the daemon cannot be
// reached.
func insist[Req, Rep any](c *chat, m proto.Method[Req, Rep], req Req, then func(Rep, error)) {
	go func() {
		until := time.Now().Add(reconnectLimit)
		for {
			reply, err := rpc.Call(c.ctx, c.client, m, req)
			if !unreachable(err) || time.Now().After(until) {
				c.after(func() { then(reply, err) })
				return
			}
			select {
			case <-time.After(reconnectInterval):
			case <-c.ctx.Done():
				return
			}
		}
	}()
}

// unreachable reports whether an error is that of a connection.
func unreachable(err error) bool {
	return errors.Is(err, rpc.ErrHungUp) || errors.Is(err, rpc.ErrConnect) || errors.Is(err, proto.ErrUnavailable)
}
