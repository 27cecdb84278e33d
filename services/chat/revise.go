package chat

import (
	"zino/pkg/wire"
	"zino/proto"
)

// revision is the last message of the user, brought back into the editor. Sending it goes
// on in a copy of the session that ends before it.
type revision struct {
	session string
	until   int64 // the offset of the message in the session
	text    string
}

// editLast brings the last message back into the editor.
func (c *chat) editLast() {
	if c.noSave || c.session == "" {
		if c.past.at == 0 && c.past.Len() > 0 {
			c.recall(1)
		}
		return
	}
	session := c.session
	go func() {
		last, err := c.lastMessage(session)
		c.after(func() {
			switch {
			case err != nil:
				c.fail(errorOf(err))
			case last == nil || c.turn != nil || c.session != session || !c.editor.Empty():
			default:
				c.revision = last
				if m := c.sent; m.text == last.text { // with its long pastes
					c.editor.SetDraft(m.draft)
					return
				}
				typed, _ := unattached(last.text)
				c.editor.Set(typed)
			}
		})
	}()
}

// lastMessage returns the last message of the user in a session, nil without one.
func (c *chat) lastMessage(session string) (last *revision, err error) {
	commands := map[string]bool{} // turns of run_command: the user has typed no message
	for from := int64(0); ; {
		page, err := forwarded(c.ctx, c, "mem", proto.MemReadSession, proto.ReadSession{SessionID: session, From: from})
		if err != nil {
			return nil, err
		}
		events, err := wire.Elements(page.Events)
		if err != nil {
			return nil, err
		}
		for i, event := range events {
			typ, err := wire.ReplyType(event)
			switch {
			case err != nil: // of a file that was edited
			case typ == proto.TypeTurn:
				var e proto.LogTurn
				if wire.DecodeReply(event, &e) == nil && e.Command {
					commands[e.Turn] = true
				}
			case typ == proto.TypeMessage:
				var e proto.LogMessage
				if wire.DecodeReply(event, &e) == nil && e.Role == proto.RoleUser && proto.ViaUser(e.Via) && !commands[e.Turn] && from > 0 {
					last = &revision{session, from, e.Typed()}
				}
			}
			if i < len(page.Offsets) {
				from = page.Offsets[i]
			}
		}
		if from = page.Next; !page.More {
			return last, nil
		}
	}
}

// sendRevised sends the edited message in a copy of the session. What is typed meanwhile
// waits.
func (c *chat) sendRevised(m message) {
	r := c.revision
	c.revision, c.ready = nil, false
	forward(c, "mem", proto.MemForkSession, proto.ForkSession{SessionID: r.session, Until: r.until}, func(copy proto.SessionPlace, err error) {
		c.ready = true
		if err != nil {
			c.fail(errorOf(err))
			c.returnToEditor([]*queued{{message: m}})
			c.revision = r
			return
		}
		c.session = copy.SessionID
		c.say("The earlier version stays as session %s. Files were not changed back: /undo", safe(shortID(r.session)))
		c.echo(m)
		c.begin(m)
	})
}
