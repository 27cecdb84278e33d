package chat

import (
	"cmp"
	"fmt"
	"strings"

	"zino/pkg/wire"
	"zino/services/chat/screen"
)

// line describes the call of a request on one line.
func (a *approval) line() string {
	return strings.TrimSpace(safe(a.Call.Tool) + " " + argumentOf(a.Call.Tool, a.Call.Input))
}

// verb says what the tool wants to do.
func (a *approval) verb() string {
	does := map[string]string{"read": "read", "write": "write", "edit": "change"}[a.Call.Tool]
	return safe(a.Call.Tool) + " wants to " + cmp.Or(does, "run")
}

// approvalHead returns what is asked, why, and where the call would run.
func (c *chat) approvalHead(a *approval) string {
	head := a.verb()
	level := safe(a.Call.Sandbox)
	if a.Kind == "escalation" {
		head += " again"
		if c.sandbox != "" && level != "" && c.sandbox != level {
			level = safe(c.sandbox) + " → " + level
		}
	}
	if len(a.Reasons) > 0 {
		head += " (" + safe(strings.Join(a.Reasons, "; ")) + ")"
	}
	if level != "" {
		head += ", sandbox " + level
	}
	if a.Call.Network && a.Call.Sandbox != "off" {
		head += ", network"
	}
	if dir := a.Call.Cwd; dir != "" && dir != c.root {
		head += ", in " + safe(home(dir))
	}
	if n := len(c.approvals.list); n > 1 {
		head += fmt.Sprintf(", 1 of %d", n)
	}
	return head
}

// body returns the lines of the call itself, whole.
func (a *approval) body() (lines []string) {
	argument := a.argument()
	switch {
	case argument != "":
		lines = wholeLines(argument)
	case len(a.Preview.Commands) > 0:
		lines = wholeLines(strings.Join(a.Preview.Commands, "\n"))
	default:
		for key, value := range wire.Members(a.Call.Input) {
			lines = append(lines, wholeLines(string(key)+": "+unquoted(value))...)
		}
	}
	if a.Kind == "escalation" {
		if reason := a.member("escalate"); reason != "" {
			lines = append(lines, wholeLines("Reason: "+reason)...)
		}
		lines = append(lines, "The whole command runs again.")
	}
	return lines
}

// approvalDiff returns the rows of the preview of a change.
func (c *chat) approvalDiff(a *approval) []string {
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

// argument returns what the tool runs or changes, whole; "": the tool has no such argument.
func (a *approval) argument() string {
	switch a.Call.Tool {
	case "bash":
		return a.member("command")
	case "read", "write", "edit":
		return a.member("path")
	}
	return ""
}

// member returns an argument of the call; "": it is absent.
func (a *approval) member(name string) string {
	for key, value := range wire.Members(a.Call.Input) {
		if string(key) == name {
			return unquoted(value)
		}
	}
	return ""
}

// unquoted returns the text of a JSON string, and other JSON as it is.
func unquoted(raw []byte) string {
	if s, ok := wire.Unquote(nil, raw); ok {
		return string(s)
	}
	return string(raw)
}

// choices returns the answers that a request can be given.
func (a *approval) choices() []string {
	list := []string{"1 once"}
	if a.grants(grantSession) {
		list = append(list, "2 this session")
	}
	if a.grants(grantAlways) {
		always := "3 always"
		if pattern := a.pattern(); pattern != "" {
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
func (c *chat) approvalBody(a *approval, width, room int) (rows []string) {
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
func (c *chat) pageApproval(a approval) {
	lines := append(a.body(), c.approvalDiff(&a)...)
	c.page(c.approvalHead(&a) + "\n\n" + strings.Join(lines, "\n") + "\n")
}
