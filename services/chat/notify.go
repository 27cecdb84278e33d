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

// notify announces the end of a long turn: by the bell, and with a text on terminals that
// show it, if the chat does not have the focus.
func (c *chat) notify(t *turn, failed bool) {
	if c.start.Chat.Notify == "off" || time.Since(t.began) < notifyAfter || c.focusing && c.focused {
		return
	}
	seq := "\a"
	if c.start.Chat.Notify == "auto" && c.isOneOf("iTerm", "WezTerm", "ghostty", "kitty") {
		what := "zino: done"
		if failed {
			what = "zino: the turn failed"
		}
		seq += "\x1b]9;" + what + "\x1b\\"
	}
	os.Stdout.WriteString(seq)
}

// bell asks for attention.
func (c *chat) bell() {
	if c.start.Chat.Notify != "off" {
		os.Stdout.WriteString("\a")
	}
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
	c.terminal.SetTitle("zino: " + c.title)
}
