package page

import "bytes"

// disrupted ends a job of which nothing can be found in the file any more. It
// leaves a note, and the reply if there is one.
func (s *step) disrupted() bool {
	if !s.quiet() {
		return false
	}
	const text = "disrupted: the request was removed from the file while it was at work"
	if s.run.outcome == nil {
		s.fail(reasonLost, text)
	}
	j, l := s.change(), s.layout()
	at := l.above()
	if len(l.footers) == 0 && l.open >= 0 {
		at = l.open
	}
	out := s.note(bytes.Clone(s.text[:at]), "The request of "+oneLine(j.agent)+" at "+j.asked+" was removed from the file while it was at work.")
	out = closeParagraph(out, s.eol)
	s.text = append(out[:len(out):len(out)], l.strip(nil, at, len(s.text))...)
	j.rest, j.gap, j.edited = "", 0, false
	s.effect(Log{s.File() + ": " + text})
	s.complete(len(out))
	return true
}
