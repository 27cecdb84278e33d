package chat

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
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
	changed     time.Time // of the last packet that changed what it does
	command     bool      // it runs a command of the user
	elsewhere   bool      // it was started by another client, or before this chat

	stream    *markdown.Stream // the text of the inference
	received  strings.Builder  // of it, for assistant_final
	rejoined  bool             // the next piece of text is all of it so far
	thinking  time.Time        // when the reasoning began; zero: it does not reason
	reasoning strings.Builder
	thought   string      // the last line of the reasoning, which is not printed yet
	calls     []*toolCall // that run or wait
	waiting   wait        // what it waits for, in place of Working
	canceled  bool        // an interruption was asked for
	lost      bool        // the connection is being made again
	todo      todo
	replay    bool     // packets are from the log
	over      bool     // it has ended here
	failed    bool     // it has ended without success
	moved     bool     // it goes on in another session
	returned  []string // says that were not delivered
}

func (c *chat) newTurn(session, id string) *turn {
	t := &turn{session: session, id: id, began: c.now(), changed: c.now()}
	t.stream = c.newStream()
	return t
}

func (c *chat) newStream() *markdown.Stream {
	return &markdown.Stream{
		Options:  markdown.Options{Widths: c.widths, Palette: c.palette, Width: c.proseWidth, Links: c.knowsLinks(), Bullet: c.sign("", "*"), Spoken: c.start.Chat.ScreenReader},
		CodeRows: c.liveRows,
	}
}

// send sends a message that the user has not typed.
func (c *chat) send(s string) {
	m := c.messageOf(s)
	if c.turn != nil || !c.ready {
		c.wait(m, proto.ViaQueue)
		return
	}
	c.echo(m)
	c.begin(m)
}

// echo prints the user's message.
func (c *chat) echo(m message) {
	c.unfolded.restart()
	c.noteLifetime()
	c.print(kindUser, c.quote(m.draft.Shown(), m.files())...)
}

// noteLifetime prints, above the first message, that turns end with this chat.
func (c *chat) noteLifetime() {
	if c.lifetime == proto.LifetimePrivate && !c.noSave && !c.lifetimeNoted {
		c.lifetimeNoted = true
		c.say("This chat ends with the terminal; zino up keeps turns running.")
	}
}

// openTurn makes t the open turn.
func (c *chat) openTurn(t *turn) (ctx context.Context) {
	ctx, t.cancel = context.WithCancel(c.ctx)
	c.turn, c.approvals, c.questions = t, approvals{}, questions{}
	c.tick.Reset(time.Second)
	return ctx
}

// begin starts a turn.
func (c *chat) begin(m message) {
	t := c.newTurn(c.session, "")
	ctx := c.openTurn(t)
	c.tell("Working.")
	c.mode.choice, c.mode.open = nil, c.currentMode()
	c.trust(t, m, func() { c.startTurn(ctx, t, m) })
}

// startTurn has the daemon start the turn t.
func (c *chat) startTurn(ctx context.Context, t *turn, m message) {
	if c.isPlain() {
		if c.session == "" {
			c.session = proto.NewSessionID()
			c.made, t.session = c.session, c.session
		}
		req := c.request
		req.Message, req.SessionID, req.Root, req.Events = m.text, c.session, c.root, true
		req.Command, req.Arguments = m.command, m.arguments
		req.Mode, req.Reachable = c.gate()
		req.Files = m.dataOf()
		go c.ask(ctx, t, req)
		return
	}
	req := c.request
	start := proto.TurnStart{
		Message: m.text, SessionID: c.session, Root: c.root, SystemPrompt: req.SystemPrompt, Provider: req.Provider, Model: req.Model, MaxTokens: req.MaxTokens,
		Effort: req.Effort, Sandbox: req.Sandbox, Network: req.Network, Env: req.Env, Cwd: req.Cwd, Umask: req.Umask, Recall: req.Recall, RequestID: rand.Text(),
		Command: m.command, Arguments: m.arguments,
	}
	start.Mode, start.Reachable = c.gate()
	start.Files = m.dataOf()
	options := c.options()
	insist(c, proto.DaemonTurnStart, start, func(started proto.TurnStarted, err error) {
		if c.turn != t {
			return
		}
		if err != nil {
			c.turnFailed(errorOf(err))
			c.returnToEditor([]*queued{{message: m}}) // it was refused: nothing is stored
			return
		}
		c.session, t.session, t.id = started.SessionID, started.SessionID, started.Turn
		c.took(options, started.Mode)
		if c.mode.chosen != options.chosen { // meanwhile
			c.changeMode()
		}
		if c.title == "" {
			c.retitle(text.Clip(text.OneLine(m.draft.Shown()), 60))
		} else {
			c.readTitle()
		}
		c.state(t, proto.TurnState{State: started.State})
		if t.canceled {
			c.cancelTurn()
		}
		var next *int64
		if started.Next > 0 {
			next = &started.Next
		}
		go c.follow(ctx, t, next)
		c.handAll()
	})
}

