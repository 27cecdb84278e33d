package page

import (
	"encoding/hex"
	"strings"
)

// Sanitize makes a page's name out of what it calls itself: lower-case letters
// and digits of ASCII, one hyphen for whatever stands between them, at most 80
// characters, "page" if nothing is left. It can be part of a file's name.
func Sanitize(name string) string {
	var b strings.Builder
	gap := false
	for _, r := range name {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			gap = b.Len() > 0
			continue
		}
		if gap && b.Len()+2 > sanitizedMax || b.Len() == sanitizedMax {
			break
		}
		if gap {
			b.WriteByte('-')
			gap = false
		}
		b.WriteRune(r)
	}
	if b.Len() == 0 {
		return "page"
	}
	return b.String()
}

const sanitizedMax = 80

// ShortID makes a short id out of at least 4 random bytes: 8 hexadecimal digits.
func ShortID(random []byte) string { return hex.EncodeToString(random[:4]) }

// IsShortID reports whether a text is well formed as a short id: 4 to 8
// hexadecimal digits in lower case.
func IsShortID(id string) bool {
	return len(id) >= 4 && len(id) <= 8 && strings.Trim(id, "0123456789abcdef") == ""
}
