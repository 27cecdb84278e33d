package chat

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/chat/markdown"
)

// turn is the open turn of the session.
type turn struct {
	session, id string
	cancel      context.CancelFunc
	began       time.Time
	elsewhere   bool // it was started by another client

	stream    *markdown.Stream // the text of the inference
	received  strings.Builder  // of it, for assistant_final
	thinking  time.Time        // when the reasoning began; zero: it does not reason
	reasoning strings.Builder
	calls     []*toolCall // that run or wait
	waiting   string      // what it waits for, in place of Working
	canceled  bool        // an interruption was asked for
	lost      bool        // the connection is being made again
	todo      string      // the list that was printed last
	todoNow   string      // the item in progress
	replay    bool        // packets are from the log
}

// queued is a message that waits.
type queued struct {
	text string
	say  string // its id at the daemon; "": it waits here
	mode string // proto.ViaSteer or proto.ViaQueue
}

func (c *chat) newTurn(session, id string) *turn {
	t := &turn{session: session, id: id, began: time.Now()}
	t.stream = c.newStream()
	return t
}

func (c *chat) newStream() *markdown.Stream {
	return &markdown.Stream{
		Options:  markdown.Options{Widths: c.widths, Palette: c.palette, Width: c.proseWidth, Links: c.knowsLinks(), Bullet: c.sign("", "*")},
		CodeRows: c.liveRows,
	}
}

// send sends a message as a turn.
func (c *chat) send(message string) {
	if !c.ready {
		c.queued = append(c.queued, queued{text: message, mode: proto.ViaQueue})
		return
	}
	c.echo(message)
	c.begin(message)
}

// echo prints the user's message.
func (c *chat) echo(message string) {
	c.print(kindUser, c.quote(message)...)
}

// begin starts a turn.
func (c *chat) begin(message string) {
	t := c.newTurn(c.session, "")
	ctx, cancel := context.WithCancel(c.ctx)
	t.cancel = cancel
	c.turn, c.firstItem = t, c.items.next()
	c.tick.Reset(time.Second)
	if !c.can(proto.DaemonTurnStart.Type) || c.request.NoSave {
		go c.ask(ctx, t, message)
		return
	}
	req := c.request
	start := proto.TurnStart{
		Message: message, SessionID: c.session, Root: c.root, SystemPrompt: req.SystemPrompt, Provider: req.Provider, Model: req.Model, MaxTokens: req.MaxTokens,
		Effort: req.Effort, Sandbox: req.Sandbox, Network: req.Network, Env: req.Env, Cwd: req.Cwd, Umask: req.Umask, RequestID: rand.Text(),
	}
	call(c, proto.DaemonTurnStart, start, func(started proto.TurnStarted, err error) {
		if c.turn != t {
			return
		}
		if err != nil {
			c.turnFailed(errorOf(err))
			c.editor.Set(typedOf(message)) // it was refused: nothing is stored
			return
		}
		c.session, t.session, t.id = started.SessionID, started.SessionID, started.Turn
		if c.title == "" {
			c.retitle(text.Clip(text.OneLine(typedOf(message)), 60))
		}
		if t.canceled {
			c.cancelTurn()
		}
		var next *int64
		if started.Next > 0 {
			next = &started.Next
		}
		go c.follow(ctx, t, next)
	})
}

