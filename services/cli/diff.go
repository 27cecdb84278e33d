package cli

import "strings"

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
	diff = visible(strings.TrimRight(diff, "\n"))
	if diff == "" {
		return ""
	}
	if !colour {
		return diff + "\n"
	}
	var b strings.Builder
	for line := range strings.SplitSeq(diff, "\n") {
		if c := diffColour(line); c != "" {
			line = c + line + plain
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

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
