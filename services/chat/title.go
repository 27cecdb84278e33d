package chat

import "zino/proto"

// rename gives the session a title.
func (c *chat) rename(title string) {
	if !c.stored() {
		return
	}
	if title == "" {
		c.say("Give a title: /rename TITLE")
		return
	}
	session := c.session
	call(c, proto.DaemonRenameSession, proto.RenameSession{SessionID: session, Title: title}, func(_ proto.Empty, err error) {
		if err != nil {
			c.fail(errorOf(err))
			return
		}
		c.say("The title of session %s is now: %s", shortID(session), safe(title))
		if c.session == session {
			c.retitle(title)
		}
	})
}

// readTitle asks for the title, which another terminal may have changed while no turn was
// followed. The beginning of the first message is not a title.
func (c *chat) readTitle() {
	session := c.session
	forward(c, "mem", proto.MemFindSession, proto.FindSession{SessionID: session}, func(s proto.SessionSummary, err error) {
		if err == nil && c.session == session && s.SessionID == session && s.Title != s.Text {
			c.retitle(s.Title)
		}
	})
}