// ask makes a plain chat request, for messages that are not stored and for older
// daemons.
func (c *chat) ask(ctx context.Context, t *turn, message string) {
	req := c.request
	req.Message, req.SessionID, req.Root, req.Events = message, cmp.Or(c.session, proto.NewSessionID()), c.root, true
	c.after(func() { c.session, t.session = req.SessionID, req.SessionID })
	method := proto.Method[proto.Chat, proto.Text]{Service: "daemon", Type: proto.DaemonChat.Type, Reply: proto.TypeDone}
	_, err := rpc.CallEvents(ctx, c.client, method, req, func(typ string, payload []byte) error {
		select {
		case c.packets <- packet{turn: t, typ: typ, payload: append([]byte(nil), payload...)}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	c.after(func() {
		if c.turn != t {
			return
		}
		switch {
		case err == nil:
			c.ended(proto.TurnEnd{State: proto.TurnDone})
		case t.canceled || ctx.Err() != nil:
			c.ended(proto.TurnEnd{State: proto.TurnInterrupted})
		default:
			c.turnFailed(errorOf(err))
		}
	})
}

// cancelTurn interrupts the turn of this chat.
func (c *chat) cancelTurn() {
	t := c.turn
	if t == nil {
		return
	}
	t.canceled = true
	switch {
	case t.id == "" && (c.request.NoSave || !c.can(proto.DaemonTurnStart.Type)):
		t.cancel()
	case t.id != "" && !t.elsewhere:
		req := proto.TurnCancel{SessionID: t.session, Turn: t.id}
		if c.exit != nil { // nobody waits for the answer in the loop
			ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
			defer cancel()
			rpc.Call(ctx, c.client, proto.DaemonTurnCancel, req) // the daemon ends it, or nothing can
			return
		}
		call(c, proto.DaemonTurnCancel, req, func(_ proto.TurnStarted, err error) {
			if err != nil && c.turn == t {
				c.warn("the turn may go on: " + err.Error() + "; try: zino stop " + shortID(t.session))
			}
		})
	}
}

// packet handles a packet of a turn.
func (c *chat) packet(p packet) {
	t := c.turn
	if p.turn != t || t == nil {
		return
	}
	switch {
	case p.err != nil:
		c.turnFailed(errorOf(p.err))
		return
	case p.end != nil:
		if c.turn == t { // without turn_ended
			c.ended(proto.TurnEnd{Turn: t.id, State: p.end.State})
		}
		return
	case p.typ == typeLost:
		t.lost = true
		return
	}
	t.lost = false
	switch p.typ {
	case proto.TypeUserMessage:
		decode(p, func(m proto.UserMessage) { c.userMessage(t, m) })
	case proto.TypeLive:
		t.replay = false
		c.retract(t) // the text so far comes again
	case proto.TypeAssistantDelta:
		decode(p, func(d proto.AssistantDelta) { c.delta(t, d.Text) })
	case proto.TypeAssistantFinal:
		decode(p, func(f proto.AssistantFinal) { c.final(t, f.Text) })
	case proto.TypeReasoning:
		decode(p, func(r proto.Reasoning) { c.reasoning(t, r.Text) })
	case proto.TypeRetracted:
		c.retract(t)
	case proto.TypeToolRequested:
		decode(p, func(r proto.ToolRequested) { c.requested(t, r) })
	case proto.TypeToolStarted:
		decode(p, func(s proto.ToolStarted) { c.started(t, s) })
	case proto.TypeToolOutput:
		decode(p, func(o proto.ToolOutput) { c.output(t, o) })
	case proto.TypeToolFinished:
		decode(p, func(f proto.ToolFinished) { c.finished(t, f) })
	case proto.TypeUsage:
		decode(p, func(u proto.InferenceUsage) {
			c.usage.add(u)
			c.model = cmp.Or(u.Model, c.model)
		})
	case proto.TypeNotice:
		decode(p, func(n proto.Notice) { c.notice(t, n) })
	case proto.TypeTodo:
		decode(p, func(l proto.Todo) { c.todo(t, l) })
	case proto.TypeTurnState:
		decode(p, func(s proto.TurnState) { c.state(t, s) })
	case proto.TypeContinued:
		decode(p, func(m proto.Continued) { c.continued(t, m) })
	case "approval_requested":
		c.requestedApproval(p.payload)
	case "approval_closed":
		c.closedApproval(p.payload)
	case proto.TypeTurnEnded:
		decode(p, func(e proto.TurnEnd) {
			if e.Turn == "" || e.Turn == t.id {
				c.ended(e)
			}
		})
	}
}

// decode calls f with the fields of a packet. A packet of another shape is of a later
// version, and skipped.
func decode[T any](p packet, f func(T)) {
	var v T
	if wire.DecodeReply(p.payload, &v) == nil {
		f(v)
	}
}

// delta adds a piece of the answer.
func (c *chat) delta(t *turn, piece string) {
	c.thought(t)
	t.waiting = ""
	t.received.WriteString(piece)
	c.text(t.stream.Write(piece))
}

// text prints final text of the answer.
func (c *chat) text(out string) {
	if out == "" {
		return
	}
	if c.printed == kindText { // the stream separates its blocks
		c.screen.Print(out)
		return
	}
	c.print(kindText, strings.Split(strings.TrimSuffix(strings.TrimPrefix(out, "\n"), "\n"), "\n")...)
}

// final ends the text of an inference. What was missed in the pieces is added.
func (c *chat) final(t *turn, whole string) {
	c.thought(t)
	if rest, ok := strings.CutPrefix(whole, t.received.String()); ok {
		c.text(t.stream.Write(rest))
	} else if strings.TrimSpace(whole) != strings.TrimSpace(t.received.String()) {
		c.retract(t)
		c.text(t.stream.Write(whole))
	}
	c.answer = whole
	c.endText(t)
}

// endText prints the rest of a text.
func (c *chat) endText(t *turn) {
	c.text(t.stream.End())
	t.received.Reset()
	if c.printed == kindText {
		c.printed = kindAnswer
	}
}

// retract voids the text since the last final one. What is printed stays.
func (c *chat) retract(t *turn) {
	printed := c.printed == kindText
	if !printed { // nothing of it is printed: it is dropped
		t.stream = c.newStream()
	}
	c.endText(t)
	if printed {
		c.say("The answer was interrupted and begins again.")
	}
}

// userMessage shows a message that came from the log or from another client.
func (c *chat) userMessage(t *turn, m proto.UserMessage) {
	if i := c.findQueued(m.Say, m.Text); m.Via != proto.ViaStart && i >= 0 {
		c.dequeue(i)
	} else if m.Via == proto.ViaStart && !t.elsewhere && !t.replay {
		return // it was printed when it was sent
	}
	c.echo(m.Text)
}

// notice prints a remark. One about a wait is shown in the activity line.
func (c *chat) notice(t *turn, n proto.Notice) {
	switch n.Kind {
	case proto.NoticeRetry, proto.NoticeWait:
		t.waiting = safe(n.Text)
		return
	}
	c.say("%s", safe(n.Text))
}

// state shows what a turn waits for that does not run.
func (c *chat) state(t *turn, s proto.TurnState) {
	switch s.State {
	case proto.TurnRunning, proto.TurnResumed:
		t.waiting = ""
	case proto.TurnParked:
		t.waiting = "Parked: " + safe(s.Reason)
		if s.Until != "" {
			t.waiting += " until " + localTime(s.Until)
		}
		c.say("%s", t.waiting)
	default:
		t.waiting = "Waiting for another turn of this session"
	}
}

// continued goes on with the session in which the turn goes on.
func (c *chat) continued(t *turn, m proto.Continued) {
	t.cancel()
	c.flush(t)
	c.say("The context is nearly full: going on in session %s.", shortID(m.SessionID))
	next := c.newTurn(m.SessionID, m.Turn)
	ctx, cancel := context.WithCancel(c.ctx)
	next.cancel, next.began = cancel, t.began
	c.session, c.turn = m.SessionID, next
	go c.follow(ctx, next, nil)
}

// flush prints what is pending of a turn.
func (c *chat) flush(t *turn) {
	c.thought(t)
	c.endText(t)
	for _, call := range t.calls {
		c.unfinished(call)
	}
	t.calls = nil
}

// ended ends the turn.
func (c *chat) ended(end proto.TurnEnd) {
	t := c.turn
	c.flush(t)
	var result proto.Error
	switch {
	case end.State == proto.TurnInterrupted && (t.canceled || end.Reason == "" || end.Reason == "canceled"):
		c.say("Interrupted.")
	case end.State == proto.TurnError || end.State == proto.TurnInterrupted:
		if wire.DecodeReply(end.Result, &result) != nil || result.Message == "" {
			result.Message = cmp.Or(end.Reason, "the turn ended")
		}
		c.fail(&result)
	default:
		var done proto.Text
		if wire.DecodeReply(end.Result, &done) == nil && done.StopReason == "length" {
			c.warn("the answer was cut at max_tokens")
		}
	}
	c.turnOver(end.State != proto.TurnDone, end.Returned)
}

// turnFailed ends a turn that could not begin or be followed.
func (c *chat) turnFailed(e *proto.Error) {
	c.flush(c.turn)
	c.fail(e)
	c.turnOver(true, nil)
}

// turnOver goes on after a turn: with the next message, or with an editor that has
// those that were not delivered.
func (c *chat) turnOver(failed bool, returned []proto.Say) {
	t := c.turn
	t.cancel()
	c.turn, c.approvals = nil, approvals{}
	c.tick.Stop()
	c.notify(t, failed)
	if !failed {
		c.next()
		return
	}
	var back []string
	for _, say := range returned {
		back = append(back, typedOf(say.Text))
		if i := c.findQueued(say.Say, say.Text); i >= 0 {
			c.dequeue(i)
		}
	}
	for _, q := range c.queued {
		back = append(back, typedOf(q.text))
	}
	c.queued = nil
	if len(back) > 0 {
		if !c.editor.Empty() {
			back = append(back, c.editor.Text())
		}
		c.editor.Set(strings.Join(back, "\n\n"))
	}
}

// next begins the turn of the next message that waits here. Those that wait at the daemon
// begin by themselves: they are followed.
func (c *chat) next() {
	if len(c.queued) == 0 || c.turn != nil {
		return
	}
	q := c.queued[0]
	if q.say == "" {
		c.dequeue(0)
		c.echo(q.text)
		c.begin(q.text)
		return
	}
	c.followOpen("", false)
}

// followOpen follows a turn that this chat has not begun; "": the open one.
func (c *chat) followOpen(id string, elsewhere bool) {
	t := c.newTurn(c.session, id)
	ctx, cancel := context.WithCancel(c.ctx)
	t.cancel, t.replay, t.elsewhere = cancel, true, elsewhere
	c.turn = t
	c.tick.Reset(time.Second)
	go c.follow(ctx, t, nil)
}

// errorOf returns an error as the daemon sends it.
func errorOf(err error) *proto.Error {
	if e, ok := errors.AsType[*proto.Error](err); ok {
		return e
	}
	return &proto.Error{Kind: "internal", Message: err.Error()}
}

// localTime formats a time of the wire for a person.
func localTime(s string) string {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return safe(s)
	}
	if t = t.Local(); time.Until(t) < 12*time.Hour {
		return t.Format("15:04")
	}
	return t.Format("2006-01-02 15:04")
}

// elapsed formats a duration in whole seconds.
func elapsed(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	if d < time.Hour {
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}
