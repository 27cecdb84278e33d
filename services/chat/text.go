package chat

import (
	"fmt"
	"strings"
	"time"

	"zino/pkg/text"
)

// reasoningMax is how many bytes of the reasoning of an inference are kept.
const reasoningMax = 1 << 20

// delta adds a piece of the answer.
func (c *chat) delta(t *turn, piece string) {
	c.endThought(t)
	t.waiting = wait{}
	if t.rejoined { // after a lost connection it is all of the text so far
		t.rejoined = false
		rest, ok := strings.CutPrefix(piece, t.received.String())
		if !ok {
			c.retract(t)
			rest = piece
		}
		piece = rest
	}
	t.received.WriteString(piece)
	c.text(t.stream.Write(piece))
}

// text prints final text of the answer.
func (c *chat) text(out string) {
	if out == "" {
		return
	}
	if c.printed == kindText { // the stream separates its blocks
		c.put(out)
		c.unfolded.add(out)
		return
	}
	c.print(kindText, strings.Split(strings.TrimSuffix(strings.TrimPrefix(out, "\n"), "\n"), "\n")...)
}

// final ends the text of an inference. What was missed in the pieces is added.
func (c *chat) final(t *turn, whole string) {
	c.endThought(t)
	t.rejoined = false
	if rest, ok := strings.CutPrefix(whole, t.received.String()); ok {
		c.text(t.stream.Write(rest))
	} else if strings.TrimSpace(whole) != strings.TrimSpace(t.received.String()) {
		c.retract(t)
		c.text(t.stream.Write(whole))
	}
	c.answer = whole
	c.endText(t)
}

// endText prints the rest of a text.
func (c *chat) endText(t *turn) {
	c.text(t.stream.End())
	t.received.Reset()
	if c.printed == kindText {
		c.printed = kindAnswer
	}
}

func (t *turn) dropThought() {
	t.thinking, t.thought = time.Time{}, ""
	t.reasoning.Reset()
}

// retract voids the text since the last final one, and the reasoning. What is printed
// stays.
func (c *chat) retract(t *turn) {
	t.dropThought()
	if t.received.Len() == 0 {
		return
	}
	printed := c.printed == kindText
	if !printed { // nothing of it is printed: it is dropped
		t.stream = c.newStream()
	}
	c.endText(t)
	if printed {
		c.say("The answer was interrupted and begins again.")
	}
}

// reasoning handles a piece of the model's reasoning.
func (c *chat) reasoning(t *turn, piece string) {
	if t.thinking.IsZero() {
		if t.received.Len() > 0 { // what follows in the answer is another text
			c.text(t.stream.End())
			c.printed = kindAnswer
		}
		t.thinking = c.now()
		c.tell("Thinking.")
	}
	t.waiting = wait{}
	if t.reasoning.Len() < reasoningMax {
		t.reasoning.WriteString(piece)
	}
	if c.reason != "show" {
		return
	}
	t.thought += piece
	if i := strings.LastIndexByte(t.thought, '\n'); i >= 0 {
		c.printThought(t.thought[:i])
		t.thought = t.thought[i+1:]
	}
}

// printThought prints lines of the reasoning.
func (c *chat) printThought(s string) {
	if c.printed != kindThought {
		s = strings.TrimLeft(s, "\n")
	}
	if s == "" {
		return
	}
	var lines []string
	for _, line := range c.wrap(text.Visible(strings.ToValidUTF8(s, "\ufffd"))) {
		lines = append(lines, c.dim(line))
	}
	c.print(kindThought, lines...)
}

// endThought ends the reasoning: its rest is printed, or that it was folded.
func (c *chat) endThought(t *turn) {
	if t.thinking.IsZero() {
		return
	}
	took := elapsed(c.now().Sub(t.thinking))
	rest := strings.TrimRight(t.thought, "\n")
	whole := strings.TrimSpace(t.reasoning.String())
	t.dropThought()
	switch {
	case whole == "" || c.reason == "hide":
	case c.reason == "show":
		c.printThought(rest)
		if c.printed == kindThought {
			c.printed = kindThoughtEnd
		}
	default:
		lines := c.outputRows(whole)
		n := c.items.add("reasoning", lines)
		fold := fmt.Sprintf("· thought for %s  [%d]", took, n)
		if c.start.Chat.ScreenReader {
			fold = fmt.Sprintf("Thought for %s: /show %d", took, n)
		}
		c.printFolded(kindThought, []string{c.dim(fold)}, append([]string{c.dim("· thought for " + took)}, indented(lines)...))
	}
}
