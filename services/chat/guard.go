package chat

import (
	"time"

	"zino/services/chat/input"
	"zino/services/chat/screen"
)

// guardTime is how long a new dialog ignores keys.
const guardTime = 500 * time.Millisecond

// guard keeps what was typed ahead from answering a dialog. It opens some time after the
// frame with the dialog was written, and then everything that was typed until that moment
// is discarded, also what is still in the terminal's buffer.
type guard struct {
	seen bool       // a frame with the dialog was written, or is being written
	mark input.Mark // behind what is discarded; 0: the time is not over
	open bool       // keys count
}

// appeared is called with each frame that shows the dialog.
func (c *chat) appeared(g *guard, wait time.Duration) {
	if g.seen {
		return
	}
	g.seen = true
	mark := func() { g.mark = c.keys.Mark() }
	// The loop runs results when the frame has been written.
	go c.after(func() { time.AfterFunc(wait, func() { c.after(mark) }) })
}

// dialog returns the region with a dialog in the place of the editor.
func (c *chat) dialog(above []string, width, height int, dialog func(width, height int) (rows []string, row, column int)) screen.Region {
	rows, row, column := dialog(width, height)
	r := screen.Region{Rows: append(above, rows...), Row: len(above) + row, Col: column}
	if !small(width, height) && !c.start.Chat.ScreenReader {
		r.Rows = append(r.Rows, c.status(width-1))
	}
	return r
}

// passMark opens the guards whose mark has come.
func (c *chat) passMark(m input.Mark) {
	list := []*guard{c.approvals.guard, c.questions.guard, c.mode.choice}
	if c.choice != nil {
		list = append(list, c.choice.guard)
	}
	for _, g := range list {
		if g != nil {
			g.pass(m)
		}
	}
}

// pass is called with each mark among the events of the terminal.
func (g *guard) pass(m input.Mark) {
	if g.mark > 0 && m >= g.mark {
		g.open = true
	}
}
