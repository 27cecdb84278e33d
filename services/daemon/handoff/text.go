package handoff

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// harmful reports a character that a terminal or an editor would act on in
// place of showing it.
func harmful(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// visible is a text with such characters written out, as ^[ or \u202e, and bad
// UTF-8 as U+FFFD.
func visible(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\r\n", "\n")
	if !strings.ContainsFunc(text, harmful) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case !harmful(r):
			b.WriteRune(r)
		case r < 0x20:
			b.WriteString("^" + string('@'+r))
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// exact reports whether a text can be shown and copied as it is.
func exact(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsRune(text, utf8.RuneError) && !strings.ContainsFunc(text, harmful)
}

// oneLine is a text with one blank for every run of white space.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// clip is the beginning of a text, up to n bytes of it, marked if it is not all.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return text[:boundary(text, n)] + "…"
}

// middleless is a text of about n bytes at most: of a longer one the beginning
// and the end.
func middleless(text string, n int) string {
	if len(text) <= n {
		return text
	}
	head, tail := boundary(text, n*2/3), boundary(text, len(text)-n/3)
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", text[:head], tail-head, text[tail:])
}

// boundary is the last place up to n at which a text can be cut.
func boundary(text string, n int) int {
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// fenced is a text as a block of code that nothing in it can close.
func fenced(language, text string) string {
	fence := strings.Repeat("`", max(3, longestRun(text)+1))
	return fence + language + "\n" + strings.TrimSuffix(text, "\n") + "\n" + fence
}

// codeSpan is a text of one line as code within a line.
func codeSpan(text string) string {
	mark := strings.Repeat("`", longestRun(text)+1)
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return mark + text + mark
}

// longestRun is the length of the longest run of backticks.
func longestRun(text string) int {
	longest, run := 0, 0
	for i := range len(text) {
		if run++; text[i] != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}
