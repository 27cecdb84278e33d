package chat

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

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
	kindText
	kindAnswer // the end of a text: the next one is another
	kindTool
	kindThought
)

// print prints finished lines.
func (c *chat) print(k kind, lines ...string) {
	if len(lines) == 0 {
		return
	}
	below := k == kindUserNote && (c.printed == kindUser || c.printed == k)
	if c.printed != kindNone && !below && (c.printed != k || k == kindUser) {
		c.screen.Print("\n")
	}
	c.printed = k
	c.screen.Print(strings.Join(lines, "\n") + "\n")
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

// greet prints the first line.
func (c *chat) greet() {
	model := cmp.Or(c.model, "no model: /provider")
	parts := []string{"zino " + c.start.Version, safe(model), safe(home(c.root))}
	if c.sandbox != "" {
		parts = append(parts, "sandbox "+c.sandbox)
	}
	c.print(kindLine, strings.Join(append(parts, "/help"), " · "))
	for _, note := range c.start.Notes {
		c.print(kindLine, safe(note))
	}
}

// fail prints an error and what to do about it.
func (c *chat) fail(e *proto.Error) {
	line := fmt.Sprintf("Error [%s]: %s", cmp.Or(e.Kind, "internal"), safe(strings.TrimSpace(e.Message)))
	lines := c.wrap(line)
	for i := range lines {
		lines[i] = c.paint(screen.Style{Color: screen.Red}, lines[i])
	}
	if details := strings.TrimSpace(e.Details); details != "" && !strings.Contains(e.Message, details) {
		for i, line := range strings.Split(details, "\n") {
			label := "  Details: "
			if i > 0 {
				label = "           "
			}
			lines = append(lines, label+safe(line))
		}
	}
	if try := remedy(e, c.request.Provider); try != "" {
		lines = append(lines, "  Try: "+try)
	}
	c.print(kindLine, lines...)
}