// cancelLimit is how long the daemon may take to end a turn when the chat ends.
const cancelLimit = 6 * time.Second

// isPlain reports whether messages are plain chat requests: with --no-save, and for older
// daemons.
func (c *chat) isPlain() bool { return c.noSave || !c.can(proto.DaemonTurnStart.Type) }

// ask makes a plain chat request, for messages that are not stored and for older
// daemons.
func (c *chat) ask(ctx context.Context, t *turn, req proto.Chat) {
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

// cancelTurn interrupts the turn that is shown.
func (c *chat) cancelTurn() {
	t := c.turn
	if t == nil {
		return
	}
	if !t.canceled {
		t.canceled = true
		c.tell("Stopping.")
	}
	switch {
	case t.id == "" && c.isPlain():
		t.cancel()
	case t.id != "":
		req := proto.TurnCancel{SessionID: t.session, Turn: t.id}
		if c.exit != nil { // the loop does not wait for the answer
			ctx, cancel := context.WithTimeout(context.Background(), cancelLimit)
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

// continued goes on with the session in which the turn goes on.
func (c *chat) continued(t *turn, m proto.Continued) {
	t.cancel()
	c.flush(t)
	c.say("The context is nearly full: going on in session %s.", safe(shortID(m.SessionID)))
	c.moved(t)
	next := c.newTurn(m.SessionID, m.Turn)
	next.began, next.elsewhere = t.began, t.elsewhere
	c.session = m.SessionID
	go c.follow(c.openTurn(next), next, nil)
}

// flush prints what is pending of a turn.
func (c *chat) flush(t *turn) {
	c.endThought(t)
	c.endText(t)
	for _, call := range t.calls {
		c.unfinished(call)
	}
	t.calls = nil
	c.printTodo(t)
}

// ticked is called each second during a turn.
func (c *chat) ticked() {
	if c.turn != nil {
		c.todoDue(c.turn)
	}
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
		c.tell("Done.")
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
	c.turn, c.approvals, c.questions = nil, approvals{}, questions{}
	c.tick.Stop()
	c.unfolded.finish()
	c.notify(t, failed)
	c.settle(t, failed, returned)
	if !failed {
		c.planned()
	}
}

// followOpen follows a turn that this chat has not begun: that of info, or without an id
// the open one.
func (c *chat) followOpen(info proto.TurnInfo, elsewhere bool) {
	t := c.newTurn(c.session, info.Turn)
	t.replay, t.elsewhere = true, elsewhere
	if started, err := time.Parse(time.RFC3339, info.Started); err == nil && started.Before(t.began) {
		t.began = started
	}
	go c.follow(c.openTurn(t), t, nil)
}

// errorOf returns an error as the daemon sends it.
func errorOf(err error) *proto.Error {
	if e, ok := errors.AsType[*proto.Error](err); ok {
		return e
	}
	return &proto.Error{Kind: "internal", Message: err.Error()}
}
