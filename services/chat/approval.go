package chat

import (
	"fmt"
	"strings"
	"time"

	"zino/pkg/wire"
	"zino/proto"
	"zino/services/chat/input"
	"zino/services/chat/screen"
)

// guard is how long a new dialog ignores keys: what was typed before it appeared must not
// answer it.
const guard = 500 * time.Millisecond

// approvalMethod is the daemon's method that answers a request. Modes and approvals exist
// where the daemon has it.
const approvalMethod = "approve"

// approval is a request of the daemon to allow a call.
type approval struct {
	ID   string `json:"id"`
	Call struct {
		Tool    string    `json:"tool"`
		Input   proto.Raw `json:"input"`
		Sandbox string    `json:"sandbox"`
	} `json:"call"`
	Digest  string   `json:"digest"`
	Reasons []string `json:"reasons"`
	Preview struct {
		Commands []string `json:"commands,omitzero"`
		Diff     string   `json:"diff,omitzero"`
	} `json:"preview,omitzero"`
	Grantable string `json:"grantable,omitzero"`
}

// approvalAnswer answers a request.
type approvalAnswer struct {
	ID      string `json:"id"`
	Digest  string `json:"digest"`
	Answer  string `json:"answer"`
	Note    string `json:"note,omitzero"`
	Pattern string `json:"pattern,omitzero"`
}

// approvals are the requests that wait; the first one is shown in the place of the
// editor.
type approvals struct {
	list  []approval
	shown time.Time // when the first one appeared
	entry *entry    // the pattern or the reason that is typed; nil: none
}

// entry is a line that is typed in a dialog.
type entry struct {
	label  string
	editor *input.Editor
	done   func(s string)
}

// approve is a method that this daemon may have.
var approve = proto.Method[approvalAnswer, proto.Empty]{Service: "daemon", Type: approvalMethod, Reply: "approval"}

// requestedApproval shows a request, or puts it behind those that wait.
func (c *chat) requestedApproval(payload []byte) {
	var a approval
	if wire.DecodeReply(payload, &a) != nil || a.ID == "" {
		return
	}
	for _, known := range c.approvals.list {
		if known.ID == a.ID {
			return
		}
	}
	if c.approvals.list = append(c.approvals.list, a); len(c.approvals.list) == 1 {
		c.approvals.shown = time.Now()
	}
	c.bell()
}

// closedApproval removes a request that was answered, here or elsewhere.
func (c *chat) closedApproval(payload []byte) {
	var closed struct {
		Approval string `json:"approval"`
	}
	if wire.DecodeReply(payload, &closed) != nil {
		return
	}
	for i, a := range c.approvals.list {
		if a.ID == closed.Approval {
			c.removeApproval(i)
			return
		}
	}
}

func (c *chat) removeApproval(i int) {
	list := c.approvals.list
	c.approvals.list = append(list[:i:i], list[i+1:]...)
	if i == 0 {
		c.approvals.entry, c.approvals.shown = nil, time.Now()
	}
}

// approvalKey handles a key while a request is shown.
func (c *chat) approvalKey(key input.Key) {
	p := &c.approvals
	if time.Since(p.shown) < guard {
		return
	}
	if p.entry != nil {
		c.entryKey(key)
		return
	}
	a := p.list[0]
	switch key.Name {
	case "1":
		c.answerApproval(approvalAnswer{Answer: "once"})
	case "2":
		if a.Grantable != "once" {
			c.answerApproval(approvalAnswer{Answer: "session"})
		}
	case "3":
		if a.Grantable == "" || a.Grantable == "always" {
			c.enterLine("always: ", a.pattern(), func(pattern string) { c.answerApproval(approvalAnswer{Answer: "always", Pattern: pattern}) })
		}
	case "4", "esc":
		c.enterLine("deny, because (Enter: no reason): ", "", func(note string) { c.answerApproval(approvalAnswer{Answer: "deny", Note: note}) })
	case "ctrl+c":
		c.cancelTurn()
	}
}

// enterLine asks for a line.
func (c *chat) enterLine(label, text string, done func(string)) {
	e := &entry{label: label, editor: input.NewEditor(c.widths), done: done}
	e.editor.Insert(text)
	c.approvals.entry = e
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
		e.editor.Apply(key, width)
	}
}

// answerApproval sends the answer to the first request.
func (c *chat) answerApproval(answer approvalAnswer) {
	a := c.approvals.list[0]
	answer.ID, answer.Digest = a.ID, a.Digest
	c.removeApproval(0)
	word := map[string]string{"once": "Allowed once", "session": "Allowed for this session", "always": "Always allowed", "deny": "Denied"}[answer.Answer]
	c.say("%s: %s", word, a.line())
	call(c, approve, answer, func(_ proto.Empty, err error) {
		if err != nil {
			c.fail(errorOf(err))
		}
	})
}

// line describes the call of a request on one line.
func (a *approval) line() string {
	return strings.TrimSpace(safe(a.Call.Tool) + " " + argumentOf(a.Call.Tool, a.Call.Input))
}

// pattern returns the narrowest pattern that is likely to be meant: the command with its
// first words.
func (a *approval) pattern() string {
	words := strings.Fields(argumentOf(a.Call.Tool, a.Call.Input))
	if len(words) > 2 {
		words = append(words[:2:2], "*")
	}
	return strings.Join(words, " ")
}

// rows returns the rows of the dialog, and the cursor.
func (p *approvals) rows(c *chat, width, height int) (rows []string, row, column int) {
	a := p.list[0]
	head := safe(a.Call.Tool) + " wants to run"
	if len(a.Reasons) > 0 {
		head += " (" + safe(strings.Join(a.Reasons, "; ")) + ")"
	}
	if a.Call.Sandbox != "" {
		head += ", sandbox " + safe(a.Call.Sandbox)
	}
	if len(p.list) > 1 {
		head += fmt.Sprintf(", 1 of %d", len(p.list))
	}
	rows = append(rows, c.paint(screen.Style{Bold: true}, c.widths.Clip(head, width-1)))
	var body []string
	switch {
	case a.Preview.Diff != "":
		rows, _, _ := c.diffRows(a.Preview.Diff)
		body = append([]string{argumentOf(a.Call.Tool, a.Call.Input)}, rows...)
	case len(a.Preview.Commands) > 0:
		for _, command := range a.Preview.Commands {
			body = append(body, outputLines(command)...)
		}
	default:
		body = outputLines(argumentOf(a.Call.Tool, a.Call.Input))
	}
	room := max(1, height/2)
	for i, line := range body {
		if i == room {
			rows = append(rows, c.dim(fmt.Sprintf("    … %d more lines", len(body)-room)))
			break
		}
		rows = append(rows, "    "+c.widths.Clip(c.widths.ExpandTabs(line, 0), width-5))
	}
	if p.entry != nil {
		edit, at, column := p.entry.editor.Layout(width-1-c.widths.Of(p.entry.label), 1)
		return append(rows, p.entry.label+edit[at]), len(rows), c.widths.Of(p.entry.label) + column
	}
	choices := []string{"1 once"}
	if a.Grantable != "once" {
		choices = append(choices, "2 this session")
	}
	if a.Grantable == "" || a.Grantable == "always" {
		choices = append(choices, fmt.Sprintf("3 always %q", a.pattern()))
	}
	rows = append(rows, c.widths.Clip(strings.Join(append(choices, "4 deny"), " · "), width-1))
	return rows, len(rows) - 1, 0
}
