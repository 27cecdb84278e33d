package mem

import (
	"unicode"
	"unicode/utf8"
)

// words returns the words of a text in their order, folded to one case. A word
// is a run of letters and digits with the marks that belong to them. Chinese
// and Japanese are written without spaces: a run of their characters is taken
// as its overlapping pairs, a single one as itself.
func words(text string) []string {
	var s splitter
	for _, r := range text {
		s.next(r)
	}
	s.endWord()
	s.endRun()
	return s.list
}

type splitter struct {
	list []string
	word []byte // the word under way
	run  []rune // the run of ideographs under way
}

func (s *splitter) next(r rune) {
	switch {
	case r < utf8.RuneSelf && isPlain(byte(r)) && r != '_' && r != '-':
		s.endRun()
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		s.word = append(s.word, byte(r))
	case invisible(r):
	case ideographic(r):
		s.endWord()
		s.run = append(s.run, r)
	case unicode.IsLetter(r) || unicode.IsDigit(r):
		s.endRun()
		s.word = appendFolded(s.word, r)
	case len(s.word) > 0 && unicode.IsMark(r):
		s.word = utf8.AppendRune(s.word, r)
	default:
		s.endWord()
		s.endRun()
	}
}

func (s *splitter) endWord() {
	if len(s.word) > 0 {
		s.list = append(s.list, string(s.word))
		s.word = s.word[:0]
	}
}

func (s *splitter) endRun() {
	if len(s.run) == 1 {
		s.list = append(s.list, string(s.run))
	}
	for i := 1; i < len(s.run); i++ {
		s.list = append(s.list, string(s.run[i-1:i+1]))
	}
	s.run = s.run[:0]
}

// appendFolded appends a letter in the form that all its cases share: the
// lower case of its upper case, so that the two forms of the Greek sigma are
// one letter too.
func appendFolded(b []byte, r rune) []byte {
	if r == 'ß' || r == 'ẞ' {
		return append(b, "ss"...)
	}
	return utf8.AppendRune(b, unicode.ToLower(unicode.ToUpper(r)))
}

// ideographic reports whether r belongs to Chinese or Japanese. The marks for
// long vowels and voiced sounds are shared by scripts and have none of their own.
func ideographic(r rune) bool {
	switch r {
	case 'ー', 'ｰ', 'ﾞ', 'ﾟ', '\u3099', '\u309a':
		return true
	}
	return r >= 0x2E80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
}

// invisible characters may stand within a word without parting it: the soft
// hyphen and variation selectors.
func invisible(r rune) bool { return r == '\u00ad' || r >= 0xFE00 && r <= 0xFE0F }
