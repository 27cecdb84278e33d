package chat

import (
	"errors"
	"slices"
	"strings"

	"zino/pkg/approval"
	"zino/pkg/form"
	"zino/proto"
	"zino/services/chat/input"
)

// questions are what MCP servers ask for. The first one is asked line by line, in the place
// of the editor. What is typed is kept nowhere.
type questions struct {
	list   []*form.Dialog
	guard  *guard // of the first one
	editor *input.Editor
	sent   bool // the answer to the first one is on its way
}

// requestedInput shows what a server asks for, or puts it behind those that wait. What cannot
// be read is of a later version: another client may answer it.
func (c *chat) requestedInput(in proto.InputRequested) {
	q := &c.questions
	dialog, err := form.NewDialog(in)
	if err != nil || slices.ContainsFunc(q.list, func(d *form.Dialog) bool { return d.ID() == in.ID }) {
		return
	}
	if q.list = append(q.list, dialog); len(q.list) == 1 {
		c.showQuestion()
	}
	c.bell()
}

// showQuestion begins with the first question.
func (c *chat) showQuestion() {
	c.questions.guard, c.questions.sent = &guard{}, false
	c.nextLine()
}

// nextLine prints what stands above the next line of the first question.
func (c *chat) nextLine() {
	q := &c.questions
	q.editor = input.NewEditor(c.widths)
	width, _ := c.screen.Size()
	var rows []string
	for line := range strings.Lines(q.list[0].Text()) {
		rows = append(rows, c.hang(c.widths.ExpandTabs(strings.TrimSuffix(line, "\n"), 0), width-1)...)
	}
	c.print(kindLine, rows...)
}

// removeQuestion removes a question, and shows the next one if it was the first.
func (c *chat) removeQuestion(id string) {
	q := &c.questions
	i := slices.IndexFunc(q.list, func(d *form.Dialog) bool { return d.ID() == id })
	if i < 0 {
		return
	}
	q.list = slices.Delete(q.list, i, i+1)
	switch {
	case len(q.list) == 0:
		*q = questions{}
	case i == 0:
		c.showQuestion()
	}
}

// closedInput removes a question that was answered on another terminal, or that is void.
func (c *chat) closedInput(closed proto.InputClosed) {
	q := &c.questions
	i := slices.IndexFunc(q.list, func(d *form.Dialog) bool { return d.ID() == closed.ID })
	if i < 0 || i == 0 && q.sent { // the answer to it says more
		return
	}
	c.say("%s: %s", safe(form.ClosedText(closed, approval.Person)), q.list[i].Line())
	c.removeQuestion(closed.ID)
}

// questionRows returns the rows of the line that is typed, and the cursor.
func (c *chat) questionRows(width, height int) (rows []string, row, column int) {
	q := &c.questions
	c.appeared(q.guard, guardTime)
	lead := c.widths.Clip(q.list[0].Prompt(), max(1, width/2))
	if q.sent || !q.guard.open { // keys are ignored
		return []string{c.dim(lead)}, 0, c.widths.Of(lead)
	}
	indent := strings.Repeat(" ", c.widths.Of(lead))
	rows, row, column = q.editor.Layout(width-1-len(indent), max(1, min(3, height/4)))
	for i, line := range rows {
		if rows[i] = indent + line; i == 0 {
			rows[i] = lead + line
		}
	}
	return rows, row, len(indent) + column
}

// questionKey handles a key while a server asks.
func (c *chat) questionKey(key input.Key) {
	q := &c.questions
	if !q.guard.open {
		return
	}
	switch key.Name {
	case "ctrl+c":
		c.cancelTurn()
		return
	case "ctrl+z":
		q.guard = &guard{}
		c.suspend()
		return
	case "ctrl+l":
		if c.screen.Clear() != nil {
			c.hangup()
		}
		return
	}
	switch {
	case q.sent:
	case key.Name == "enter":
		if answer := q.list[0].Enter(q.editor.Text()); answer != nil {
			c.answerQuestion(*answer)
			return
		}
		c.nextLine()
	case key.Name == "esc", key.Name == "ctrl+d" && q.editor.Empty():
		c.answerQuestion(*q.list[0].Cancel())
	default:
		width, _ := c.screen.Size()
		q.editor.Apply(key, width-1)
	}
}

// answerQuestion sends the answer to the first question. Values that the daemon refuses are
// asked for again.
func (c *chat) answerQuestion(answer proto.AnswerInput) {
	q := &c.questions
	dialog := q.list[0]
	q.sent = true
	call(c, proto.DaemonAnswerInput, answer, func(_ proto.Empty, err error) {
		if len(q.list) == 0 || q.list[0] != dialog {
			return
		}
		switch {
		case errors.Is(err, proto.ErrInvalid):
			dialog.Refused(err.Error())
			c.showQuestion()
			return
		case err != nil:
			c.fail(errorOf(err))
		default:
			c.say("%s: %s", form.Answered[answer.Action], dialog.Line())
		}
		c.removeQuestion(answer.ID)
	})
}
