package page

import (
	"bytes"
	"crypto/sha256"
	"strings"
)

// exchange is a block that was answered, as far as it is needed when an editor
// saves an older copy of the file over it.
type exchange struct {
	code  digest
	line  string // the request's header
	ann   string // the announcement
	title string // the reply's header
	reply string // "" if it is too long
}

const (
	pastMax  = 64
	replyMax = 64 << 10 // of a reply that is remembered, in bytes
	pastSize = 1 << 20  // of all of them
)

// sumOf is a code's digest. What its lines end with makes no difference, and the
// end of the last one none at all.
func sumOf(code string) digest {
	return sha256.Sum256([]byte(strings.TrimSuffix(strings.ReplaceAll(code, "\r\n", "\n"), "\n")))
}

// remember keeps a reply. The oldest are forgotten.
func (s *step) remember(reply string) {
	j := s.run
	e := exchange{code: sumOf(j.code), line: j.line, ann: j.ann, reply: reply}
	e.title, _, _ = strings.Cut(reply, s.eol)
	if len(reply) > replyMax {
		e.reply = ""
	}
	past, size := []exchange{e}, len(e.reply)
	for i := len(s.past) - 1; i >= 0 && len(past) < pastMax; i-- {
		older := s.past[i]
		if size += len(older.reply); size > pastSize {
			older.reply = ""
		}
		past = append([]exchange{older}, past...)
	}
	s.past = past
}

// answered finds a block's exchange that is not in the text above it, although it
// was: the block comes from an older copy of the file.
func (s *step) answered(code digest, above []byte) (e exchange, ok bool) {
	if !s.suspect {
		return e, false
	}
	for i, past := range s.past {
		there := bytes.Count(above, []byte(past.title))
		if past.code != code || there >= titled(s.past, past.title) {
			continue
		}
		if titled(s.past[:i], past.title) >= there {
			return past, true // those of the same header before it stand above
		}
		if !ok {
			e, ok = past, true
		}
	}
	return e, ok
}

// titled is how many exchanges have a reply with this header.
func titled(past []exchange, title string) (n int) {
	for _, e := range past {
		if e.title == title {
			n++
		}
	}
	return n
}

// announced finds the reply that stood where an announcement stands again.
func (s *step) announced(ann string) (reply string, ok bool) {
	for _, e := range s.past {
		if e.ann == ann && e.reply != "" {
			return e.reply, true
		}
	}
	return "", false
}

// again is what is written below a block that is not run again: its reply, or if
// that was too long to be remembered, a note.
func (s *step) again(out []byte, e exchange) []byte {
	s.effect(Log{s.File() + ": an older copy was written over an answered request; it is not run again"})
	if e.reply != "" {
		return append(out, e.reply...)
	}
	return s.note(out, "not run again: this was answered ("+strings.TrimPrefix(e.title, "> ")+"), and an older copy of the file was written over the answer.")
}
