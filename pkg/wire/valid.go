package wire

import (
	"bytes"
	"unicode/utf8"
)

// maxDepth is how deep lists and objects may lie in each other: encoding/json's
// limit, which readers of what we pass on may have.
const maxDepth = 10000

// Valid reports whether b is well-formed JSON in valid UTF-8: what json.Valid
// and utf8.Valid say together, several times faster. Long lists of messages
// are checked at several places of a turn.
func Valid(b []byte) bool {
	end, ok := value(b, space(b, 0), 0)
	return ok && space(b, end) == len(b) && utf8.Valid(b)
}

// value checks the value that starts at i, at a depth, and returns the index
// behind it.
func value(b []byte, i, depth int) (int, bool) {
	if i >= len(b) {
		return i, false
	}
	switch c := b[i]; {
	case c == '"':
		return str(b, i)
	case c == '{' || c == '[':
		return nested(b, i, depth+1)
	case c == '-' || digit(c):
		return num(b, i)
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(b[i:], []byte(word)) {
			return i + len(word), true
		}
	}
	return i, false
}

// nested checks the object or list whose bracket stands at i.
func nested(b []byte, i, depth int) (end int, ok bool) {
	inObject, closing := b[i] == '{', b[i]+2 // both closing brackets follow theirs so
	if i = space(b, i+1); i < len(b) && b[i] == closing {
		return i + 1, depth <= maxDepth
	}
	for ok = depth <= maxDepth; ok; i = space(b, i+1) {
		if inObject {
			if i, ok = name(b, i); !ok {
				break
			}
		}
		if i, ok = value(b, i, depth); !ok {
			break
		}
		if i = space(b, i); i >= len(b) || b[i] != ',' {
			return i + 1, i < len(b) && b[i] == closing
		}
	}
	return i, false
}

// name checks a key and its colon and returns the index of the value.
func name(b []byte, i int) (int, bool) {
	if i >= len(b) || b[i] != '"' {
		return i, false
	}
	i, ok := str(b, i)
	if i = space(b, i); !ok || i >= len(b) || b[i] != ':' {
		return i, false
	}
	return space(b, i+1), true
}

// str checks the string whose quote stands at i.
func str(b []byte, i int) (int, bool) {
	for i++; ; {
		if i += run(b[i:]); i >= len(b) {
			return i, false
		}
		switch b[i] {
		case '"':
			return i + 1, true
		case '\\':
			n := escapeLen(b[i:])
			if i += n; n == 0 {
				return i, false
			}
		default: // a control character
			return i, false
		}
	}
}

// escapeLen is the length of the escape at the start of s, 0 if it is none.
func escapeLen(s []byte) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(s); ok {
			return 6
		}
	}
	return 0
}

// num checks the number that starts at i: a minus, digits without a leading
// zero, a fraction, an exponent.
func num(b []byte, i int) (int, bool) {
	if b[i] == '-' {
		i++
	}
	start := i
	i, ok := digits(b, i)
	if !ok || b[start] == '0' && i > start+1 {
		return i, false
	}
	if i < len(b) && b[i] == '.' {
		if i, ok = digits(b, i+1); !ok {
			return i, false
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		i, ok = digits(b, i)
	}
	return i, ok
}

// digits skips digits; false if there is none.
func digits(b []byte, i int) (int, bool) {
	start := i
	for i < len(b) && digit(b[i]) {
		i++
	}
	return i, i > start
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
