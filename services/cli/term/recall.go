package term

import (
	"strings"

	"zino/pkg/history"
	"zino/pkg/text"
)

// recalled shows a history in an editor of one line. It implements
// golang.org/x/term.History.
type recalled struct {
	*history.History
	changed bool // a message was shown whose display differs from its text
}

// Add does nothing: it is called for each line, and Editor.Next adds whole messages.
func (h *recalled) Add(string) {}

// At returns a message in a form that can be edited on one line; 0 is the newest.
func (h *recalled) At(i int) string {
	message := h.History.At(i)
	shown := asLine.Replace(message)
	h.changed = h.changed || shown != message
	return text.Visible(shown)
}

// A recalled message shows its newlines and tabs as characters of one cell.
var (
	asLine  = strings.NewReplacer("\n", "⏎", "\t", "⇥")
	asTyped = strings.NewReplacer("⏎", "\n", "⇥", "\t")
)

// original reverses asLine in an edited line.
func (h *recalled) original(line string) string {
	if !h.changed {
		return line
	}
	return asTyped.Replace(line)
}
