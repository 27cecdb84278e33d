package page

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// escape writes control and bidirectional characters of a foreign text as \u001b
// and the like, so that it cannot work on a terminal or show itself in another
// order. Line feeds and tabs stay; bytes that are no UTF-8 become U+FFFD.
func escape(s string) string {
	text, _ := escapeUpTo(s, 12*len(s)) // no character grows that much
	return text
}

// escapeUpTo escapes as much of a text as fits into so many bytes, and tells how
// many bytes of the text are left out.
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

// hostile reports whether a character is to be escaped.
func hostile(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ', r >= 0x7f && r < 0xa0: // C0, DEL, C1
		return true
	}
	return r == 0x61c || r == 0x200e || r == 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// oneLine is a foreign text that has to stand in one line.
func oneLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", " ").Replace(escape(s))
}
