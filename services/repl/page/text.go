package page

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// line is the position of a line in a text: where it begins, where its text ends,
// and where the next line begins.
type line struct{ from, end, next int }

// lineAt returns the line of b that begins at i. As in CommonMark a line ends with
// LF, CR LF or a CR alone; the last one may have no line end.
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

// of returns the text of the line, at most lineMax bytes of it.
func (l line) of(b []byte) []byte { return b[l.from:min(l.end, l.from+lineMax)] }

// lineMax is the number of bytes of a line that are parsed. No header, footer or
// fence is longer.
const lineMax = 64 << 10

// lineEnd returns the length of the line end that b begins with, or 0.
func lineEnd(b []byte) int {
	if l := lineAt(b, 0); l.end == 0 {
		return l.next
	}
	return 0
}

// isBlank reports whether b has nothing but blanks and line ends.
func isBlank(b []byte) bool { return len(bytes.Trim(b, " \t\r\n")) == 0 }

// afterBlanks returns where the first line of b[i:] that is not blank begins.
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
	return len(b) == 0 || hasEnd(b) && hasEnd(bytes.TrimRight(trimEnd(b), " \t"))
}

// trimEnd removes one line end.
func trimEnd(b []byte) []byte {
	if bytes.HasSuffix(b, []byte("\r\n")) {
		return b[:len(b)-2]
	}
	if hasEnd(b) && len(b) > 0 {
		return b[:len(b)-1]
	}
	return b
}

// closeLine ends the last line of b.
func closeLine(b []byte, eol string) []byte {
	if hasEnd(b) {
		return b
	}
	return append(b, eol...)
}

// closeWhole ends the last line of b. A CR at the end may be half of a CR LF that
// another program is writing: it gets its LF here, and the other program's LF becomes a
// blank line below the lines of the service.
func closeWhole(b []byte, eol string) []byte {
	if bytes.HasSuffix(b, []byte("\r")) {
		return append(b, '\n')
	}
	return closeLine(b, eol)
}

// closeParagraph makes the last line of b a blank one.
func closeParagraph(b []byte, eol string) []byte {
	if b = closeWhole(b, eol); !endsBlank(b) {
		b = append(b, eol...)
	}
	return b
}

// join makes the last line of out a blank one, unless follow begins with one.
func join(out, follow []byte, eol string) []byte {
	if l := lineAt(follow, 0); isBlank(follow[:l.end]) {
		return closeLine(out, eol)
	}
	return closeParagraph(out, eol)
}

// isLine reports whether a line of b begins at n.
func isLine(b []byte, n int) bool {
	if n == 0 || n == len(b) {
		return true
	}
	return hasEnd(b[:n]) && (b[n-1] != '\r' || b[n] != '\n')
}

// samePrefix returns the length of the common prefix of two texts.
func samePrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// sameLines returns the end of the lines at a place of a text if they are the
// lines of want, else the place itself. Line ends make no difference.
func sameLines(text []byte, at int, want string) int {
	i := at
	for w := range strings.SplitSeq(strings.TrimSuffix(want, "\n"), "\n") {
		l := lineAt(text, i)
		if want == "" || string(text[l.from:l.end]) != strings.TrimSuffix(w, "\r") {
			return at
		}
		i = l.next
	}
	return i
}

// bom is the UTF-8 byte order mark, which may begin a file.
const bom = "\xef\xbb\xbf"

// isUTF16 reports whether b begins with a UTF-16 byte order mark.
func isUTF16(b []byte) bool {
	return bytes.HasPrefix(b, []byte("\xff\xfe")) || bytes.HasPrefix(b, []byte("\xfe\xff"))
}

// escape writes control and bidirectional characters as \u001b and the like, so
// that text of a page cannot control a terminal or change the order of what is
// shown. Line feeds and tabs stay; bytes that are not UTF-8 become U+FFFD.
func escape(s string) string {
	text, _ := escapeUpTo(s, 12*len(s)) // no character grows that much
	return text
}

// escapeUpTo escapes as much of s as fits into limit bytes, and returns how many
// bytes of s are left out.
func escapeUpTo(s string, limit int) (text string, left int) {
	if len(s) <= limit && !strings.ContainsFunc(s, hostile) && utf8.ValidString(s) {
		return s, 0
	}
	b := make([]byte, 0, min(len(s), limit))
	for i, r := range s {
		n := len(b)
		if hostile(r) {
			b = fmt.Appendf(b, `\u%04x`, r)
		} else {
			b = utf8.AppendRune(b, r)
		}
		if len(b) > limit {
			return string(b[:n]), len(s) - i
		}
	}
	return string(b), 0
}

// hostile reports whether a character must be escaped.
func hostile(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ', r >= 0x7f && r < 0xa0: // C0, DEL, C1
		return true
	}
	return r == 0x61c || r == 0x200e || r == 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// oneLine escapes s for a place that must be one line.
func oneLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", " ").Replace(escape(s))
}
