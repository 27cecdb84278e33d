package chat

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	"zino/pkg/wire"
	"zino/proto"
)

// packet handles a packet of a turn. Packets of types that this version does not know are
// skipped.
func (c *chat) packet(p packet) {
	t := c.turn
	if p.turn != t || t == nil {
		return
	}
	switch {
	case p.err != nil:
		c.turnFailed(errorOf(p.err))
		return
	case p.end != nil: // without turn_ended
		c.ended(proto.TurnEnd{Turn: t.id, State: p.end.State})
		return
	case p.typ == typeLost:
		t.lost = true
		c.tell("Connection lost, connecting again.")
		return
	case p.typ == proto.TypeKeepalive:
		return
	}
	t.lost, t.changed = false, c.now()
	if t.id == "" && !c.isPlain() {
		decode(p, func(m turnOf) { c.identifyTurn(t, m.Turn) })
	}
	switch p.typ {
	case proto.TypeUserMessage:
		decode(p, func(m proto.UserMessage) { c.userMessage(t, m) })
	case proto.TypeLive:
		t.replay, t.rejoined = false, true
		c.questions = questions{} // those that are open follow
		c.syncApprovals()
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
		decode(p, c.used)
	case proto.TypeNotice:
		decode(p, func(n proto.Notice) { c.notice(t, n) })
	case proto.TypeTodo:
		decode(p, func(l proto.Todo) { c.tasks(t, l) })
	case proto.TypeTitle:
		decode(p, func(l proto.LogTitle) { c.retitle(l.Text) })
	case proto.TypeTurnState:
		decode(p, func(s proto.TurnState) { c.state(t, s) })
	case proto.TypeContinued:
		decode(p, func(m proto.Continued) { c.continued(t, m) })
	case proto.TypeApprovalRequested:
		decode(p, c.requestedApproval)
	case proto.TypeApprovalClosed:
		decode(p, c.closedApproval)
	case proto.TypeInputRequested:
		decode(p, c.requestedInput)
	case proto.TypeInputClosed:
		decode(p, c.closedInput)
	case proto.TypeTurnEnded:
		decode(p, func(e proto.TurnEnd) {
			if e.Turn == "" || e.Turn == t.id {
				c.ended(e)
			}
		})
	}
}

// turnOf is the turn of a packet.
type turnOf struct {
	Turn string `json:"turn,omitzero"`
}

// identifyTurn learns which turn is followed, if the session's open one was asked for.
func (c *chat) identifyTurn(t *turn, id string) {
	if t.id = id; id != "" && t.canceled {
		c.cancelTurn()
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

// messageLines is how many lines of a message are printed that was not typed here.
const messageLines = 10

// userMessage shows a message that came from the log, from another client, or that no
// user wrote.
func (c *chat) userMessage(t *turn, m proto.UserMessage) {
	if !proto.ViaUser(m.Via) {
		c.say("%s", safe(m.Text))
		return
	}
	if m.Via == proto.ViaStart && !t.elsewhere && !t.replay {
		return // it was printed when it was sent
	}
	if m.Via != proto.ViaSteer {
		c.unfolded.restart()
	}
	if sent, ok := c.delivered(m); ok {
		c.print(kindUser, c.quote(sent.draft.Shown(), sent.files())...)
		return
	}
	text := m.Typed()
	typed, _ := unattached(text)
	sent := message{draft: c.editor.NewDraft(typed), text: text}
	for _, a := range m.Attachments {
		sent.images = append(sent.images, picture{shown: imageShown(a)})
	}
	rows := c.quote(sent.draft.Shown(), sent.files())
	over := len(rows) - messageLines
	if over <= 0 {
		c.print(kindUser, rows...)
		return
	}
	n := c.items.add("message", c.outputRows(text))
	fold := "  " + c.dim(c.foldText(over, n))
	c.printFolded(kindUser, append(rows[:messageLines:messageLines], fold), rows)
}

// wait is what a turn waits for.
type wait struct {
	text  string    // "": nothing
	until time.Time // when the request is repeated; zero: unknown
}

// show returns the text of the activity line at a time.
func (w wait) show(now time.Time) string {
	if w.until.IsZero() {
		return w.text
	}
	return w.text + ", retry in " + elapsed(max(0, w.until.Sub(now).Round(time.Second)))
}

// httpStatus is the status in the text of a notice.
var httpStatus = regexp.MustCompile(`\bHTTP \d{3}\b`)

// notice prints a remark. One about a wait is shown in the activity line.
func (c *chat) notice(t *turn, n proto.Notice) {
	switch n.Kind {
	case proto.NoticeRetry:
		cause, _, _ := strings.Cut(n.Text, "; asking again")
		if status := httpStatus.FindString(cause); status != "" {
			cause = status
		}
		t.waiting = wait{"Waiting for " + safe(cmp.Or(n.Provider, c.provider, "the provider")) + ", " + safe(cause), c.now().Add(time.Duration(n.WaitMS) * time.Millisecond)}
		c.tell(t.waiting.show(c.now()) + ".")
	case proto.NoticeWait:
		t.waiting = wait{text: safe(n.Text)}
		c.tell(t.waiting.text)
	case proto.NoticeAgents:
		if n.Text != c.agents { // each turn reads them again
			c.agents = n.Text
			c.say("%s", safe(n.Text))
		}
	default:
		c.say("%s", safe(n.Text))
	}
}

// parkedFor says what a parked turn waits for.
var parkedFor = map[string]string{
	proto.ParkedApproval: "an approval", proto.ParkedLimit: "the provider's limit", proto.ParkedBudget: "the budget", proto.ParkedRestart: "the restart of the daemon",
}

// state shows what a turn waits for that does not run.
func (c *chat) state(t *turn, s proto.TurnState) {
	switch s.State {
	case proto.TurnResumed:
		c.retract(t)
		t.waiting = wait{}
	case proto.TurnParked:
		t.waiting = wait{text: "Waiting for " + safe(cmp.Or(parkedFor[s.Reason], s.Reason))}
		if s.Until != "" {
			t.waiting.text += " until " + c.localTime(s.Until)
		}
		if !t.replay {
			c.say("%s", t.waiting.text)
		}
	case proto.TurnQueued:
		t.waiting = wait{text: "Waiting for another turn to end"}
		c.tell(t.waiting.text + ".")
	case proto.TurnWaiting:
		t.waiting = wait{text: "Waiting for a turn of another terminal on this session"}
		c.tell(t.waiting.text + ".")
	default:
		t.waiting = wait{}
	}
}

// localTime formats a time of the wire for a person.
func (c *chat) localTime(s string) string {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return safe(s)
	}
	if t = t.Local(); t.Sub(c.now()) < 12*time.Hour {
		return t.Format("15:04")
	}
	return t.Format("2006-01-02 15:04")
}
