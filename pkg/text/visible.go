package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Visible escapes the characters of s that a terminal or an editor would interpret or
// hide, as ^[, \u202e or \U000e0041: control characters other than newline and
// tab, bidirectional controls, Unicode line separators and invisible characters.
// Invalid UTF-8 may become U+FFFD; all other text is returned unchanged.
func Visible(s string) string {
	if !strings.ContainsFunc(s, Hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !Hidden(r):
			b.WriteRune(r)
		case r < 0x20:
			b.WriteString("^" + string('@'+r))
		case r > 0xffff:
			fmt.Fprintf(&b, "\\U%08x", r)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// VisibleJSON escapes the same characters in valid JSON on one line. They occur
// in its strings only, so the value is unchanged.
func VisibleJSON(s string) string {
	if !strings.ContainsFunc(s, Hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch high, low := utf16.EncodeRune(r); {
		case !Hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, "\\u%04x\\u%04x", high, low)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

var lineControls = strings.NewReplacer("\n", "^J", "\t", "^I")

// VisibleLine is Visible for one line: newline and tab are escaped too, as ^J and
// ^I, and invalid UTF-8 becomes U+FFFD.
func VisibleLine(s string) string {
	return lineControls.Replace(Visible(strings.ToValidUTF8(s, "\ufffd")))
}

// Hidden reports whether Visible escapes r.
func Hidden(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' ||
		r >= 0xad && unicode.Is(invisible, r)
}

// invisible lists characters without a glyph, which can hide text from a person,
// such as instructions to a model. The joiners U+200C and U+200D and the first 16
// variation selectors are left out: emoji and several scripts need them. Tags
// (regional flags) and ideographic variation selectors are included: the flag and
// the ideograph can be read without them.
var invisible = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x00ad, Hi: 0x00ad, Stride: 1}, // soft hyphen
		{Lo: 0x034f, Hi: 0x034f, Stride: 1}, // combining grapheme joiner
		{Lo: 0x115f, Hi: 0x1160, Stride: 1}, // Hangul fillers
		{Lo: 0x180e, Hi: 0x180e, Stride: 1}, // Mongolian vowel separator
		{Lo: 0x200b, Hi: 0x200b, Stride: 1}, // zero width space
		{Lo: 0x2060, Hi: 0x206f, Stride: 1}, // word joiner, invisible operators
		{Lo: 0x3164, Hi: 0x3164, Stride: 1}, // Hangul filler
		{Lo: 0xfeff, Hi: 0xfeff, Stride: 1}, // byte order mark
		{Lo: 0xffa0, Hi: 0xffa0, Stride: 1}, // Hangul filler
		{Lo: 0xfff9, Hi: 0xfffb, Stride: 1}, // interlinear annotations
	},
	R32: []unicode.Range32{
		{Lo: 0x1d173, Hi: 0x1d17a, Stride: 1}, // musical format controls
		{Lo: 0xe0000, Hi: 0xe0fff, Stride: 1}, // tags, ideographic variation selectors
	},
	LatinOffset: 1,
}
