package screen

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWrap(t *testing.T) {
	w := NewWidths(false)
	for _, c := range []struct {
		text string
		n    int
		want []string
	}{
		{"one two three", 8, []string{"one two", "three"}},
		{"one  two", 8, []string{"one  two"}},
		{"one two", 3, []string{"one", "two"}},
		{"  indented", 20, []string{"  indented"}},
		{"abcdefghij", 4, []string{"abcd", "efgh", "ij"}},
		{"x abcdefghij", 4, []string{"x", "abcd", "efgh", "ij"}},
		{"see 漢字漢字", 8, []string{"see 漢字", "漢字"}},
		{"use --flag now", 10, []string{"use --flag", "now"}},
		{"a\nb", 5, []string{"a", "b"}},
		{"", 5, []string{""}},
		{"ab 1\ufe0f\u20e3 c", 4, []string{"ab", "1\ufe0f\u20e3 c"}},
		{"\x1b]8;;u\x1b\\one \x1b[1mtwo\x1b[m\x1b]8;;\x1b\\ x", 4, []string{"\x1b]8;;u\x1b\\one\x1b]8;;\x1b\\", "\x1b]8;;u\x1b\\\x1b[1mtwo\x1b[m\x1b]8;;\x1b\\", "x"}},
		{"\x1b[1mone two\x1b[m x", 4, []string{"\x1b[1mone\x1b[m", "\x1b[1mtwo\x1b[m", "x"}},
	} {
		if got := w.Wrap(c.text, c.n); !slices.Equal(got, c.want) {
			t.Errorf("Wrap(%q, %d) = %q, want %q", c.text, c.n, got, c.want)
		}
	}
}

// FuzzWrap checks that lines fit and that only blanks are lost.
func FuzzWrap(f *testing.F) {
	f.Add("one two 漢字 👨‍👩‍👧 e\u0301", uint8(5))
	f.Fuzz(func(t *testing.T, s string, n uint8) {
		if !utf8.ValidString(s) || strings.ContainsAny(s, "\x1b\r\t") || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 }) {
			return
		}
		w := NewWidths(false)
		width := max(int(n), 2)
		lines := w.Wrap(s, width)
		for _, line := range lines {
			if got := w.Of(line); got > width {
				t.Fatalf("%q has %d cells, more than %d", line, got, width)
			}
		}
		squeeze := strings.NewReplacer(" ", "", "\n", "")
		if got := squeeze.Replace(strings.Join(lines, "")); got != squeeze.Replace(s) {
			t.Fatalf("%q became %q", s, lines)
		}
	})
}

// TestSettled checks that what stands behind a cluster of disputed width gets the column
// that Of has for it.
func TestSettled(t *testing.T) {
	w := NewWidths(false)
	for _, cluster := range []string{"1\ufe0f\u20e3", "\u2764\ufe0f", "\U0001f468\u200d\U0001f469", "\U0001f1e9\U0001f1ea"} {
		row := "\x1b[1ma\x1b[m" + cluster
		if got, want := w.settled(row+"b"), fmt.Sprintf("%s\x1b[%dGb", row, w.Of(row)+1); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
