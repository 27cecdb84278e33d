package text_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"zino/pkg/text"
)

func TestVisibleEscapes(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		"plain äöü\n\tindented":  "plain äöü\n\tindented",
		"\x1b[31mred":            "^[[31mred",
		"a\rb\x00c\x07":          "a^Mb^@c^G",
		"del \x7f, csi \u009b1m": `del \u007f, csi \u009b1m`,
		"turn \u202e, isolate \u2066, line \u2028": `turn \u202e, isolate \u2066, line \u2028`,
		"family 👩‍👧, heart ❤️, نامه\u200cها":       "family 👩‍👧, heart ❤️, نامه\u200cها",
		"a\u200bb\u2060c\ufeff\u00ad":              `a\u200bb\u2060c\ufeff\u00ad`,
		"tag \U000e0041\U000e0100":                 `tag \U000e0041\U000e0100`,
	} {
		if got := text.Visible(in); got != want {
			t.Errorf("Visible(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestVisibleLineEscapesLineEnds(t *testing.T) {
	for in, want := range map[string]string{"one": "one", "a\nb\tc": "a^Jb^Ic", "bad \xff\x1b": "bad \ufffd^["} {
		if got := text.VisibleLine(in); got != want {
			t.Errorf("VisibleLine(%q) = %q, want %q", in, got, want)
		}
	}
}

// FuzzVisible checks that no hidden character is left and that other text is unchanged.
func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "\x1b]0;title\a", "\u202eabc", "a\xff\x1b", "two\nlines", "\u2028", "a\u200b\U000e0041\u200d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := text.Visible(s)
		if strings.ContainsFunc(got, text.Hidden) {
			t.Errorf("Visible(%q) = %q", s, got)
		}
		if utf8.ValidString(s) && !strings.ContainsFunc(s, text.Hidden) && got != s {
			t.Errorf("Visible(%q) = %q", s, got)
		}
		if encoded, err := json.Marshal(s); err == nil {
			var back string
			if err := json.Unmarshal([]byte(text.VisibleJSON(string(encoded))), &back); err != nil || back != strings.ToValidUTF8(s, "\ufffd") && utf8.ValidString(s) {
				t.Errorf("VisibleJSON(%q) reads as %q, %v", encoded, back, err)
			}
		}
		if line := text.VisibleLine(s); strings.ContainsFunc(line, unicode.IsControl) || !utf8.ValidString(line) {
			t.Errorf("VisibleLine(%q) = %q", s, line)
		}
	})
}
