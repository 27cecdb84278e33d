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
	split(text, func(w word) { list = append(list, w.stem()) })
	return list
}

// Tokeniser implements the Tokeniser interface of github.com/james-bowman/nlp with
// the terms of Words.
type Tokeniser struct{}

// ForEachIn calls f for every term of text in its order.
func (Tokeniser) ForEachIn(text string, f func(term string)) {
	split(text, func(w word) { f(w.stem()) })
}

// Tokenise returns the terms of text in their order.
func (Tokeniser) Tokenise(text string) []string { return Words(text) }

// word is a folded word of a text.
type word struct {
	folded   []byte // valid until emit returns
	plain    bool   // only letters a to z
	from, to int    // the offsets in the text
}

// split calls emit for each word of text.
func split(text string, emit func(word)) {
	s := splitter{emit: emit}
	s.split(text)
}

// splitter finds words. Its buffers are reused for the next text.
type splitter struct {
	emit   func(word)
	word   word       // the current word
	clitic bool       // word follows an apostrophe
	run    []ideogram // the current sequence of ideograms
	pair   []byte
}

type ideogram struct {
	char     rune
	from, to int
}

func (s *splitter) split(text string) {
	s.word.folded, s.word.plain = s.word.folded[:0], true
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
		s.word.plain = false
	case c == '\'':
		s.apostrophe()
		return
	default:
		s.end()
		return
	}
	s.begin(i, i+1)
	s.word.folded = append(s.word.folded, c)
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
		s.word.to = max(s.word.to, to)
		return
	case invisible(r):
		return
	case unicode.IsLetter(r) || unicode.IsDigit(r):
		s.begin(from, to)
		s.letter(r)
	case unicode.IsMark(r) && len(s.word.folded) > 0:
		s.word.folded, s.word.plain = utf8.AppendRune(s.word.folded, r), false
	default:
		s.end()
		return
	}
	s.word.to = to
}

// begin starts a word, or extends the current one, with the bytes from..to.
func (s *splitter) begin(from, to int) {
	if len(s.run) > 0 {
		s.endRun()
	}
	if len(s.word.folded) == 0 {
		s.word.from = from
	}
	s.word.to = to
}

func (s *splitter) letter(r rune) {
	before := len(s.word.folded)
	s.word.folded = appendFolded(s.word.folded, r)
	for _, c := range s.word.folded[before:] {
		s.word.plain = s.word.plain && c < utf8.RuneSelf
	}
}

// apostrophe ends a word; the following word may be a clitic.
func (s *splitter) apostrophe() {
	within := len(s.word.folded) > 0
	s.end()
	s.clitic = within
}

func (s *splitter) end() {
	s.endWord()
	s.endRun()
}

func (s *splitter) endWord() {
	if len(s.word.folded) > 0 && !(s.clitic && isClitic(string(s.word.folded))) {
		s.emit(s.word)
	}
	s.word.folded, s.word.plain, s.clitic = s.word.folded[:0], true, false
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
