package page

import (
	"bytes"
	"slices"
	"strings"
)

// recover finds the current job in a text that was edited: by its announcement,
// by its request's header, or by what the user wrote. It takes out what the
// service had written below the request and tells where, or -1.
func (s *step) recover() (at int) {
	if at = s.byAnnouncement(); at < 0 {
		at = s.byHeader()
	}
	if at < 0 {
		at = s.byCopy()
	}
	if at >= 0 {
		s.change().req = string(closeLine(bytes.Clone(s.text[s.start():at]), s.eol))
	}
	return at
}

// own finds the first line outside of fences that is the one given. What the user
// copies comes behind it.
func (s *step) own(from int, want string) (found line, ok bool) {
	for at, state := range parts(s.text, from) {
		if state.part == outside && string(bytes.TrimRight(state.text, " \t")) == want {
			return at, true
		}
	}
	return found, false
}

func (s *step) byAnnouncement() int {
	at, ok := s.own(s.start(), s.run.ann)
	if !ok {
		return -1
	}
	s.cut(at.from, at.next)
	s.cutShown(at.from)
	s.compare(at.from)
	return at.from
}

// compare notes whether the block above a place is the one that was given out.
func (s *step) compare(at int) {
	s.change().edited = true
	blocks := s.layout().code(s.start(), at)
	if len(blocks) == 0 {
		return
	}
	b := blocks[len(blocks)-1]
	s.run.edited = !isBlank(s.text[b.next:at]) || sumOf(string(b.text(s.text))) != sumOf(s.run.code)
}

// byHeader puts the announcement back below the request whose header is there.
func (s *step) byHeader() int {
	head, ok := s.own(s.start(), s.run.line)
	if !ok {
		return -1
	}
	at, edited := s.blockBelow(head)
	s.change().edited = edited
	s.cutShown(at)
	return at
}

// blockBelow is where the job's block ends below its header: the first with its
// code, else the first.
func (s *step) blockBelow(head line) (at int, edited bool) {
	from := head.next
	for l, state := range parts(s.text, head.next) {
		if kind, _ := s.o.mark(state.text); state.part == outside && kind == replies {
			from = l.next // of an earlier block
		}
	}
	blocks := s.layoutOf(s.text, head.from).code(from, len(s.text))
	for _, b := range blocks {
		if sumOf(string(b.text(s.text))) == sumOf(s.run.code) {
			return b.next, false
		}
	}
	if len(blocks) > 0 {
		return blocks[0].next, true
	}
	return from, true
}

// byCopy puts the whole exchange back where an older copy of the file has what
// the user wrote.
func (s *step) byCopy() int {
	j, l := s.run, s.layout()
	if len(l.footers) == 0 || j.raw == "" || j.done == "" {
		return -1
	}
	out := l.strip(bytes.Clone(s.text[:l.from]), l.from, l.below())
	out, rest, _ := s.replay(out, l.strip(nil, l.below(), len(s.text)))
	i := afterBlanks(rest, 0)
	if !bytes.HasPrefix(rest[i:], []byte(j.raw)) {
		return -1
	}
	out = closeParagraph(append(out, rest[:i]...), s.eol)
	s.setAnchor(out, len(out))
	out = append(out, j.done...)
	rest = rest[i+j.used:]
	s.text = slices.Concat(out, rest[lineEnd(rest):])
	return len(out)
}

// cut takes the text between two places out.
func (s *step) cut(from, to int) { s.text = slices.Concat(s.text[:from], s.text[to:]) }

// cutShown takes out the background that was shown, if it stands at a place, and
// the placeholder, wherever it stands behind that.
func (s *step) cutShown(at int) {
	s.cut(at, sameLines(s.text, at, s.run.shown))
	if rest, ok := bytes.CutPrefix(s.text[at:], []byte(s.run.ph)); ok {
		s.cut(at, len(s.text)-len(rest)+lineEnd(rest))
	} else if l, ok := s.own(at, s.run.ph); ok {
		s.cut(l.from, l.next)
	}
}

// sameLines is the end of the lines that stand at a place of a text, if they are
// the ones given; else the place itself. Line ends make no difference.
func sameLines(text []byte, at int, want string) int {
	i := at
	for _, w := range strings.Split(strings.TrimSuffix(want, "\n"), "\n") {
		l := lineAt(text, i)
		if want == "" || string(text[l.from:l.end]) != strings.TrimSuffix(w, "\r") {
			return at
		}
		i = l.next
	}
	return i
}

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
	j.rest, j.gap, j.edited, j.raw = "", 0, false, ""
	s.effect(Log{s.File() + ": " + text})
	s.complete(len(out))
	return true
}
