package cli

import (
	"fmt"
	"strings"

	"zino/pkg/visible"
)

// What a terminal takes for colours.
const (
	red   = "\x1b[31m"
	green = "\x1b[32m"
	cyan  = "\x1b[36m"
	dim   = "\x1b[2m"
	plain = "\x1b[0m"
)

func dimmed(text string) string { return dim + text + plain }

// diffLines is a unified diff as it is shown: harmless to a terminal, in colour
// if that is wanted.
func diffLines(diff string, colour bool) string {
	diff = visible.Text(strings.TrimRight(diff, "\n"))
	if diff == "" {
		return ""
	}
	lines := strings.Split(diff, "\n")
	var b strings.Builder
	for _, line := range lines[:min(diffMax, len(lines))] {
		line = shorten(line, diffWidth)
		if c := diffColour(line); c != "" && colour {
			line = c + line + plain
		}
		b.WriteString(line + "\n")
	}
	if left := len(lines) - diffMax; left > 0 {
		fmt.Fprintf(&b, "… %d more lines of the diff\n", left)
	}
	return b.String()
}

// How much of a diff is shown: so many lines, and of each so many characters.
const (
	diffMax   = 200
	diffWidth = 500
)

// diffColour is the colour of a diff's line, empty for none.
func diffColour(line string) string {
	switch {
	case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
		return ""
	case strings.HasPrefix(line, "+"):
		return green
	case strings.HasPrefix(line, "-"):
		return red
	case strings.HasPrefix(line, "@@"):
		return cyan
	}
	return ""
}
