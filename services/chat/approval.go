package chat

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"zino/pkg/text"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/chat/input"
)

// noteMax is the length of the reason of a denial, in characters.
const noteMax = 2000

// Values of approval.Grantable and approvalAnswer.Answer.
const (
	grantOnce    = "once"
	grantSession = "session"
	grantAlways  = "always"
	answerDeny   = "deny"
)

// approval is a request of the daemon to allow a call.
type approval struct {
	ID        string `json:"id"`
	State     string `json:"state,omitzero"`
	SessionID string `json:"session_id,omitzero"`
	Kind      string `json:"kind,omitzero"`
	Call      struct {
		Tool    string    `json:"tool"`
		Input   proto.Raw `json:"input"`
		Root    string    `json:"root,omitzero"`
		Cwd     string    `json:"cwd,omitzero"`
		Sandbox string    `json:"sandbox,omitzero"`
		Network bool      `json:"network,omitzero"`
	} `json:"call"`
	Digest  string   `json:"digest"`
	Reasons []string `json:"reasons,omitzero"`
	Preview struct {
		Commands []string `json:"commands,omitzero"`
		Diff     string   `json:"diff,omitzero"`
	} `json:"preview,omitzero"`
	Grantable string `json:"grantable,omitzero"` // the widest grant; "": always

	closed bool // it was answered elsewhere while an answer was on its way
}

// approvalAnswer answers a request.
type approvalAnswer struct {
	ID      string `json:"id"`
	Digest  string `json:"digest"`
	Answer  string `json:"answer"`
	Note    string `json:"note,omitzero"`
	Pattern string `json:"pattern,omitzero"`
}

// approvalQuery selects requests.
type approvalQuery struct {
	State     string `json:"state,omitzero"`
	SessionID string `json:"session_id,omitzero"`
}

// approvalList is the answer to approvalQuery.
type approvalList struct {
	Approvals []approval `json:"approvals"`
}

// The methods of a daemon with approvals. proto does not declare them yet.
var (
	approve       = proto.Method[approvalAnswer, proto.Empty]{Service: "daemon", Type: "approve", Reply: "approval"}
	listApprovals = proto.Method[approvalQuery, approvalList]{Service: "daemon", Type: "approvals", Reply: "approval_list"}
)

// approvals are the requests that wait. The first one is shown in the place of the editor.
type approvals struct {
	list  []approval
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
	return slices.IndexFunc(p.list, func(a approval) bool { return a.ID == id })
}

// requestedApproval shows a request, or puts it behind those that wait. After a lost
// connection the daemon sends those that wait again.
func (c *chat) requestedApproval(payload []byte) {
	var a approval
	if wire.DecodeReply(payload, &a) != nil || a.ID == "" || a.State != "" && a.State != "pending" {
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
func (c *chat) updateApproval(i int, a approval) {
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
func (c *chat) closedApproval(payload []byte) {
	var closed struct {
		Approval string    `json:"approval"`
		State    string    `json:"state"`
		By       proto.Raw `json:"by,omitzero"`
	}
	if wire.DecodeReply(payload, &closed) != nil {
		return
	}
	p := &c.approvals
	i := p.find(closed.Approval)
	if i < 0 {
		return
	}
	if i == 0 && p.sent { // most likely by this chat: the answer to it says more
		p.list[0].closed = true
		return
	}
	what, line := closed.State, p.list[i].line()
	switch closed.State {
	case "approved", "used":
		what = "Allowed"
	case "denied":
		what = "Denied"
	case "expired":
		what = "Expired"
	case "canceled", "stale", "":
		what = "No longer needed"
	}
	if by := person(closed.By); by != "" {
		what += " by " + by
	}
	c.say("%s: %s", safe(what), line)
	c.removeApproval(closed.Approval)
}

// person formats the user that the daemon names: an object with uid and user, or a text.
func person(raw proto.Raw) string {
	var by struct {
		UID  *int   `json:"uid,omitzero"`
		User string `json:"user,omitzero"`
	}
	if name, ok := wire.Unquote(nil, raw); ok {
		return safe(string(name))
	}
	switch err := wire.DecodeReply(raw, &by); {
	case err != nil:
		return ""
	case by.UID == nil:
		return safe(by.User)
	case by.User == "":
		return fmt.Sprintf("uid %d", *by.UID)
	}
	return fmt.Sprintf("%s (uid %d)", safe(by.User), *by.UID)
}

// syncApprovals drops the requests that are no longer pending: while the connection was
// lost, nothing said so.
func (c *chat) syncApprovals() {
	if len(c.approvals.list) == 0 || c.approvals.sent {
		return
	}
	call(c, listApprovals, approvalQuery{State: "pending", SessionID: c.session}, func(list approvalList, err error) {
		if err != nil {
			return // the dialogs stay: an answer to one that is over gets an error
		}
		for _, a := range slices.Clone(c.approvals.list) {
			if !slices.ContainsFunc(list.Approvals, func(b approval) bool { return b.ID == a.ID }) && (!c.approvals.sent || a.ID != c.approvals.list[0].ID) {
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
		c.answerApproval(approvalAnswer{Answer: grantOnce})
	case "2":
		if a.grants(grantSession) {
			c.answerApproval(approvalAnswer{Answer: grantSession})
		}
	case "3":
		if !a.grants(grantAlways) {
			return
		}
		pattern := a.pattern()
		if pattern == "" {
			c.answerApproval(approvalAnswer{Answer: grantAlways})
			return
		}
		c.enterLine("Always allow what matches this · Enter · Esc: back", pattern, func(pattern string) {
			if pattern != "" {
				c.answerApproval(approvalAnswer{Answer: grantAlways, Pattern: pattern})
			}
		})
	case "4", "esc":
		c.enterLine("Deny. A reason for the model, or none · Enter · Esc: back", "", func(note string) {
			c.answerApproval(approvalAnswer{Answer: answerDeny, Note: text.Clip(note, noteMax)})
		})
	}
}

// grants reports whether a request can be answered with session or always.
func (a *approval) grants(scope string) bool {
	switch cmp.Or(a.Grantable, grantAlways) {
	case grantOnce:
		return false
	case grantSession:
		return scope == grantSession
	}
	return true
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
func (c *chat) answerApproval(answer approvalAnswer) {
	p := &c.approvals
	a := p.list[0]
	answer.ID, answer.Digest = a.ID, a.Digest
	p.sent = true
	call(c, approve, answer, func(_ proto.Empty, err error) {
		if err != nil {
			c.fail(errorOf(err))
			c.refreshApproval(a.ID)
			return
		}
		what := map[string]string{grantOnce: "Allowed once", grantSession: "Allowed for this session", grantAlways: "Always allowed", answerDeny: "Denied"}[answer.Answer]
		c.say("%s: %s", what, a.line())
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
	call(c, listApprovals, approvalQuery{State: "pending", SessionID: c.session}, func(list approvalList, err error) {
		i := p.find(id)
		if i < 0 {
			return
		}
		at := slices.IndexFunc(list.Approvals, func(a approval) bool { return a.ID == id })
		switch {
		case err == nil && at < 0 || p.list[i].closed:
			c.removeApproval(id)
			return
		case err == nil:
			p.list[i] = list.Approvals[at]
		}
		if i == 0 {
			c.showApproval()
		}
	})
}
