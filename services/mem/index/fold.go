package index

import (
	"sort"
	"unicode"
	"unicode/utf8"
)

// appendFolded appends a letter without case and accents. The case folding is the
// lower case of the upper case, which maps both forms of the Greek sigma to one letter.
func appendFolded(b []byte, r rune) []byte {
	r = unicode.ToLower(unicode.ToUpper(r))
	if letters := spelled(r); letters != "" {
		return append(b, letters...)
	}
	return utf8.AppendRune(b, unaccented(r))
}

// spelled returns the letters of a ligature or a letter that is also written as two,
// empty for other characters.
func spelled(r rune) string {
	switch r {
	case 'ß':
		return "ss"
	case 'æ', 'ǣ', 'ǽ':
		return "ae"
	case 'œ':
		return "oe"
	case 'þ':
		return "th"
	case 'ǯ':
		return "ʒ"
	case 'ĳ':
		return "ij"
	case 'ǆ':
		return "dz"
	case 'ǉ':
		return "lj"
	case 'ǌ':
		return "nj"
	}
	if r >= 'ﬀ' && r <= 'ﬆ' {
		return [...]string{"ff", "fi", "fl", "ffi", "ffl", "st", "st"}[r-'ﬀ']
	}
	return ""
}

// isAccent reports whether folding removes r: the accents of Latin, Greek and Cyrillic,
// and the vowel points of Hebrew and Arabic, which are optional. Marks of other scripts
// are part of their words.
func isAccent(r rune) bool {
	switch {
	case r < 0x300:
		return false
	case r <= 0x36F:
		return true
	case r >= 0x591 && r <= 0x5C7:
		return unicode.IsMark(r)
	case r >= 0x610 && r <= 0x61A, r >= 0x64B && r <= 0x65F, r == 0x670, r >= 0x6D6 && r <= 0x6ED:
		return unicode.IsMark(r)
	}
	return r == 0x640 // tatweel, which stretches Arabic words
}

// unaccented returns a lower-case letter without its accents.
func unaccented(r rune) rune {
	switch {
	case r < 0xC0:
		return r
	case r < 0xC0+rune(len(latin)):
		return latinBase(latin, r, r-0xC0)
	case r >= 0x1E00 && r < 0x1E00+rune(len(latinAdditional)):
		return latinBase(latinAdditional, r, r-0x1E00)
	}
	i := sort.Search(len(accented), func(i int) bool { return accented[i].last >= r })
	if i < len(accented) && accented[i].first <= r {
		return accented[i].base
	}
	return r
}

func latinBase(table string, r, i rune) rune {
	if c := table[i]; c != '.' {
		return rune(c)
	}
	return r
}
