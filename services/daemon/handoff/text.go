package handoff

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"zino/pkg/visible"
)

// printable is a text that people and editors may be given, with line ends of one
// kind.
func printable(text string) string {
	return visible.Text(strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\r\n", "\n"))
}

// exact reports whether a text can be shown and copied as it is.
func exact(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsRune(text, utf8.RuneError) && !strings.ContainsFunc(text, visible.Harmful)
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
