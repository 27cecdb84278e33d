package chat

import (
	"fmt"
	"slices"
	"strings"

	"zino/proto"
	"zino/services/chat/screen"
)

// statusPart is a part of the status line.
type statusPart struct {
	name, text string
	bold       bool
}

// dropped lists the parts in the order in which they make room for the others.
var dropped = []string{"queue", "cost", "sandbox", "title", "directory"}

// statusParts returns what is known of the session.
func (c *chat) statusParts() (parts []statusPart) {
	add := func(name, text string, bold bool) {
		if text != "" {
			parts = append(parts, statusPart{name, text, bold})
		}
	}
	add("mode", c.modeSign(), false)
	model := safe(c.model)
	if model == "" && c.ready {
		model = noModel
	}
	add("model", model, false)
	add("directory", safe(home(c.root)), false)
	add("title", c.title, false)
	if c.noSave {
		add("title", "not saved", false)
	}
	switch {
	case c.currentMode() == modePlan:
		add("sandbox", string(proto.LevelReadOnly), false)
	case c.sandbox == string(proto.LevelOff):
		add("sandbox", "sandbox off", true)
	default:
		add("sandbox", c.sandbox, false)
	}
	add("cost", c.usage.cost(), false)
	context, full := c.usage.context(c.windows[c.model])
	add("context", context, full)
	if n := len(c.waiting()); n > 0 {
		add("queue", fmt.Sprintf("%d queued", n), false)
	}
	return parts
}

// status returns the status line with the parts that a width has room for.
func (c *chat) status(width int) string {
	parts := c.statusParts()
	cells := func() int {
		n := 3 * max(0, len(parts)-1) // " · "
		for _, p := range parts {
			n += c.widths.Of(p.text)
		}
		return n
	}
	for _, name := range dropped {
		if cells() <= width {
			break
		}
		parts = slices.DeleteFunc(parts, func(p statusPart) bool { return p.name == name })
	}
	if over := cells() - width; over > 0 && len(parts) > 1 { // mode and context stay
		i := slices.IndexFunc(parts, func(p statusPart) bool { return p.name == "model" })
		i = max(0, i)
		parts[i].text = c.widths.Clip(parts[i].text, c.widths.Of(parts[i].text)-over)
	}
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteString(c.dim(" · "))
		}
		b.WriteString(c.paint(screen.Style{Bold: p.bold, Dim: !p.bold}, p.text))
	}
	return c.widths.Clip(b.String(), width)
}
