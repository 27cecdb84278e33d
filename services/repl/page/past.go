package page

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"
)

// exchange is a request that was answered, as far as it is needed when an editor
// saves an older copy of the file over it.
type exchange struct {
	ann, reply string   // of a block; reply is "" if it is too long
	raw, whole string   // what the user wrote, and what became of it; "" but for a chunk's last block
	codes      []digest // of the chunk's blocks, likewise
}

const (
	pastMax  = 16
	replyMax = 64 << 10 // of the replies remembered, in bytes
)

// sumOf is a code's digest. Line ends make no difference.
func sumOf(code string) digest {
	return sha256.Sum256([]byte(strings.ReplaceAll(code, "\r\n", "\n")))
}

// remember keeps a block's reply, and at the chunk's end the exchange.
func (s *step) remember(j *job, reply string, end bool) {
	e := exchange{ann: j.ann, reply: reply}
	if len(reply) > replyMax {
		e.reply = ""
	}
	if end {
		e.codes = j.codes
		if whole := j.done + reply; j.raw != "" && j.done != "" && len(whole) <= replyMax {
			e.raw, e.whole = j.raw, whole
		}
	}
	s.past = slices.Clone(lastOf(append(s.past[:len(s.past):len(s.past)], e), pastMax))
}

// title is the first line of an exchange's last reply, which no other has.
func (e *exchange) title() string {
	line, _, _ := strings.Cut(e.reply, "\n")
	return line
}

// missing reports whether the end of an exchange is not in a text.
func (s *step) missing(e *exchange, text []byte) bool {
	title, n := e.title(), 0
	for i := range s.past {
		if s.past[i].title() == title {
			n++
		}
	}
	return title == "" || bytes.Count(text, []byte(title)) < n
}

// replay appends the exchanges that a text begins with the requests of, each
// where its request was, and returns what is left of the text.
func (s *step) replay(out, text []byte) (after, rest []byte, n int) {
	above := out
	for i := range s.past {
		e := &s.past[i]
		j := afterBlanks(text, 0)
		if e.raw == "" || !bytes.HasPrefix(text[j:], []byte(e.raw)) || !s.missing(e, above) {
			continue
		}
		tail := text[j+len(e.raw):]
		if k := lineEnd(tail); k > 0 || len(tail) == 0 {
			out = append(closeParagraph(append(out, text[:j]...), s.eol), e.whole...)
			text, n = tail[k:], n+1
		}
	}
	return out, text, n
}

// restore puts exchanges back that an editor wrote an older copy over. They are
// not run again.
func (s *step) restore(l *layout, c chunk) bool {
	out := l.strip(bytes.Clone(s.text[:l.from]), l.from, c.from)
	out, rest, n := s.replay(out, l.strip(nil, c.from, len(s.text)))
	if n > 0 {
		s.settleAt(out, rest)
		s.effect(Log{s.File() + ": an older copy was written over answered requests; they were put back and not run again"})
		return true
	}
	for i := range s.past {
		if e := &s.past[i]; len(e.codes) > 0 && slices.Equal(e.codes, s.sums(c)) && s.missing(e, s.text[:c.from]) {
			s.refuse(l, c, "not run: this was answered before, and an older copy of the file was written over the answer. Write it once more below to run it again.")
			return true
		}
	}
	return false
}

// sums are the digests of a chunk's blocks.
func (s *step) sums(c chunk) (sums []digest) {
	for _, b := range c.blocks {
		sums = append(sums, sumOf(string(b.text(s.text))))
	}
	return sums
}
