package chat

import (
	"strings"
	"time"

	"zino/pkg/mention"
	"zino/pkg/text"
	"zino/proto"
	"zino/services/chat/input"
)

const (
	// messageMax is the largest message, in bytes.
	messageMax = 8 << 20
	// twice is how soon a second Ctrl-C leaves.
	twice = 2 * time.Second
	// doubleEsc is how soon a second Esc counts as a double one.
	doubleEsc = 500 * time.Millisecond
)

// visible makes a line of a message harmless.
func visible(s string) string { return text.Visible(strings.ReplaceAll(s, "\t", "    ")) }

// input handles what the terminal sends.
func (c *chat) input(event input.Event) {
	switch e := event.(type) {
	case input.Key:
		c.screen.Urgent()
		c.key(e)
	case input.Mark:
		c.passMark(e)
	case input.Paste:
		if len(c.approvals.list) > 0 || c.choice != nil { // a paste answers nothing
			return
		}
		if q := &c.questions; len(q.list) > 0 {
			if q.guard.open && !q.sent { // Enter sends it
				q.editor.Insert(strings.Join(strings.FieldsFunc(string(e), func(r rune) bool { return r == '\n' || r == '\r' }), " "))
			}
			return
		}
		c.mode.choice = nil
		if c.picker != nil {
			c.picker.filterBy(strings.Join(strings.Fields(string(e)), " "))
			return
		}
		c.closeMenu()
		pasted := string(e)
		if mentioned, ok := mention.Image(pasted, c.root, homeDir()); ok {
			pasted = mentioned + " "
		}
		c.editor.Paste(pasted)
	case input.Focus:
		c.focusing, c.focused = true, bool(e)
	case input.Position:
		c.screen.Position(e.Col)
	case input.TerminalName:
		c.name = string(e)
		if strings.HasPrefix(c.name, "XTerm") {
			c.screen.Reflows = false
		}
	}
}

// key handles a key.
func (c *chat) key(key input.Key) {
	if key.Name != "ctrl+c" {
		c.leaving = time.Time{}
	}
	escaped := c.escaped
	c.escaped = time.Time{}
	switch {
	case len(c.approvals.list) > 0:
		c.approvalKey(key)
		return
	case len(c.questions.list) > 0:
		c.questionKey(key)
		return
	case c.choice != nil:
		c.choice.key(c, key)
		return
	case c.picker != nil:
		c.picker.key(c, key)
		return
	case c.mode.choice != nil && c.planKey(key):
		return
	case c.search != nil && c.searchKey(key):
		return
	case c.menu != nil && c.menuKey(key):
		return
	}
	width, _ := c.screen.Size()
	switch key.Name {
	case "enter":
		c.enter()
	case "tab":
		c.tab()
	case "shift+tab":
		c.nextMode()
	case "esc":
		c.escape(escaped)
	case "ctrl+c":
		c.ctrlC()
	case "ctrl+d":
		if c.editor.Empty() {
			c.leave(0)
			return
		}
		c.editor.Apply(key, width-1-len(prompt))
	case "ctrl+z":
		c.suspend()
	case "ctrl+l":
		if c.screen.Clear() != nil {
			c.hangup()
		}
	case "ctrl+r":
		c.search = c.newSearch()
	case "ctrl+p":
		c.older()
	case "ctrl+n":
		c.newer()
	case "ctrl+t":
		c.cycleReasoning()
	case "ctrl+o":
		c.pageTurn()
	case "ctrl+g":
		c.editText()
	case "ctrl+x":
		// the first key of Ctrl-X Ctrl-E, which Ctrl-E completes below
		c.prefixed = true
		return
	case "ctrl+e":
		if c.prefixed {
			c.editText()
			break
		}
		c.editor.Apply(key, width-1-len(prompt))
	case "up":
		if c.editor.Empty() && len(c.waiting()) > 0 {
			c.takeBack()
		} else if !c.editor.Apply(key, width-1-len(prompt)) {
			c.older()
		}
	case "down":
		if !c.editor.Apply(key, width-1-len(prompt)) {
			c.newer()
		}
	default:
		if c.editor.Apply(key, width-1-len(prompt)) {
			c.complete(false)
		}
	}
	c.prefixed = false
	if c.editor.Empty() {
		c.revision = nil
	}
}

// enter sends the message, or goes on with it after a backslash.
func (c *chat) enter() {
	if shown := c.editor.Draft().Shown(); c.editor.BeforeCursor() == c.editor.Text() && strings.HasSuffix(shown, `\`) {
		c.editor.Apply(input.Key{Name: "backspace"}, 80)
		c.editor.Insert("\n")
		return
	}
	c.submit(proto.ViaSteer)
}

// submit carries out what is in the editor: a command, or a message. During a turn the
// message waits, to steer the turn or to be a turn of its own.
func (c *chat) submit(mode string) {
	draft := c.editor.Draft()
	typed := strings.TrimRight(draft.Text(), "\n")
	if strings.TrimSpace(typed) == "" {
		return
	}
	if len(typed) > messageMax {
		c.say("The message has %d MB; at most 8 MB fit. Name the file with @path.", (len(typed)+999_999)/1_000_000)
		return
	}
	c.closeMenu()
	if command, ok := commandOf(typed); ok {
		if !c.run(command, typed) {
			return
		}
		c.keep(typed)
		c.editor.Reset()
		return
	}
	if !c.accepts() {
		return
	}
	c.keep(typed)
	c.editor.Reset()
	text, images, notes := c.attach(textOf(typed))
	c.beginOrWait(message{draft: draft, text: text, images: images}, mode)
	for _, note := range notes {
		c.print(kindUserNote, c.dim("  "+note))
	}
}

// accepts reports whether a message can be sent or wait now, and says why it cannot.
func (c *chat) accepts() bool {
	switch {
	case (c.turn != nil || !c.ready) && len(c.queued) >= queuedMax:
		c.say("%d messages wait: wait for the turn to end, or press Esc.", queuedMax)
	case c.turn == nil && c.busy():
		c.say("Wait for the command to end, or press Esc.")
	default:
		return true
	}
	return false
}

// beginOrWait begins a turn with a message that was typed, or has it wait.
func (c *chat) beginOrWait(m message, mode string) {
	c.sent = m
	switch {
	case c.turn != nil || !c.ready:
		c.wait(m, mode)
	case c.revision != nil:
		c.sendRevised(m)
	default:
		c.echo(m)
		c.begin(m)
	}
}

// tab completes a word, or queues the message during a turn.
func (c *chat) tab() {
	if c.complete(true) || c.turn == nil {
		return
	}
	c.submit(proto.ViaQueue)
}

// escape interrupts the turn. Twice at an empty prompt it brings the last message back.
func (c *chat) escape(before time.Time) {
	switch {
	case c.turn != nil:
		c.cancelTurn()
	case c.stopQueries():
	case c.revision != nil:
		c.revision = nil
	case c.editor.Empty() && c.now().Sub(before) < doubleEsc:
		c.editLast()
	default:
		c.escaped = c.now()
	}
}

func (c *chat) ctrlC() {
	switch {
	case c.turn != nil && c.editor.Empty():
		c.cancelTurn()
	case !c.editor.Empty():
		c.editor.Clear()
	case c.now().Sub(c.leaving) < twice:
		c.leave(0)
	default:
		c.leaving = c.now()
		c.say("Press Ctrl-C again to leave")
	}
}
