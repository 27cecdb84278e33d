package wire

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string: the bytes that encoding/json writes
// with SetEscapeHTML(false), bad UTF-8 as U+FFFD.
func AppendString[T string | []byte](b []byte, s T) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		if t := s[i:]; len(t) >= 8 && plainWord(uint64(t[0])|uint64(t[1])<<8|uint64(t[2])<<16|uint64(t[3])<<24|
			uint64(t[4])<<32|uint64(t[5])<<40|uint64(t[6])<<48|uint64(t[7])<<56) {
			i += 8
			continue
		}
		if c := s[i]; c < utf8.RuneSelf {
			if plain[c] {
				i++
				continue
			}
			b = appendEscape(append(b, s[start:i]...), c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
		if (r == utf8.RuneError && size == 1) || r == '\u2028' || r == '\u2029' {
			b = appendRune(append(b, s[start:i]...), r)
			start = i + size
		}
		i += size
	}
	return append(append(b, s[start:]...), '"')
}

// plain are the ASCII characters that stand in a string as they are.
var plain = func() (t [utf8.RuneSelf]bool) {
	for c := range t {
		t[c] = c >= ' ' && c != '"' && c != '\\'
	}
	return t
}()

// plainWord reports whether eight bytes that were loaded as one number are all
// plain. Most text is a long run of such bytes.
func plainWord(w uint64) bool { return (special(w)|w)&tops == 0 }

const ones, tops = 0x0101010101010101, 0x8080808080808080

// special looks at eight bytes at once for a quote, a backslash, or a byte
// below a blank. The lowest bit that is set is the top bit of the first one;
// the bits of the bytes behind it mean nothing.
func special(w uint64) uint64 {
	quote, backslash := w^ones*'"', w^ones*'\\'
	found := (w - ones*' ') &^ w
	found |= (quote - ones) &^ quote // the top bit of a byte that is zero, or of one behind it
	found |= (backslash - ones) &^ backslash
	return found & tops
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, '\\', 'b')
	case '\f':
		return append(b, '\\', 'f')
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

func appendRune(b []byte, r rune) []byte {
	return append(b, '\\', 'u', hexDigits[r>>12], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// Unquote appends the text of a JSON string, quotes included, to b. A lone
// surrogate becomes U+FFFD. It is false for anything that is not a valid JSON
// string in valid UTF-8.
func Unquote(b, raw []byte) ([]byte, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' || !utf8.Valid(raw) {
		return b, false
	}
	raw = raw[1 : len(raw)-1]
	b = slices.Grow(b, len(raw)) // no escape is shorter than what it stands for
	for i := 0; i < len(raw); {
		n := run(raw[i:])
		b = append(b, raw[i:i+n]...)
		if i += n; i == len(raw) {
			break
		}
		var size int
		if b, size = unescape(b, raw[i:]); size == 0 {
			return b, false
		}
		i += size
	}
	return b, true
}

// verbatim reports whether s stands in a JSON string as it is.
func verbatim(s []byte) bool { return run(s) == len(s) && utf8.Valid(s) }

// run is the length of the text at the start of s up to the first quote,
// backslash or control character. It does not look for bad UTF-8.
func run(s []byte) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		if found := special(binary.LittleEndian.Uint64(s[i:])); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(s) && (s[i] >= utf8.RuneSelf || plain[s[i]]) {
		i++
	}
	return i
}

// unescape appends what the escape at the start of s stands for and returns
// its length, 0 if it is none.
func unescape(b, s []byte) ([]byte, int) {
	if len(s) < 2 || s[0] != '\\' {
		return b, 0
	}
	switch s[1] {
	case '"', '\\', '/':
		return append(b, s[1]), 2
	case 'b':
		return append(b, '\b'), 2
	case 'f':
		return append(b, '\f'), 2
	case 'n':
		return append(b, '\n'), 2
	case 'r':
		return append(b, '\r'), 2
	case 't':
		return append(b, '\t'), 2
	case 'u':
		return unescapeUnicode(b, s)
	}
	return b, 0
}

func unescapeUnicode(b, s []byte) ([]byte, int) {
	r, ok := hex4(s)
	if !ok {
		return b, 0
	}
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(b, r), 6
	}
	if low, ok := hex4(s[6:]); ok {
		if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
			return utf8.AppendRune(b, both), 12
		}
	}
	return utf8.AppendRune(b, utf8.RuneError), 6
}

// hex4 reads the escape \uHHHH at the start of s.
func hex4(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for _, c := range s[2:6] {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	return rune(n), err == nil
}
