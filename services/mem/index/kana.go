package index

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The combining marks of voiced sounds.
const (
	voicedMark     = '\u3099'
	halfVoicedMark = '\u309a'
)

// ideographic reports whether r is a character of Chinese or Japanese. Unicode counts
// the marks for long vowels and voiced sounds among the characters common to all
// scripts.
func ideographic(r rune) bool {
	switch r {
	case 'ー', voicedMark, halfVoicedMark:
		return true
	}
	return r >= 0x2E80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
}

// ideogram adds a Chinese or Japanese character.
func (s *splitter) ideogram(r rune, from, to int) {
	if r != voicedMark && r != halfVoicedMark {
		s.run = append(s.run, ideogram{r, from, to})
		return
	}
	if n := len(s.run); n > 0 {
		s.run[n-1].char = voiced(s.run[n-1].char, r)
		s.run[n-1].to = to
	}
}

// endRun emits the overlapping pairs of the current sequence, or its single character.
func (s *splitter) endRun() {
	if len(s.run) == 1 {
		s.emitRun(s.run)
	}
	for i := 1; i < len(s.run); i++ {
		s.emitRun(s.run[i-1 : i+1])
	}
	s.run = s.run[:0]
}

func (s *splitter) emitRun(run []ideogram) {
	s.pair = s.pair[:0]
	for _, c := range run {
		s.pair = utf8.AppendRune(s.pair, c.char)
	}
	s.emit(Word{Folded: s.pair, From: run[0].from, To: run[len(run)-1].to})
}

// voiced returns the composed form of r and a mark, or r if no such form exists.
func voiced(r, mark rune) rune {
	const (
		katakana   = 'ア' - 'あ'
		voiceable  = "かきくけこさしすせそたちつてとはひふへほゝ"
		halfVoiced = "はひふへほ"
	)
	base := r
	if r >= 'ァ' && r <= 'ヽ' {
		base -= katakana
	}
	switch {
	case mark == voicedMark && base == 'う':
		return r - base + 'ゔ'
	case mark == voicedMark && strings.ContainsRune(voiceable, base):
		return r + 1
	case mark == halfVoicedMark && strings.ContainsRune(halfVoiced, base):
		return r + 2
	}
	return r
}

// halfWidth are the katakana whose halfwidth forms are U+FF66 to U+FF9D.
var halfWidth = []rune("ヲァィゥェォャュョッーアイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワン")

// narrowed maps the fullwidth forms of ASCII and the halfwidth forms of katakana to the
// usual characters.
func narrowed(r rune) rune {
	switch {
	case r < 0xFF01 || r > 0xFF9F:
		return r
	case r <= 0xFF5E:
		return r - 0xFF01 + '!'
	case r == 0xFF9E:
		return voicedMark
	case r == 0xFF9F:
		return halfVoicedMark
	case r >= 0xFF66:
		return halfWidth[r-0xFF66]
	}
	return r
}
