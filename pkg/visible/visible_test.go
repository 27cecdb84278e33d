package visible_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"zino/pkg/visible"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
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
		if got := visible.Text(text); got != want {
			t.Errorf("Text(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	for text, want := range map[string]string{"one": "one", "a\nb\tc": "a^Jb^Ic", "bad \xff\x1b": "bad \ufffd^["} {
		if got := visible.Line(text); got != want {
			t.Errorf("Line(%q) = %q, want %q", text, got, want)
		}
	}
}

// FuzzText holds that nothing harmful is left, and harmless text as it was.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "\x1b]0;title\a", "\u202eabc", "a\xff\x1b", "two\nlines", "\u2028", "a\u200b\U000e0041\u200d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := visible.Text(s)
		if strings.ContainsFunc(got, visible.Harmful) {
			t.Errorf("Text(%q) = %q", s, got)
		}
		if utf8.ValidString(s) && !strings.ContainsFunc(s, visible.Harmful) && got != s {
			t.Errorf("Text(%q) = %q", s, got)
		}
		if text, err := json.Marshal(s); err == nil {
			var back string
			if err := json.Unmarshal([]byte(visible.JSON(string(text))), &back); err != nil || back != strings.ToValidUTF8(s, "\ufffd") && utf8.ValidString(s) {
				t.Errorf("JSON(%q) reads as %q, %v", text, back, err)
			}
		}
		if line := visible.Line(s); strings.ContainsFunc(line, unicode.IsControl) || !utf8.ValidString(line) {
			t.Errorf("Line(%q) = %q", s, line)
		}
	})
}
