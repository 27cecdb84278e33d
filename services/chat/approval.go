package chat

import (
	"slices"
	"strings"

	"zino/pkg/approval"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/chat/input"
)

// noteMax is the length of the reason of a denial, in characters.
const noteMax = 2000

// asked is a request of the daemon to allow a call.
type asked struct {
	proto.Approval
	closed bool // it was answered elsewhere while an answer was on its way
}

// approvals are the requests that wait. The first one is shown in the place of the editor.
type approvals struct {
	list  []asked
	guard *guard // of the first one
	entry *entry // the pattern or the reason that is typed; nil: none
	sent  bool   // the answer to the first one is on its way
}

// entry is a line that is typed in a dialog.
type entry struct {
	label  string
	editor *input.Editor
	done   func(s string)
}

func (p *approvals) find(id string) int {
	return slices.IndexFunc(p.list, func(a asked) bool { return a.ID == id })
}

// requestedApproval shows a request, or puts it behind those that wait. After a lost
// connection the daemon sends those that wait again.
func (c *chat) requestedApproval(request proto.Approval) {
	a := asked{Approval: request}
	if a.ID == "" || a.State != "" && a.State != proto.ApprovalPending {
		return
	}
	p := &c.approvals
	if i := p.find(a.ID); i >= 0 {
		c.updateApproval(i, a)
		return
	}
	if p.list = append(p.list, a); len(p.list) == 1 {
		c.showApproval()
	}
	c.bell()
}

// updateApproval replaces a request whose call has changed.
func (c *chat) updateApproval(i int, a asked) {
	p := &c.approvals
	if p.list[i].Digest == a.Digest {
		return
	}
	if p.list[i] = a; i == 0 {
		c.showApproval()
	}
}

// showApproval shows the first request anew.
func (c *chat) showApproval() {
	p := &c.approvals
	p.guard, p.entry, p.sent = &guard{}, nil, false
	if c.start.Chat.ScreenReader {
		c.printApproval()
	}
}

// removeApproval removes a request, and shows the next one if it was the first.
func (c *chat) removeApproval(id string) {
	p := &c.approvals
	i := p.find(id)
	if i < 0 {
		return
	}
	p.list = slices.Delete(p.list, i, i+1)
	switch {
	case len(p.list) == 0:
		*p = approvals{}
	case i == 0:
		c.showApproval()
	}
}

// closedApproval removes a request that was answered on another terminal, or that is void.
func (c *chat) closedApproval(closed proto.ApprovalClosed) {
	p := &c.approvals
	i := p.find(closed.Approval)
	if i < 0 {
		return
	}
	if i == 0 && p.sent { // most likely by this chat: the answer to it says more
		p.list[0].closed = true
		return
	}
	c.say("%s: %s", safe(approval.ClosedText(closed.State, closed.By)), p.list[i].line())
	c.removeApproval(closed.Approval)
}

// syncApprovals drops the requests that are no longer pending: while the connection was
// lost, nothing said so.
func (c *chat) syncApprovals() {
	if len(c.approvals.list) == 0 || c.approvals.sent {
		return
	}
	call(c, proto.DaemonApprovals, proto.ListApprovals{}, func(list proto.ApprovalList, err error) {
		if err != nil {
			return // the dialogs stay: an answer to one that is over gets an error
		}
		for _, a := range slices.Clone(c.approvals.list) {
			if !slices.ContainsFunc(list.Approvals, func(b proto.Approval) bool { return b.ID == a.ID }) && (!c.approvals.sent || a.ID != c.approvals.list[0].ID) {
				c.say("No longer needed: %s", a.line())
				c.removeApproval(a.ID)
			}
		}
	})
}

// approvalKey handles a key while a request is shown.
func (c *chat) approvalKey(key input.Key) {
	p := &c.approvals
	switch {
	case !p.guard.open:
		return
	case p.entry != nil:
		c.entryKey(key)
		return
	}
	a := p.list[0]
	switch key.Name {
	case "ctrl+c":
		c.cancelTurn()
		return
	case "ctrl+z":
		p.guard = &guard{}
		c.suspend()
		return
	case "ctrl+o":
		p.guard = &guard{}
		c.pageApproval(a)
		return
	case "ctrl+l":
		if c.screen.Clear() != nil {
			c.hangup()
		}
		return
	}
	if p.sent {
		return
	}
	switch key.Name {
	case "1":
		c.answerApproval(proto.Approve{Answer: proto.AnswerOnce})
	case "2":
		if approval.Grants(&a.Approval, proto.AnswerSession) {
			c.answerApproval(proto.Approve{Answer: proto.AnswerSession})
		}
	case "3":
		if !approval.Grants(&a.Approval, proto.AnswerAlways) {
			return
		}
		pattern := approval.Pattern(&a.Call)
		if pattern == "" {
			c.answerApproval(proto.Approve{Answer: proto.AnswerAlways})
			return
		}
		c.enterLine("Always allow what matches this · Enter · Esc: back", pattern, func(pattern string) {
			if pattern != "" {
				c.answerApproval(proto.Approve{Answer: proto.AnswerAlways, Pattern: pattern})
			}
		})
	case "4", "esc":
		c.enterLine("Deny. A reason for the model, or none · Enter · Esc: back", "", func(note string) {
			c.answerApproval(proto.Approve{Answer: proto.AnswerDeny, Note: text.Clip(note, noteMax)})
		})
	}
}

// enterLine asks for a line.
func (c *chat) enterLine(label, s string, done func(string)) {
	e := &entry{label: label, editor: input.NewEditor(c.widths), done: done}
	e.editor.Insert(s)
	c.approvals.entry = e
	if c.start.Chat.ScreenReader {
		c.say("%s", label)
	}
}

func (c *chat) entryKey(key input.Key) {
	e := c.approvals.entry
	switch key.Name {
	case "enter":
		c.approvals.entry = nil
		e.done(strings.TrimSpace(e.editor.Text()))
	case "esc", "ctrl+c":
		c.approvals.entry = nil
	default:
		width, _ := c.screen.Size()
		e.editor.Apply(key, width-1-len(prompt))
	}
}

// answerApproval sends the answer to the first request. The dialog stays until the daemon
// has accepted it.
func (c *chat) answerApproval(answer proto.Approve) {
	p := &c.approvals
	a := p.list[0]
	answer.ID, answer.Digest = a.ID, a.Digest
	p.sent = true
	call(c, proto.DaemonApprove, answer, func(_ proto.Approval, err error) {
		if err != nil {
			c.fail(errorOf(err))
			c.refreshApproval(a.ID)
			return
		}
		c.say("%s: %s", approval.Answered[answer.Answer], a.line())
		c.removeApproval(a.ID)
	})
}

// refreshApproval shows a request again whose answer was refused, as it is now, unless it
// is no longer pending.
func (c *chat) refreshApproval(id string) {
	p := &c.approvals
	if i := p.find(id); i < 0 {
		return
	} else if p.list[i].closed {
		c.removeApproval(id)
		return
	}
	call(c, proto.DaemonApprovals, proto.ListApprovals{}, func(list proto.ApprovalList, err error) {
		i := p.find(id)
		if i < 0 {
			return
		}
		at := slices.IndexFunc(list.Approvals, func(a proto.Approval) bool { return a.ID == id })
		switch {
		case err == nil && at < 0 || p.list[i].closed:
			c.removeApproval(id)
			return
		case err == nil:
			p.list[i].Approval = list.Approvals[at]
		}
		if i == 0 {
			c.showApproval()
		}
	})
}
