package screen

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Widths measures text in cells of the terminal. Styles take none.
type Widths struct {
	method ansi.Method
}

// NewWidths returns the widths of grapheme clusters, or those of single code points for
// terminals that know no clusters (wcwidth).
func NewWidths(wc bool) Widths {
	if wc {
		return Widths{ansi.WcWidth}
	}
	return Widths{ansi.GraphemeWidth}
}

// Of returns the width of a line.
func (w Widths) Of(s string) int { return w.method.StringWidth(s) }

// Strip removes styles and links from s.
func Strip(s string) string { return ansi.Strip(s) }

// Cut returns the first n cells of a line.
func (w Widths) Cut(s string, n int) string {
	if n <= 0 {
		return ""
	}
	return w.method.Truncate(s, n, "")
}

// Clip is Cut with "…" as the last cell if something is cut off.
func (w Widths) Clip(s string, n int) string {
	if n <= 0 {
		return ""
	}
	return w.method.Truncate(s, n, "…")
}

// Pad appends blanks to a line up to n cells.
func (w Widths) Pad(s string, n int) string {
	if room := n - w.Of(s); room > 0 {
		return s + strings.Repeat(" ", room)
	}
	return s
}

// Cluster returns the grapheme cluster that s begins with, and its width.
func (w Widths) Cluster(s string) (string, int) {
	if s[0] < utf8.RuneSelf && (len(s) == 1 || s[1] < utf8.RuneSelf) && s[0] != '\r' {
		return s[:1], w.method.StringWidth(s[:1])
	}
	return ansi.FirstGraphemeCluster(s, w.method)
}

// first returns the grapheme cluster or the escape sequence that s begins with, and its
// width. The decoder of sequences takes ASCII for clusters of their own, also the digit of
// a keycap.
func (w Widths) first(s string) (string, int) {
	if s[0] >= ' ' && s[0] != 0x7f {
		return w.Cluster(s)
	}
	_, cells, n, _ := w.method.DecodeSequenceInString(s, 0, nil)
	return s[:n], cells
}

// Wrap breaks a text into lines of at most n cells: at blanks, and between wide characters,
// which are written without blanks; a longer word is broken anywhere. Each line carries its
// own styles.
func (w Widths) Wrap(s string, n int) (lines []string) {
	n = max(n, 2)
	var line, blanks, word strings.Builder // a line is line + blanks + word
	var lineCells, blankCells, wordCells int
	flushWord := func() {
		if wordCells > 0 { // blanks at the end of a line go
			line.WriteString(blanks.String())
			lineCells += blankCells + wordCells
		}
		line.WriteString(word.String())
		blanks.Reset()
		word.Reset()
		blankCells, wordCells = 0, 0
	}
	newLine := func() {
		lines = append(lines, line.String())
		line.Reset()
		lineCells = 0
	}
	for s != "" {
		seq, cells := w.first(s)
		s = s[len(seq):]
		switch {
		case seq == "\n":
			flushWord()
			newLine()
		case seq == " ":
			if wordCells > 0 {
				flushWord()
			}
			blanks.WriteByte(' ')
			blankCells++
		default:
			if cells > 1 && wordCells > 0 {
				flushWord()
			}
			if lineCells+blankCells+wordCells+cells > n {
				if lineCells > 0 { // the blanks at the border go
					blanks.Reset()
					blankCells = 0
					newLine()
				}
				if blankCells+wordCells+cells > n {
					flushWord()
					newLine()
				}
			}
			word.WriteString(seq)
			wordCells += cells
		}
	}
	flushWord()
	newLine()
	return Lines(strings.Join(lines, "\n"))
}

// Sequences of OSC 8: a link begins with linkBegin, its URL and linkEnd, and ends with
// the same without a URL.
const (
	linkBegin = "\x1b]8;;"
	linkEnd   = "\x1b\\"
)

// Lines splits a text into lines which carry their own styles and links: one that goes on
// behind a newline is ended and begun again.
func Lines(s string) []string {
	lines := strings.Split(s, "\n")
	if !strings.Contains(s, "\x1b") {
		return lines
	}
	active, link := "", ""
	for i, line := range lines {
		lines[i] = link + active + line
		for rest := line; ; {
			at := strings.IndexByte(rest, '\x1b')
			if at < 0 {
				break
			}
			rest = rest[at:]
			if url, after, ok := strings.Cut(rest, linkEnd); ok && strings.HasPrefix(url, linkBegin) {
				if link = ""; url != linkBegin {
					link = url + linkEnd
				}
				rest = after
				continue
			}
			if !strings.HasPrefix(rest, "\x1b[") {
				rest = rest[1:]
				continue
			}
			end := strings.IndexByte(rest, 'm')
			if end < 0 {
				break
			}
			if sgr := rest[:end+1]; sgr == reset {
				active = ""
			} else {
				active += sgr
			}
			rest = rest[end+1:]
		}
		if active != "" {
			lines[i] += reset
		}
		if link != "" {
			lines[i] += linkBegin + linkEnd
		}
	}
	return lines
}

// TabWidth is the distance of tab stops in what is printed.
const TabWidth = 4

// ExpandTabs replaces the tabs of a line that is printed from a column on.
func (w Widths) ExpandTabs(s string, column int) string {
	if !strings.Contains(s, "\t") {
		return s
	}
	var b strings.Builder
	for i, part := range strings.Split(s, "\t") {
		if i > 0 {
			n := TabWidth - column%TabWidth
			b.WriteString(strings.Repeat(" ", n))
			column += n
		}
		b.WriteString(part)
		column += w.Of(part)
	}
	return b.String()
}

// settled returns a row with an explicit column behind each cluster whose width
// terminals disagree about, so that what follows stands where it is expected.
func (w Widths) settled(row string) string {
	if !strings.ContainsFunc(row, disputed) {
		return row
	}
	var b strings.Builder
	column := 0
	for row != "" {
		seq, width := w.first(row)
		b.WriteString(seq)
		column += width
		if strings.ContainsFunc(seq, disputed) {
			b.WriteString("\x1b[" + strconv.Itoa(column+1) + "G")
		}
		row = row[len(seq):]
	}
	return b.String()
}

// disputed reports whether a cluster with r in it has different widths in different
// terminals: joined emoji, variation selectors, flags, skin tones.
func disputed(r rune) bool {
	return r == 0x200d || r == 0xfe0f || r == 0xfe0e || r >= 0x1f1e6 && r <= 0x1f1ff || r >= 0x1f3fb && r <= 0x1f3ff
}
