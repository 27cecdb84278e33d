package chat

import (
	"crypto/rand"
	"os"
	"slices"
	"strings"
	"time"
)

// notifyAfter is how long a turn takes at least whose end is announced.
const notifyAfter = 10 * time.Second

func requestID() string { return rand.Text() }

// notify announces the end of a long turn, if the chat may not have the focus.
func (c *chat) notify(t *turn, failed bool) {
	what := "done"
	if failed {
		what = "the turn failed"
	}
	if t.canceled || !c.announces(t) { // who stopped it is there
		return
	}
	c.ring(what)
}

// bell asks for attention: a request for approval waits.
func (c *chat) bell() {
	what := ""
	if c.turn != nil && c.announces(c.turn) {
		what = "a question waits"
	}
	c.ring(what)
}

// announces reports whether a turn is long enough, and the focus may be elsewhere: it was
// lost, or the terminal does not report it.
func (c *chat) announces(t *turn) bool {
	return c.now().Sub(t.began) >= notifyAfter && !(c.focusing && c.focused)
}

// ring rings the bell, and shows a text on terminals that are known to (OSC 9).
func (c *chat) ring(what string) {
	if c.start.Chat.Notify == "off" {
		return
	}
	seq := "\a"
	if what != "" && c.start.Chat.Notify != "bell" && c.isOneOf("iTerm", "WezTerm", "ghostty", "kitty") {
		seq += "\x1b]9;zino: " + what + "\x1b\\"
	}
	c.write(seq)
}

// knowsLinks reports whether the terminal is known to open links of OSC 8.
func (c *chat) knowsLinks() bool {
	return c.isOneOf("iTerm", "WezTerm", "ghostty", "kitty", "vscode", "VTE", "foot", "Konsole", "Windows Terminal")
}

// isOneOf reports whether the terminal's name begins with one of several.
func (c *chat) isOneOf(names ...string) bool {
	for _, name := range []string{c.name, os.Getenv("TERM_PROGRAM")} {
		if name != "" && slices.ContainsFunc(names, func(known string) bool {
			return strings.HasPrefix(strings.ToLower(name), strings.ToLower(known))
		}) {
			return true
		}
	}
	return false
}

// retitle sets the title of the session, and of the terminal.
func (c *chat) retitle(title string) {
	c.title = safe(title)
	if c.title == "" {
		c.terminal.SetTitle("zino")
		return
	}
	c.terminal.SetTitle("zino: " + c.title)
}
