package chat

import (
	"fmt"
	"os"
	"strings"
	"time"

	"zino/proto"
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

// region returns what stands below the finished text.
func (c *chat) region(width, height int) screen.Region {
	var rows []string
	if t := c.turn; t != nil {
		if !small(width, height) && !c.start.Chat.ScreenReader {
			rows = append(rows, c.live(t)...)
		}
		if !c.start.Chat.ScreenReader {
			rows = append(rows, c.activity(t, width)...)
		}
	}
	if !small(width, height) {
		if len(c.queued) == 0 {
			rows = append(rows, "")
		}
		for _, q := range c.queued {
			label := "next: "
			if q.mode == proto.ViaQueue {
				label = "then: "
			}
			rows = append(rows, c.dim(label+c.widths.Clip(safe(strings.ReplaceAll(typedOf(q.text), "\n", " ")), width-1-len(label))))
		}
	}
	if len(c.approvals.list) > 0 {
		dialog, row, column := c.approvals.rows(c, width, height)
		return screen.Region{Rows: append(rows, dialog...), Row: len(rows) + row, Col: column}
	}
	if c.picker != nil {
		return c.picker.region(c, rows, width, height)
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
		rows = append(rows, c.search.row())
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

// live returns the rows of the live block.
func (c *chat) live(t *turn) []string {
	var rows []string
	lines := t.stream.Live(c.liveRows())
	if len(lines) > 0 && c.printed != kindText && c.printed != kindNone {
		rows = append(rows, "")
	}
	for len(lines) > 0 && lines[0] == "" && len(rows) > 0 {
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

// activity returns the rows that say what the turn does.
func (c *chat) activity(t *turn, width int) (rows []string) {
	for _, call := range t.calls {
		if call.began.IsZero() {
			continue
		}
		row := call.name
		if call.argument != "" {
			row += "  " + c.widths.Clip(call.argument, max(10, width/2))
		}
		row += "  " + elapsed(time.Since(call.began))
		if last := call.lastLine(); last != "" {
			row += "  " + last
		}
		rows = append(rows, c.widths.Clip(c.widths.ExpandTabs(row, 0), width-1))
	}
	what := "Working " + elapsed(time.Since(t.began))
	switch {
	case t.canceled:
		what = "Stopping"
	case t.lost:
		what = "Connecting again"
	case t.waiting != "":
		what = t.waiting
	case !t.thinking.IsZero():
		what = "Thinking " + elapsed(time.Since(t.thinking))
	}
	if t.todoNow != "" {
		what += " · " + t.todoNow
	}
	const hint = " · Esc stops"
	return append(rows, c.dim(c.widths.Clip(what, width-1-len(hint))+hint))
}

// status returns the status line, with what the width has room for.
func (c *chat) status(width int) string {
	type part struct {
		name, text string
	}
	var parts []part
	add := func(name, s string) {
		if s != "" {
			parts = append(parts, part{name, s})
		}
	}
	model := safe(c.model)
	if model == "" && c.ready {
		model = "no model: /provider"
	}
	add("model", model)
	add("directory", safe(home(c.root)))
	add("title", c.title)
	if c.request.NoSave {
		add("title", "not saved")
	}
	level := c.sandbox
	if level == "off" {
		level = "sandbox off"
	}
	add("sandbox", level)
	add("cost", c.usage.cost())
	add("context", c.usage.context())
	if n := len(c.queued); n > 0 {
		add("queue", fmt.Sprintf("%d queued", n))
	}
	join := func() string {
		var list []string
		for _, p := range parts {
			list = append(list, p.text)
		}
		return strings.Join(list, " · ")
	}
	for _, drop := range []string{"queue", "cost", "sandbox", "title", "directory", "model"} {
		if c.widths.Of(join()) <= width {
			break
		}
		for i, p := range parts {
			if p.name == drop {
				parts = append(parts[:i], parts[i+1:]...)
				break
			}
		}
	}
	return c.dim(c.widths.Clip(join(), width))
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

// quote returns the rows of the user's message as it is printed.
func (c *chat) quote(message string) (rows []string) {
	message, files := unattached(message)
	for i, line := range strings.Split(strings.TrimRight(message, "\n"), "\n") {
		for j, row := range c.wrap(visible(line)) {
			lead := prompt
			if i > 0 || j > 0 {
				lead = "  "
			}
			rows = append(rows, c.paint(screen.Style{Bold: true}, lead+row))
		}
	}
	for _, file := range files {
		rows = append(rows, c.dim("  "+file))
	}
	return rows
}
