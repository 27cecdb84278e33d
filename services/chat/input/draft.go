package input

import "strings"

// Draft is a message that is being written: its long pastes are shown as labels.
type Draft []element

// NewDraft returns a text as a draft. A text that is too long to be edited in place is
// shown as a label.
func (e *Editor) NewDraft(s string) Draft {
	s = clean(s)
	if len(s) > plainMax {
		return Draft{pasted(s)}
	}
	return e.split(s)
}

// Text returns the message.
func (d Draft) Text() string { return join(d) }

// Shown returns the message as the editor shows it, with labels in place of long pastes.
func (d Draft) Shown() string {
	var b strings.Builder
	for _, el := range d {
		if el.label != "" {
			b.WriteString(el.label)
		} else {
			b.WriteString(el.text)
		}
	}
	return b.String()
}

// JoinDrafts joins drafts by blank lines.
func JoinDrafts(list []Draft) (joined Draft) {
	for i, d := range list {
		if i > 0 {
			joined = append(joined, element{text: "\n"}, element{text: "\n"})
		}
		joined = append(joined, d...)
	}
	return joined
}
