package chat

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"zino/pkg/text"
	"zino/proto"
	"zino/services/chat/screen"
)

// kind is what a piece of finished text is. A blank line separates different kinds.
type kind int

const (
	kindNone kind = iota
	kindLine      // the chat's own lines
	kindUser
	kindUserNote // below a line of the user's, without a blank line
	kindCommand  // what the user typed for the chat: its reply follows without a blank line
	kindText
	kindAnswer // the end of a text: the next one is another
	kindTool
	kindThought
	kindThoughtEnd
	kindTasks
)

// separated reports whether a blank line stands between two pieces of finished text.
// Screen readers would read it.
func (c *chat) separated(k kind) bool {
	switch {
	case k == kindUserNote && (c.printed == kindUser || c.printed == k):
		return false
	case c.printed == kindNone, c.start.Chat.ScreenReader, c.printed == kindCommand && k == kindLine:
		return false
	case k == kindUser, k == kindCommand, k == kindTasks:
		return true
	}
	return c.printed != k
}

// print prints finished lines.
func (c *chat) print(k kind, lines ...string) { c.printFolded(k, lines, lines) }

// printFolded prints finished lines, which stand for whole ones.
func (c *chat) printFolded(k kind, lines, whole []string) {
	if len(lines) == 0 {
		return
	}
	gap := ""
	if c.separated(k) {
		gap = "\n"
	}
	c.printed = k
	c.put(gap + strings.Join(lines, "\n") + "\n")
	c.unfolded.add(gap + strings.Join(whole, "\n") + "\n")
}

// put prints finished text.
func (c *chat) put(s string) {
	if c.held != nil {
		c.held.WriteString(s)
		return
	}
	c.screen.Print(s)
}

// tell prints a state for screen readers, which have no activity line.
func (c *chat) tell(state string) {
	if c.start.Chat.ScreenReader && c.held == nil {
		c.say("%s", state)
	}
}

// say prints a line of the chat's own, wrapped.
func (c *chat) say(format string, args ...any) {
	c.print(kindLine, c.wrap(fmt.Sprintf(format, args...))...)
}

// warn prints a warning.
func (c *chat) warn(message string) { c.say("Warning: %s", safe(message)) }

// wrap breaks a text into lines of prose.
func (c *chat) wrap(s string) []string { return c.widths.Wrap(s, c.proseWidth()) }

// proseWidth returns the width of prose.
func (c *chat) proseWidth() int {
	width, _ := c.screen.Size()
	return max(8, min(width-1, cmp.Or(c.start.Chat.Width, 100)))
}

// safe makes foreign text harmless, on one line.
func safe(s string) string { return text.VisibleLine(s) }

// paint styles a text.
func (c *chat) paint(st screen.Style, s string) string { return c.palette.Paint(st, s) }

func (c *chat) dim(s string) string { return c.paint(screen.Style{Dim: true}, s) }

// sign returns a sign, or its word for terminals without it.
func (c *chat) sign(sign, word string) string {
	if c.start.Chat.ScreenReader || plainSigns() {
		return word
	}
	return sign
}

// home shortens a path below the home directory.
func home(path string) string {
	dir := homeDir()
	if path == dir {
		return "~"
	}
	if rest, ok := strings.CutPrefix(path, dir+string(filepath.Separator)); ok && dir != "" {
		return "~/" + rest
	}
	return path
}

// shortID returns the beginning of a session's id by which people name it.
func shortID(id string) string {
	if len(id) == len("6467336c-1f30-429b-8d2f-0123456789ab") && strings.Count(id, "-") == 4 {
		return id[:8]
	}
	return id
}

// identifiers is JSON without a text for people: an error's type, code and number.
var identifiers = regexp.MustCompile(`^[{\[](?:"[\w.:/-]*"|[\w.,:+{}\[\]-])*$`)

// details returns the lines of an error's details that say more than its message and the
// command that is tried next.
func details(e *proto.Error, try string) (lines []string) {
	if strings.Contains(text.OneLine(e.Message), text.OneLine(e.Details)) {
		return nil
	}
	for line := range strings.SplitSeq(strings.TrimSpace(e.Details), "\n") {
		said := strings.Contains(e.Message, strings.TrimSpace(line)) || try != "" && strings.Contains(line, try)
		if !said && !identifiers.MatchString(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// fail prints an error and what to do about it.
func (c *chat) fail(e *proto.Error) {
	message := e.Message
	for _, hop := range []string{"Agentic runtime error: ", "rtr error: "} { // relaying services
		message = strings.TrimPrefix(message, hop)
	}
	lines := c.wrap(fmt.Sprintf("Error [%s]: %s", e.Label(), safe(strings.TrimSpace(message))))
	for i := range lines {
		lines[i] = c.paint(screen.Style{Color: screen.Red}, lines[i])
	}
	try, whole := remedyOf(e, c.nextProvider())
	label := "  Details: "
	var more []string
	if !whole {
		more = details(e, try)
	}
	for _, line := range more {
		for _, row := range c.widths.Wrap(safe(line), c.proseWidth()-len(label)) {
			lines = append(lines, label+row)
			label = strings.Repeat(" ", len(label))
		}
	}
	if try != "" {
		lines = append(lines, "  Try: "+try)
	}
	c.print(kindLine, lines...)
}

// elapsed formats a duration in whole seconds.
func elapsed(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	if d < time.Hour {
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// quote returns the rows of the user's message as it is printed, with a line for each file
// that is attached to it.
func (c *chat) quote(message string, files []string) (rows []string) {
	for i, line := range strings.Split(strings.TrimRight(message, "\n"), "\n") {
		for j, row := range c.widths.Wrap(visible(line), c.proseWidth()-len(prompt)) {
			lead := prompt
			if i > 0 || j > 0 {
				lead = "  "
			}
			rows = append(rows, c.paint(screen.Style{Bold: true}, strings.TrimRight(lead+row, " ")))
		}
	}
	for _, file := range files {
		rows = append(rows, c.dim("  "+file))
	}
	return rows
}
