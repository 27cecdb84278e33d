package page

import (
	"strings"
	"unicode/utf8"
)

// handedOut returns code as a page gets it: its lines end with LF, without the last
// line end, and bytes that are not UTF-8 are decoded as a browser does.
func handedOut(code string) string {
	code = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(decode(code))
	return strings.TrimSuffix(code, "\n")
}

// decode replaces each ill-formed sequence of UTF-8 by U+FFFD: one for each longest
// prefix of a sequence that could be well-formed, else one for a byte (Unicode 16,
// section 3.9, "U+FFFD Substitution of Maximal Subparts"; the same as WHATWG).
func decode(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			n = illFormed(s)
		}
		b.WriteRune(r)
		s = s[n:]
	}
	return b.String()
}

// illFormed returns the length of the maximal subpart of an ill-formed sequence that s
// begins with.
func illFormed(s string) int {
	low, high, length := byte(0x80), byte(0xbf), 1
	switch c := s[0]; {
	case c >= 0xc2 && c <= 0xdf:
		length = 2
	case c >= 0xe0 && c <= 0xef:
		length = 3
	case c >= 0xf0 && c <= 0xf4:
		length = 4
	}
	switch s[0] { // the second byte's range excludes overlong forms, surrogates and what is beyond U+10FFFF
	case 0xe0:
		low = 0xa0
	case 0xed:
		high = 0x9f
	case 0xf0:
		low = 0x90
	case 0xf4:
		high = 0x8f
	}
	n := 1
	for n < min(length, len(s)) && s[n] >= low && s[n] <= high {
		low, high = 0x80, 0xbf
		n++
	}
	return n
}
