package screen

import "strings"

// Color is one of the terminal's own colours, so that light and dark themes work.
// Black and the two whites are left out: one of them is the background.
type Color uint8

// The colours.
const (
	Default Color = iota
	Red
	Green
	Yellow
	Blue
	Magenta
	Cyan
	Gray // bright black
)

// foreground has the SGR parameter of each color.
var foreground = [...]string{Default: "", Red: "31", Green: "32", Yellow: "33", Blue: "34", Magenta: "35", Cyan: "36", Gray: "90"}

// Style is how a piece of text looks.
type Style struct {
	Color                        Color
	Bold, Dim, Italic, Underline bool
}

// Palette writes styled text.
type Palette struct {
	Mono bool // no colours: bold, dim and underline only
}

const reset = "\x1b[m"

// Paint returns s in a style. Lines are styled one by one.
func (p Palette) Paint(st Style, s string) string {
	open := p.open(st)
	if open == "" || s == "" {
		return s
	}
	if !strings.Contains(s, "\n") {
		return open + s + reset
	}
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = open + line + reset
		}
	}
	return strings.Join(lines, "\n")
}

// open returns the sequence that begins a style.
func (p Palette) open(st Style) string {
	var sgr []string
	if st.Bold {
		sgr = append(sgr, "1")
	}
	if st.Dim {
		sgr = append(sgr, "2")
	}
	if st.Italic && !p.Mono {
		sgr = append(sgr, "3")
	}
	if st.Underline {
		sgr = append(sgr, "4")
	}
	if !p.Mono && st.Color != Default {
		sgr = append(sgr, foreground[st.Color])
	}
	if sgr == nil {
		return ""
	}
	return "\x1b[" + strings.Join(sgr, ";") + "m"
}
