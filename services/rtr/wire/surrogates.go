package wire

import "bytes"

// mendSurrogates replaces each escaped surrogate that has no partner by U+FFFD:
// some providers fail on them. raw is valid JSON.
func mendSurrogates(raw []byte) []byte {
	var out []byte
	done := 0 // where what is not in out yet begins
	for i := escape(raw, 0); i < len(raw); i = escape(raw, i) {
		switch half := surrogate(raw[i:]); {
		case half == 0:
			i += 2
		case half == 'h' && surrogate(raw[i+6:]) == 'l':
			i += 12
		default:
			out = append(append(out, raw[done:i]...), `\ufffd`...)
			i += 6
			done = i
		}
	}
	if done == 0 {
		return raw
	}
	return append(out, raw[done:]...)
}

// escape returns the index of the first escape from i on.
func escape(raw []byte, i int) int {
	if n := bytes.IndexByte(raw[i:], '\\'); n >= 0 {
		return i + n
	}
	return len(raw)
}

// surrogate tells what the escape at the start of b is: 'h' for a high
// surrogate, 'l' for a low one, 0 for anything else.
func surrogate(b []byte) byte {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' || b[2]|0x20 != 'd' {
		return 0
	}
	switch b[3] {
	case '8', '9', 'a', 'b', 'A', 'B':
		return 'h'
	case 'c', 'd', 'e', 'f', 'C', 'D', 'E', 'F':
		return 'l'
	}
	return 0
}
