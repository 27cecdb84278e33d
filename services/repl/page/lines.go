package page

import "bytes"

// line is a line of a text: its place, its end without and with the line end.
type line struct{ from, end, next int }

// lineAt is the line of b that begins at i. As in CommonMark it ends with LF, CR
// LF, or a CR alone; the last one may have no end.
func lineAt(b []byte, i int) line {
	end := len(b)
	if n := bytes.IndexByte(b[i:], '\n'); n >= 0 {
		end = i + n
	}
	if n := bytes.IndexByte(b[i:end], '\r'); n >= 0 {
		cr := i + n
		if cr+1 == end && end < len(b) {
			return line{i, cr, end + 1}
		}
		return line{i, cr, cr + 1}
	}
	return line{i, end, min(end+1, len(b))}
}

// of is the line's text without its end, as parsers look at it: no more than
// lineMax of it.
func (l line) of(b []byte) []byte { return b[l.from:min(l.end, l.from+lineMax)] }

// lineMax is how much of a line is looked at, in bytes: nothing that means
// something is longer.
const lineMax = 64 << 10

// isBlank reports whether a text has nothing but blanks and line ends.
func isBlank(b []byte) bool {
	for _, c := range b {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return false
		}
	}
	return true
}

// afterBlanks is where the first line of b[i:] begins that is not blank.
func afterBlanks(b []byte, i int) int {
	for i < len(b) {
		l := lineAt(b, i)
		if !isBlank(b[l.from:l.end]) {
			break
		}
		i = l.next
	}
	return i
}

// hasEnd reports whether b is empty or ends with a line end.
func hasEnd(b []byte) bool {
	return len(b) == 0 || b[len(b)-1] == '\n' || b[len(b)-1] == '\r'
}

// endsBlank reports whether b is empty or its last line is blank.
func endsBlank(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if !hasEnd(b) {
		return false
	}
	b = bytes.TrimRight(trimEnd(b), " \t")
	return hasEnd(b)
}

// trimEnd takes one line end off.
func trimEnd(b []byte) []byte {
	if n := len(b); n >= 2 && b[n-2] == '\r' && b[n-1] == '\n' {
		return b[:n-2]
	}
	if hasEnd(b) && len(b) > 0 {
		return b[:len(b)-1]
	}
	return b
}

// closeLine ends the last line of b if it has no end.
func closeLine(b []byte, eol string) []byte {
	if hasEnd(b) {
		return b
	}
	return append(b, eol...)
}

// closeParagraph makes the last line of b a blank one, unless it is.
func closeParagraph(b []byte, eol string) []byte {
	for b = closeLine(b, eol); !endsBlank(b); {
		b = append(b, eol...) // twice, if a CR and this LF become one line end
	}
	return b
}

// isLine reports whether b is cut between two lines at n.
func isLine(b []byte, n int) bool {
	if n == 0 || n == len(b) {
		return true
	}
	return hasEnd(b[:n]) && (b[n-1] != '\r' || b[n] != '\n')
}
