package chat

import (
	"fmt"
	"strings"

	"zino/pkg/approval"
	"zino/proto"
	"zino/services/chat/screen"
)

// line describes the call of a request on one line.
func (a *asked) line() string { return askedLine(&a.Call) }

func askedLine(call *proto.AskedCall) string {
	name, input := approval.Shown(call.Tool, call.Input)
	return strings.TrimSpace(safe(name) + " " + argumentOf(name, input))
}

// approvalHead returns what is asked, why, and where the call would run.
func (c *chat) approvalHead(a *asked) string {
	head := safe(approval.Head(&a.Approval, c.root, home))
	if n := len(c.approvals.list); n > 1 {
		head += fmt.Sprintf(", 1 of %d", n)
	}
	return head
}

// body returns the lines of the call itself, whole.
func (a *asked) body() []string { return wholeLines(approval.Body(&a.Approval)) }

// approvalDiff returns the rows of the preview of a change.
func (c *chat) approvalDiff(a *asked) []string {
	rows, _, _ := c.diffRows(a.Preview.Diff)
	if len(rows) == 0 && a.Preview.Diff != "" { // not a diff
		return wholeLines(a.Preview.Diff)
	}
	return rows
}

// wholeLines returns the lines of a text, harmless and not shortened.
func wholeLines(s string) (lines []string) {
	for line := range strings.SplitSeq(strings.TrimRight(s, "\n"), "\n") {
		lines = append(lines, visibleText(line))
	}
	return lines
}

// choices returns the answers that a request can be given.
func (a *asked) choices() []string {
	list := []string{"1 once"}
	if approval.Grants(&a.Approval, proto.AnswerSession) {
		list = append(list, "2 this session")
	}
	if approval.Grants(&a.Approval, proto.AnswerAlways) {
		always := "3 always"
		if pattern := approval.Pattern(&a.Call); pattern != "" {
			always += ` "` + safe(pattern) + `"`
		}
		list = append(list, always)
	}
	return append(list, "4 deny")
}

// approvalRows returns the rows of the dialog, and the cursor.
func (c *chat) approvalRows(width, height int) (rows []string, row, column int) {
	p := &c.approvals
	c.appeared(p.guard, guardTime)
	a := &p.list[0]
	if !c.start.Chat.ScreenReader { // it is printed
		choices := c.choiceRows(a.choices(), width-1)
		for _, line := range c.widths.Wrap(c.approvalHead(a), width-1) {
			rows = append(rows, c.paint(screen.Style{Bold: true}, line))
		}
		room := max(1, min(height/2, height-2-len(rows)-len(choices)))
		rows = append(rows, c.approvalBody(a, width, room)...)
		if p.entry == nil {
			if p.sent || !p.guard.open { // keys are ignored
				for i := range choices {
					choices[i] = c.dim(choices[i])
				}
			}
			rows = append(rows, choices...)
			return rows, len(rows) - 1, 0
		}
		rows = append(rows, c.dim(c.widths.Clip(p.entry.label, width-1)))
	}
	if p.entry == nil {
		return append(rows, "Answer: "), len(rows), len("Answer: ")
	}
	edit, at, column := p.entry.editor.Layout(width-1-len(prompt), max(1, min(3, height/4)))
	for i, line := range edit {
		lead := prompt
		if i > 0 {
			lead = strings.Repeat(" ", len(prompt))
		}
		edit[i] = lead + line
	}
	return append(rows, edit...), len(rows) + at, len(prompt) + column
}

// approvalBody returns at most room rows of the call. Of what is run nothing is cut off at
// the right; rows that are not seen are counted.
func (c *chat) approvalBody(a *asked, width, room int) (rows []string) {
	for _, line := range a.body() {
		for _, part := range c.chop(c.widths.ExpandTabs(line, 0), width-5) {
			rows = append(rows, "    "+part)
		}
	}
	for _, row := range c.approvalDiff(a) {
		rows = append(rows, "    "+c.widths.Clip(row, width-5))
	}
	if len(rows) > room {
		more := len(rows) - room + 1
		rows = append(rows[:room-1], c.dim(fmt.Sprintf("    … %d more lines · Ctrl-O shows all", more)))
	}
	return rows
}

// choiceRows joins choices to rows of a width.
func (c *chat) choiceRows(choices []string, width int) (rows []string) {
	for i, choice := range choices {
		last := len(rows) - 1
		if i > 0 && c.widths.Of(rows[last])+3+c.widths.Of(choice) <= width {
			rows[last] += " · " + choice
			continue
		}
		rows = append(rows, c.widths.Clip(choice, width))
	}
	return rows
}

// chop breaks a line without styles into rows of a width, without changing its text.
func (c *chat) chop(line string, width int) (rows []string) {
	for c.widths.Of(line) > width {
		head := c.widths.Cut(line, width)
		if head == "" {
			break
		}
		rows = append(rows, head)
		line = line[len(head):]
	}
	return append(rows, line)
}

// printApproval prints the first request, for screen readers.
func (c *chat) printApproval() {
	a := &c.approvals.list[0]
	lines := c.wrap(c.approvalHead(a))
	for _, line := range append(a.body(), c.approvalDiff(a)...) {
		lines = append(lines, "    "+line)
	}
	c.print(kindLine, append(lines, c.wrap(strings.Join(a.choices(), ", "))...)...)
}

// pageApproval shows a request whole in the pager.
func (c *chat) pageApproval(a asked) {
	lines := append(a.body(), c.approvalDiff(&a)...)
	c.page(c.approvalHead(&a) + "\n\n" + strings.Join(lines, "\n") + "\n")
}
