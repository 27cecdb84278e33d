// Package visible makes text of others harmless: nothing in it steers a
// terminal, turns the direction of writing, or ends a line where it must not.
package visible

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Text returns s with the characters escaped that a terminal or an editor would
// act on or hide, as ^[, \u202e or \U000e0041: control characters other than
// newline and tab, bidirectional controls, Unicode line separators and invisible
// characters. Bad UTF-8 may become U+FFFD; all other text stays as it is.
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
		case r > 0xffff:
			fmt.Fprintf(&b, "\\U%08x", r)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// JSON is valid JSON in one line with the same characters escaped, which stand in
// its strings alone: its meaning does not change.
func JSON(s string) string {
	if !strings.ContainsFunc(s, Harmful) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch high, low := utf16.EncodeRune(r); {
		case !Harmful(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, "\\u%04x\\u%04x", high, low)
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
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' ||
		r >= 0xad && unicode.Is(shapeless, r)
}

// shapeless are characters that no one sees and that can hide text from a
// person, such as instructions to a model. Not among them are the joiners U+200C
// and U+200D and the first 16 variation selectors: emoji and the scripts of Asia
// are written with them, and they change the shape of the character before. The
// tags of the flags of regions, and the selectors of ideographs, are: the flag and
// the ideograph can be read without.
var shapeless = &unicode.RangeTable{
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
		{Lo: 0xe0000, Hi: 0xe0fff, Stride: 1}, // tags, selectors of ideographs
	},
	LatinOffset: 1,
}
