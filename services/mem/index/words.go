package index

import (
	"unicode"
	"unicode/utf8"
)

// Words returns the terms of a text in their order. A term is a sequence of letters
// and digits, folded to one case and without accents; an English one is reduced to its
// stem. The letters behind the apostrophe in "it's" or "we've" are not a term. Chinese
// and Japanese are written without spaces: the terms of a sequence of their characters
// are its overlapping pairs, or a single character itself.
func Words(text string) []string {
	var list []string
	Split(text, func(w Word) { list = append(list, w.Stem()) })
	return list
}

// Word is a folded word of a text. Its terms are its stem and, if it is plain, its
// form: "=" and the folded word.
type Word struct {
	Folded   []byte // valid until emit returns
	Plain    bool   // only letters a to z
	From, To int    // the offsets in the text
}

// Split calls emit for each word of text.
func Split(text string, emit func(Word)) {
	s := splitter{emit: emit}
	s.split(text)
}

// splitter finds words. Its buffers are reused for the next text.
type splitter struct {
	emit   func(Word)
	word   Word       // the current word
	clitic bool       // word follows an apostrophe
	run    []ideogram // the current sequence of ideograms
	pair   []byte
}

type ideogram struct {
	char     rune
	from, to int
}

func (s *splitter) split(text string) {
	s.word.Folded, s.word.Plain = s.word.Folded[:0], true
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			s.ascii(c, i)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		s.next(r, i, i+size)
		i += size
	}
	s.end()
}

// ascii processes a byte below utf8.RuneSelf at offset i.
func (s *splitter) ascii(c byte, i int) {
	switch {
	case c >= 'a' && c <= 'z':
	case c >= 'A' && c <= 'Z':
		c += 'a' - 'A'
	case c >= '0' && c <= '9':
		s.word.Plain = false
	case c == '\'':
		s.apostrophe()
		return
	default:
		s.end()
		return
	}
	s.begin(i, i+1)
	s.word.Folded = append(s.word.Folded, c)
}

// next processes a character that is not ASCII.
func (s *splitter) next(r rune, from, to int) {
	r = narrowed(r)
	switch {
	case r < utf8.RuneSelf:
		s.ascii(byte(r), from)
	case r == '’' || r == 'ʼ':
		s.apostrophe()
	case ideographic(r):
		s.endWord()
		s.ideogram(r, from, to)
	case isAccent(r):
		s.word.To = max(s.word.To, to)
		return
	case invisible(r):
		return
	case unicode.IsLetter(r) || unicode.IsDigit(r):
		s.begin(from, to)
		s.letter(r)
	case unicode.IsMark(r) && len(s.word.Folded) > 0:
		s.word.Folded, s.word.Plain = utf8.AppendRune(s.word.Folded, r), false
	default:
		s.end()
		return
	}
	s.word.To = to
}

// begin starts a word, or extends the current one, with the bytes from..to.
func (s *splitter) begin(from, to int) {
	if len(s.run) > 0 {
		s.endRun()
	}
	if len(s.word.Folded) == 0 {
		s.word.From = from
	}
	s.word.To = to
}

func (s *splitter) letter(r rune) {
	before := len(s.word.Folded)
	s.word.Folded = appendFolded(s.word.Folded, r)
	for _, c := range s.word.Folded[before:] {
		s.word.Plain = s.word.Plain && c < utf8.RuneSelf
	}
}

// apostrophe ends a word; the following word may be a clitic.
func (s *splitter) apostrophe() {
	within := len(s.word.Folded) > 0
	s.end()
	s.clitic = within
}

func (s *splitter) end() {
	s.endWord()
	s.endRun()
}

func (s *splitter) endWord() {
	if len(s.word.Folded) > 0 && !(s.clitic && isClitic(string(s.word.Folded))) {
		s.emit(s.word)
	}
	s.word.Folded, s.word.Plain, s.clitic = s.word.Folded[:0], true, false
}

// isClitic reports whether w is the part of an English contraction behind the
// apostrophe, as of "is", "not", "would" and "have". These are too frequent to be
// useful terms.
func isClitic(w string) bool {
	switch w {
	case "s", "t", "d", "m", "ll", "re", "ve":
		return true
	}
	return false
}

// invisible reports whether r is a format character that does not end a word: the soft
// hyphen, joiners, direction marks and variation selectors, but not the zero width
// space.
func invisible(r rune) bool {
	return r != '\u200b' && unicode.Is(unicode.Cf, r) || r >= 0xFE00 && r <= 0xFE0F || r >= 0xE0100 && r <= 0xE01EF
}
