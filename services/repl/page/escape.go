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
	if !strings.ContainsFunc(s, hostile) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hostile(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
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

// cut is a text of at most n bytes, cut between characters, and how much of it
// is left out.
func cut(s string, n int) (string, int) {
	if len(s) <= n {
		return s, 0
	}
	for i := n; i > n-utf8.UTFMax && i > 0; i-- {
		if utf8.RuneStart(s[i]) {
			n = i
			break
		}
	}
	return s[:n], len(s) - n
}
