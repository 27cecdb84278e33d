package page

import (
	"bytes"
	"slices"
	"strings"
)

// recover finds the current job in a text that was edited: by its code, by its
// announcement, or by its request's header. It takes out what the service had
// written below the request and tells where, or -1.
func (s *step) recover() (at int) {
	hint := s.cutPieces()
	at = s.byCode(hint)
	if s.change().edited = at < 0; at < 0 {
		at = s.byAnnouncement(hint)
	}
	if at < 0 {
		at = s.byHeader()
	}
	if at >= 0 {
		l := s.layout() // while a job is at work there is no footer
		head := l.strip(nil, 0, at)
		s.text, at = append(head[:len(head):len(head)], l.strip(nil, at, len(s.text))...), len(head)
		s.run.req = string(closeLine(bytes.Clone(s.text[s.start():at]), s.eol))
	}
	return at
}

// cutPieces takes out what the service had written, if it is as it was, and tells
// where that was. It goes even if a fence above it is open now.
func (s *step) cutPieces() int {
	pieces := []byte(s.run.pieces())
	at := s.start() + bytes.Index(s.text[s.start():], pieces)
	if at < s.start() || !hasEnd(s.text[:at]) {
		return -1
	}
	end := at + len(pieces)
	s.cut(at, end+lineEnd(s.text[end:]))
	return at
}

// byCode finds the block that was given out. If older requests stand above it
// that have lost their replies, those are put back.
func (s *step) byCode(hint int) int {
	l := s.layout()
	blocks := l.code(l.from, len(s.text))
	k := s.pick(blocks, hint)
	if k < 0 {
		return -1
	}
	out, pos := s.rebuild(l, blocks[:k], blocks[k])
	out = closeLine(l.strip(out, pos, blocks[k].next), s.eol)
	at := len(out)
	s.text = l.strip(out, blocks[k].next, len(s.text))
	if hint < 0 {
		s.cutAnnouncement(at)
	}
	return at
}

// pick is the block with the job's code: where the service had written below it,
// or the first that has no reply.
func (s *step) pick(blocks []block, hint int) int {
	found := -1
	for i, b := range blocks {
		switch {
		case sumOf(string(b.text(s.text))) != sumOf(s.run.code) || s.replied(b.next):
		case b.next == hint:
			return i
		case found < 0:
			found = i
		}
	}
	return found
}

// replied reports whether a reply stands at a place.
func (s *step) replied(i int) bool {
	kind, _ := s.o.mark(lineAt(s.text, i).of(s.text))
	return kind == replies
}

// rebuild writes the text up to the last block, with the replies and headers that
// an older copy of the file does not have. It tells how far it got.
func (s *step) rebuild(l *layout, blocks []block, last block) (out []byte, pos int) {
	out, pos = bytes.Clone(s.text[:l.from]), l.from
	for _, b := range blocks {
		e, ok := s.answered(sumOf(string(b.text(s.text))), slices.Concat(out, s.text[pos:b.from]))
		if !ok || s.replied(b.next) {
			continue
		}
		out, pos = s.headed(out, l, pos, b.from, e.line)
		out = s.again(closeLine(l.strip(out, pos, b.next), s.eol), e)
		pos = s.afterShown(b.next)
		out = join(out, s.text[pos:], s.eol)
	}
	return s.headed(out, l, pos, last.from, s.run.line)
}

// headed writes the text from a place up to a request below the footer, and the
// request's header, if an older copy of the file does not have that.
func (s *step) headed(out []byte, l *layout, pos, to int, want string) (after []byte, place int) {
	if len(l.footers) == 0 || l.below() > to {
		return out, pos
	}
	for _, h := range l.heads {
		if h.from >= pos && h.from < to && strings.TrimRight(string(h.of(s.text)), " \t") == want {
			return out, pos
		}
	}
	i := max(pos, min(l.begin(), to))
	i = min(afterBlanks(s.text, i), to)
	out = closeParagraph(l.strip(out, pos, i), s.eol)
	out = append(append(out, want...), s.eol...)
	if !l.fenced(i) {
		out = append(out, s.eol...)
	}
	return out, i
}

// afterShown is where an announcement and what belongs to it end that stand at a
// place, or the place itself.
func (s *step) afterShown(i int) int {
	if kind, _ := s.o.mark(lineAt(s.text, i).of(s.text)); kind != announces {
		return i
	}
	if ph, _, ok := s.placeholder(lineAt(s.text, i).next); ok {
		return ph.next
	}
	return i
}

// byAnnouncement takes the place of the announcement, whatever stands above it
// now, unless that was answered before.
func (s *step) byAnnouncement(hint int) int {
	at := hint
	if at < 0 {
		l, ok := s.own(s.start(), s.run.ann)
		if !ok {
			return -1
		}
		at = l.from
		s.cutAnnouncement(at)
	}
	l := s.layout()
	if blocks := l.code(l.from, at); len(blocks) > 0 && s.old(blocks[len(blocks)-1]) {
		return -1
	}
	if s.layoutOf(s.text[:at], l.from).open >= 0 {
		return -1
	}
	return at
}

// old reports whether a block was answered before.
func (s *step) old(b block) bool {
	_, ok := s.answered(sumOf(string(b.text(s.text))), s.text[:b.from])
	return ok
}

// byHeader takes the place below the first block behind the request's header and
// the replies there, or below those if there is no block.
func (s *step) byHeader() int {
	head, ok := s.own(s.start(), s.run.line)
	if !ok {
		return -1
	}
	at := head.next
	for l, state := range parts(s.text, head.next) {
		if kind, _ := s.o.mark(state.text); state.part == outside && kind == replies {
			at = s.afterReply(l.next)
		}
	}
	blocks := s.layoutOf(s.text, head.from).code(at, len(s.text))
	switch {
	case len(blocks) == 0:
	case !s.old(blocks[0]):
		at = blocks[0].next
	case at == head.next:
		return -1
	}
	s.cutShown(at)
	return at
}

// afterReply is where the blocks of a reply end that begin at a place.
func (s *step) afterReply(i int) int {
	for at, state := range parts(s.text, i) {
		if state.part == outside && !isOmission(state.text) {
			return at.from
		}
	}
	return len(s.text)
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

// cut takes the text between two places out.
func (s *step) cut(from, to int) { s.text = slices.Concat(s.text[:from], s.text[to:]) }

// cutAnnouncement takes the announcement out, if it stands at a place, and what
// belongs to it.
func (s *step) cutAnnouncement(at int) {
	if l := lineAt(s.text, at); string(bytes.TrimRight(l.of(s.text), " \t")) == s.run.ann {
		s.cut(at, l.next)
	}
	s.cutShown(at)
}

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
	for w := range strings.SplitSeq(strings.TrimSuffix(want, "\n"), "\n") {
		l := lineAt(text, i)
		if want == "" || string(text[l.from:l.end]) != strings.TrimSuffix(w, "\r") {
			return at
		}
		i = l.next
	}
	return i
}
