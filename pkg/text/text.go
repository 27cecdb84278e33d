// Package text shortens, quotes and fences text for errors, logs, terminals and
// Markdown. [Visible] must be applied to untrusted text before it is written to a
// terminal.
package text

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// OneLine returns s on one line: every run of white space and control characters
// becomes one blank, leading and trailing runs are dropped.
func OneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
}

// Clip shortens s to at most n characters, of which the last is "…" if something
// was left out.
func Clip(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	if n < 1 {
		return ""
	}
	for i := range s {
		if n--; n == 0 {
			return s[:i] + "…"
		}
	}
	return s
}

// Head returns at most the first n bytes of s, without splitting a character.
func Head[T string | []byte](s T, n int) T {
	if len(s) <= n {
		return s
	}
	return s[:boundary(s, n)]
}

// Middle shortens s to about head+tail bytes: the middle of a longer text is replaced by
// mark, a format with %d for the number of bytes left out. No character is split.
func Middle(s string, head, tail int, mark string) string {
	if len(s) <= head+tail {
		return s
	}
	from, to := boundary(s, head), boundary(s, len(s)-tail)
	return s[:from] + fmt.Sprintf(mark, to-from) + s[to:]
}

// boundary returns the last place up to n at which s can be cut. In invalid UTF-8
// it is at most three bytes before n.
func boundary[T string | []byte](s T, n int) int {
	for i := n; n < len(s) && i >= 0 && n-i < utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return i
		}
	}
	return n
}

// quoteMax is the number of bytes of a name that Quote keeps.
const quoteMax = 80

// Quote returns s in double quotes with Go's escapes, on one line, for names in
// error messages. A name is cut after 80 bytes, with "…" after the quotes.
func Quote(s string) string {
	if len(s) <= quoteMax {
		return strconv.Quote(s)
	}
	return strconv.Quote(Head(s, quoteMax)) + "…"
}

// Bytes formats a number of bytes in the largest unit that keeps it exact, up to
// GiB, and above 1 MiB otherwise with one decimal: "512 bytes", "64 KiB",
// "1.5 GiB".
func Bytes(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		switch {
		case n >= unit.size && n%unit.size == 0:
			return fmt.Sprintf("%d %s", n/unit.size, unit.name)
		case n >= unit.size && unit.size >= 1<<20:
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}

// Count formats a number with its noun: "1 file", "2 files".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
