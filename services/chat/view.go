package chat

import (
	"os"
	"strings"
	"time"

	"zino/pkg/text"
	"zino/services/chat/screen"
)

const prompt = "> "

// liveRows returns how many rows the live block may have.
func (c *chat) liveRows() int {
	_, height := c.screen.Size()
	return max(3, height/3)
}

// small reports whether the terminal has room for editor and activity only.
func small(width, height int) bool { return height < 5 || width < 20 }

// region returns what stands below the finished text. For screen readers that is the
// editor alone: they read each row that changes.
func (c *chat) region(width, height int) screen.Region {
	var rows []string
	if !c.start.Chat.ScreenReader {
		rows = c.above(width, height)
	}
	if len(c.approvals.list) > 0 {
		return c.dialog(rows, width, height, c.approvalRows)
	}
	if len(c.questions.list) > 0 {
		return c.dialog(rows, width, height, c.questionRows)
	}
	if c.choice != nil {
		if c.choice.guard != nil {
			c.appeared(c.choice.guard, guardTime)
		}
		row := c.widths.Clip(c.choice.text, width-1)
		return screen.Region{Rows: append(rows, row), Row: len(rows), Col: c.widths.Of(row)}
	}
	if c.picker != nil {
		return c.picker.region(c, rows, width, height)
	}
	if c.mode.choice != nil {
		return c.dialog(rows, width, height, c.planRows)
	}
	edit, row, column := c.editor.Layout(width-1-len(prompt), max(1, height/2))
	r := screen.Region{Row: len(rows) + row, Col: len(prompt) + column}
	for i, line := range edit {
		lead := prompt
		if i > 0 {
			lead = strings.Repeat(" ", len(prompt))
		}
		rows = append(rows, lead+line)
	}
	if c.search != nil {
		rows = append(rows, c.search.row(c, width))
		r.Row, r.Col = len(rows)-1, c.widths.Of(rows[len(rows)-1])
	}
	if c.menu != nil {
		rows = append(rows, c.menu.rows(c, width)...)
	}
	if !small(width, height) && !c.start.Chat.ScreenReader {
		rows = append(rows, c.status(width-1))
	}
	r.Rows = rows
	return r
}

// above returns the rows above the editor: the live block, what the turn does, and the
// messages that wait.
func (c *chat) above(width, height int) (rows []string) {
	if t := c.turn; t != nil {
		calls := c.callRows(t, width)
		var live []string
		if !small(width, height) {
			live = c.live(t)
			if c.gap(t, len(live) > 0, len(calls) > 0) {
				rows = append(rows, "")
			}
		}
		rows = append(append(append(rows, live...), calls...), c.activity(t, width))
	}
	rows = append(rows, c.queryRows(width)...)
	if small(width, height) {
		return rows
	}
	waiting := c.waiting()
	switch {
	case c.revision != nil:
		return append(rows, c.dim(c.widths.Clip("Enter sends this in a copy of the session · Esc: in this one", width-1)))
	case len(waiting) == 0:
		return append(rows, "")
	}
	for _, q := range waiting {
		label := q.label(false)
		rows = append(rows, c.dim(label+c.widths.Clip(safe(text.OneLine(q.draft.Shown())), width-1-len(label))))
	}
	return rows
}

// gap reports whether a blank row stands between the finished text and the rows of a turn:
// where there will be a blank line when they are printed, so that nothing moves then.
func (c *chat) gap(t *turn, live, calls bool) bool {
	switch {
	case c.printed == kindNone:
		return false
	case live:
		return c.printed != kindText && t.thought == ""
	case calls:
		return c.printed != kindTool
	}
	return c.printed == kindUser
}

// live returns the rows of the live block: the last of what is not final.
func (c *chat) live(t *turn) []string {
	var rows []string
	lines := t.stream.Live(c.liveRows())
	if t.thought != "" {
		lines = []string{c.dim(safe(t.thought))}
	}
	for len(lines) > 0 && lines[0] == "" && c.printed != kindText {
		lines = lines[1:]
	}
	width, _ := c.screen.Size()
	for _, line := range lines {
		wrapped := []string{line}
		if c.widths.Of(line) > width-1 { // a line of code
			wrapped = c.widths.Wrap(line, width-1)
		}
		rows = append(rows, wrapped...)
	}
	return rows[max(0, len(rows)-c.liveRows()):]
}

// since returns how long something lasts that began at a time. With NO_COLOR nothing
// moves: it is the time up to the last packet that changed something, so rows change only
// when the turn does something: a call begins, prints a line or ends, text arrives.
func (c *chat) since(t *turn, began time.Time) string { return elapsed(c.shownTime(t).Sub(began)) }

// shownTime returns the time for which rows are drawn.
func (c *chat) shownTime(t *turn) time.Time {
	if c.still {
		return t.changed
	}
	return c.now()
}

// callRows returns a row for each call that runs: name, argument, time, last line of
// output; and for those that wait for them.
func (c *chat) callRows(t *turn, width int) (rows []string) {
	for _, call := range t.calls {
		row := call.name
		if call.argument != "" {
			row += "  " + c.widths.Clip(call.argument, max(10, width/2))
		}
		if call.began.IsZero() {
			rows = append(rows, c.dim(c.widths.Clip(row+"  waiting", width-1)))
			continue
		}
		row += "  " + c.since(t, call.began)
		if last := call.lastLine(); last != "" {
			row += "  " + last
		}
		rows = append(rows, c.widths.Clip(row, width-1))
	}
	return rows[:min(len(rows), c.liveRows())] // the first ones end first
}

// activity returns the row that says what the turn does.
func (c *chat) activity(t *turn, width int) string {
	what, hint := "Working "+c.since(t, t.began), " · Esc stops"
	switch {
	case t.canceled:
		what, hint = "Stopping", ""
	case t.lost:
		what = "Connection lost, connecting again"
	case t.waiting.text != "":
		what, hint = t.waiting.show(c.shownTime(t)), ""
	case !t.thinking.IsZero():
		what, hint = "Thinking "+c.since(t, t.thinking), ""
	}
	if t.todo.active != "" {
		what += " · " + t.todo.active
	}
	return c.dim(c.widths.Clip(what, max(8, width-1-c.widths.Of(hint))) + hint)
}

// plainSigns reports whether the terminal's font lacks the signs.
func plainSigns() bool { return os.Getenv("TERM") == "linux" }

func homeDir() string {
	dir, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return dir
}
