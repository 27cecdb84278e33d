// Package visible makes text of others harmless: nothing in it steers a
// terminal, turns the direction of writing, or ends a line where it must not.
package visible

import (
	"fmt"
	"strings"
	"unicode"
)

// Text is s with what a terminal or an editor would act on written out, as ^[
// or \u202e: control characters other than newline and tab, characters that
// turn the direction of writing, and line ends that only some know. All else,
// bad UTF-8 aside, stays as it is.
func Text(s string) string {
	if !strings.ContainsFunc(s, Harmful) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !Harmful(r):
			b.WriteRune(r)
		case r < 0x20:
			b.WriteString("^" + string('@'+r))
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// Line is Text in one line: newlines and tabs are written out too, and bad
// UTF-8 becomes U+FFFD.
func Line(s string) string {
	return strings.NewReplacer("\n", "^J", "\t", "^I").Replace(Text(strings.ToValidUTF8(s, "\ufffd")))
}

// Harmful reports whether Text writes a character out.
func Harmful(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}
