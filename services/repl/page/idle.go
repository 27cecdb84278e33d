package page

import (
	"bytes"
	"time"
)

// idle looks at the text while no job is at work: for a request, for text that
// does not run, and for background.
func (s *step) idle() bool {
	l := s.layout()
	if s.suspect && s.interrupted(l) {
		return true
	}
	c, asked := l.chunk()
	switch asked = asked && l.open < 0; {
	case asked && !s.ready():
		return false
	case asked:
		s.request(l, c)
		return true
	case s.suspect && l.open < 0 && s.ready():
		s.suspect, s.fresh = false, false
	}
	switch {
	case len(s.queue) > 0:
		s.insert(l)
		return true
	case l.open >= 0:
		return false // a draft: the file is not touched
	case !l.tidy():
		return s.tidy(l)
	}
	return s.flush(l)
}

// request does what is to be done with a chunk that has code in it.
func (s *step) request(l *layout, c chunk) {
	if c.foreign(&s.o) {
		s.refuse(l, c, "not run: the request is addressed to "+oneLine(c.head.page)+", and this is "+s.o.full()+".")
		return
	}
	s.accept(l, c)
}

// tidy reports whether the footer is there, below a blank line, and nothing stands
// below it.
func (l *layout) tidy() bool {
	return len(l.footers) == 1 && isBlank(l.text[l.below():]) && hasEnd(l.text) && endsBlank(l.text[:l.above()])
}

// tidy puts the footer below text that does not run, once that is final.
func (s *step) tidy(l *layout) bool {
	if !s.quiet() {
		return false
	}
	s.text = s.foot(l.strip(bytes.Clone(s.text[:l.from]), l.from, len(s.text)), nil)
	l = s.layout()
	s.setAnchor(s.text, l.pending(l.from, l.above()))
	return true
}

// foot appends the footer, with a blank line before it, and what is to follow.
func (s *step) foot(out, follow []byte) []byte {
	out = append(closeParagraph(out, s.eol), s.o.Footer...)
	return append(append(out, s.eol...), follow...)
}

// settleAt writes text, the footer and what is to follow; all of the text is
// settled.
func (s *step) settleAt(out, follow []byte) {
	out = closeParagraph(out, s.eol)
	s.setAnchor(out, len(out))
	s.text = s.foot(out, follow)
}

// flush writes background that belongs to no reply.
func (s *step) flush(l *layout) bool {
	at := s.bgSince.Add(s.o.Quiet / 2)
	if next := s.bgShown.Add(s.o.Cadence); !s.bgShown.IsZero() && next.After(at) {
		at = next
	}
	if s.bg.total == 0 || !s.due(at) {
		return false
	}
	out := s.lead(closeParagraph(bytes.Clone(s.text[:l.above()]), s.eol), "background")
	s.settleAt(append(out, s.backdrop()...), s.text[l.below():])
	s.bg, s.bgShown = backlog{}, s.now
	return true
}

// refuse leaves a note below a chunk that is not run.
func (s *step) refuse(l *layout, c chunk, text string) {
	out := l.strip(bytes.Clone(s.text[:l.from]), l.from, c.to)
	s.settleAt(s.note(out, text), l.strip(nil, c.to, len(s.text)))
	s.effect(Log{s.File() + ": " + text})
}

// clock is the time of a request whose header tells none: when the file was
// written, if that can have been the request, else now.
func (s *step) clock() string {
	t := s.now
	if m := s.view.ModTime; m.After(s.written) && m.Before(s.now) && !s.written.IsZero() {
		t = m.In(s.now.Location())
	}
	return t.Format(time.TimeOnly)
}
