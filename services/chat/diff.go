package chat

import (
	"fmt"
	"strconv"
	"strings"

	"zino/services/chat/screen"
)

// diffMax is how many lines of a diff are printed.
const diffMax = 40

// diff is a unified diff as it is shown: each line with its number, new lines and context
// with that of the new file, removed ones with that of the old file.
type diff struct {
	lines          []diffLine
	added, removed int
}

type diffLine struct {
	mark   byte // '+', '-', ' ', or '@' for the head of a hunk
	number int
	text   string // harmless, with tabs expanded
}

// parseDiff reads a unified diff. Lines outside of hunks are left out; within a hunk the
// numbers of its head say which lines belong to it, so that a removed line "-- x" is not
// taken for a file name.
func (c *chat) parseDiff(s string) (d diff) {
	var oldNext, newNext, oldLeft, newLeft int
	for _, line := range outputLines(s) {
		if oldLeft <= 0 && newLeft <= 0 {
			if from, oldCount, to, newCount, ok := parseHunk(line); ok {
				oldNext, newNext, oldLeft, newLeft = from, to, oldCount, newCount
				d.lines = append(d.lines, diffLine{mark: '@', text: line})
			}
			continue
		}
		mark, rest := byte(' '), line
		if line != "" {
			mark, rest = line[0], line[1:]
		}
		l := diffLine{mark: mark, text: c.widths.ExpandTabs(rest, 0)}
		switch mark {
		case '+':
			l.number = newNext
			newNext, newLeft = newNext+1, newLeft-1
			d.added++
		case '-':
			l.number = oldNext
			oldNext, oldLeft = oldNext+1, oldLeft-1
			d.removed++
		case ' ':
			l.number = newNext
			oldNext, newNext, oldLeft, newLeft = oldNext+1, newNext+1, oldLeft-1, newLeft-1
		default: // "\ No newline at end of file"
			continue
		}
		d.lines = append(d.lines, l)
	}
	return d
}

// parseHunk reads the head of a hunk: "@@ -2,3 +2,6 @@".
func parseHunk(line string) (from, oldCount, to, newCount int, ok bool) {
	rest, ok := strings.CutPrefix(line, "@@ -")
	if !ok {
		return 0, 0, 0, 0, false
	}
	removed, rest, ok := strings.Cut(rest, " +")
	if !ok {
		return 0, 0, 0, 0, false
	}
	added, _, ok := strings.Cut(rest, " @@")
	if !ok {
		return 0, 0, 0, 0, false
	}
	from, oldCount, ok = parseRange(removed)
	if !ok {
		return 0, 0, 0, 0, false
	}
	to, newCount, ok = parseRange(added)
	return from, oldCount, to, newCount, ok
}

// parseRange reads "2,3", or "2" for one line.
func parseRange(s string) (start, count int, ok bool) {
	first, second, comma := strings.Cut(s, ",")
	start, err := strconv.Atoi(first)
	if err != nil || start < 0 {
		return 0, 0, false
	}
	count = 1
	if comma {
		if count, err = strconv.Atoi(second); err != nil || count < 0 {
			return 0, 0, false
		}
	}
	return start, count, true
}

// diffRows returns a diff as rows: "3 + text".
func (c *chat) diffRows(s string) (rows []string, added, removed int) {
	d := c.parseDiff(s)
	digits := 0
	for _, l := range d.lines {
		digits = max(digits, len(strconv.Itoa(l.number)))
	}
	for _, l := range d.lines {
		color := screen.Default
		row := fmt.Sprintf("%*d %c %s", digits, l.number, l.mark, l.text)
		switch l.mark {
		case '@':
			color, row = screen.Cyan, l.text
		case '+':
			color = screen.Green
		case '-':
			color = screen.Red
		}
		rows = append(rows, c.paint(screen.Style{Color: color}, strings.TrimRight(row, " ")))
	}
	return rows, d.added, d.removed
}
