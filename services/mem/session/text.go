package session

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// oneLine is a text in one line, with one blank for every run of white space and of
// characters that a terminal would take for commands.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
}

// beginning is the beginning of a text in one line of up to n characters.
func beginning(text string, n int) string {
	// Blanks may go, but not so many that the rest would not do.
	short := oneLine(clip(text, 64*n))
	if utf8.RuneCountInString(short) <= n {
		return short
	}
	return clip(short, n-1) + "…"
}

// clip is the first n characters of a text.
func clip(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// fold appends a text in the form that all its cases share: the lower case of
// its upper case.
func fold(b []byte, text string) []byte {
	for _, r := range text {
		b = foldRune(b, r)
	}
	return b
}

func foldRune(b []byte, r rune) []byte {
	switch {
	case r < utf8.RuneSelf:
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return append(b, byte(r))
	case r == 'ß' || r == 'ẞ':
		return append(b, "ss"...)
	}
	return utf8.AppendRune(b, unicode.ToLower(unicode.ToUpper(r)))
}
