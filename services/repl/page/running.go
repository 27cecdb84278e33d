package page

import (
	"bytes"
	"fmt"
	"slices"
)

// running keeps what the file shows of the current job up to date, and writes its
// reply when it has one.
func (s *step) running() bool {
	at, sure := s.locate()
	if !sure {
		return false
	}
	if at < 0 {
		return s.disrupted()
	}
	j := s.run
	switch {
	case j.edited && !j.given && j.outcome == nil:
		s.withdraw()
		return true
	case j.outcome != nil:
		s.complete(at)
		return true
	}
	s.give()
	s.show(at)
	return false
}

// locate takes what the service wrote below the request out of the text, and
// tells where it was. It is -1 if nothing of the request can be found. If the file
// may be about to change once more, it is not sure.
func (s *step) locate() (at int, sure bool) {
	j, i := s.run, s.start()
	if j.before != nil {
		return i + len(j.req), true // in this very step
	}
	if rest, ok := bytes.CutPrefix(s.text[i:], []byte(j.req)); ok {
		if rest, ok = bytes.CutPrefix(rest, []byte(j.pieces())); ok {
			at = i + len(j.req)
			s.text = slices.Concat(s.text[:at], s.text[len(s.text)-len(rest)+lineEnd(rest):])
			return at, true
		}
	}
	if !s.ready() {
		return 0, false
	}
	s.suspect = true
	return s.recover(), true
}

// lineEnd is the length of the line end that a text begins with.
func lineEnd(b []byte) int {
	if l := lineAt(b, 0); l.end == 0 {
		return l.next
	}
	return 0
}

// show puts back what locate took out, brought up to date if it is time.
func (s *step) show(at int) {
	j := s.run
	first := s.bg.total > 0 && j.bgAt.IsZero()
	if s.due(j.shownAt.Add(s.o.Cadence)) || first {
		s.display()
		s.wakeAt(s.run.shownAt.Add(s.o.Cadence))
	}
	out := closeLine(bytes.Clone(s.text[:at]), s.eol)
	out = append(append(out, s.run.pieces()...), s.eol...)
	follow := s.text[at:]
	if n := len(out); !bytes.HasPrefix(follow, []byte(s.run.rest)) {
		out = join(out, follow, s.eol)
		follow = append(out[n:len(out):len(out)], follow...)
		out = out[:n]
	}
	s.text = append(out, follow...)
}

// display makes what is shown of a job what it is to be now.
func (s *step) display() {
	j := s.change()
	j.shownAt, j.eol = s.now, s.eol
	if s.bg.total > 0 && j.bgAt.IsZero() {
		j.bgAt = s.now
	}
	j.shown = string(s.backdrop())
	j.ph = fmt.Sprintf("executing (%ds)", int(s.now.Sub(j.accepted).Seconds()))
}

// withdraw takes a job back that was not given out, because its request was
// changed. What is there now is a candidate again.
func (s *step) withdraw() {
	j := s.run
	if j.key != "" {
		s.effect(Done{Job: j.id, Key: j.key, Error: "aborted: the request was changed in the file", Reason: reasonAborted})
	}
	i := s.start()
	s.text = s.foot(bytes.Clone(s.text[:i]), s.text[i:])
	s.run, s.last = nil, ""
}

// complete writes the reply to the current job, and goes on with the chunk's next
// block or ends the chunk.
func (s *step) complete(at int) {
	j := s.run
	out := closeLine(bytes.Clone(s.text[:at]), s.eol)
	from := len(out)
	if j.before != nil {
		s.run, s.put = nil, j.before.line
		s.settleAt(s.again(out, *j.before), s.text[at+j.gap:])
		return
	}
	out = s.reply(out)
	s.bg = backlog{}
	s.remember(string(out[from:]))
	if j.edited {
		out = s.note(out, "The code above was changed after it had been given to the page. The reply is to the code as it was then.")
	}
	whole, n := s.split(out, s.text[at:])
	rest, follow := whole[:n], whole[n:]
	if j.k < j.n && j.outcome.reason == "" && s.proceed(out, from, rest, follow) {
		return
	}
	if j.k < j.n && j.outcome.reason != "" {
		out = s.note(out, fmt.Sprintf("%d of %d not run: the blocks below are left as they are.", j.n-j.k, j.n))
	}
	s.run = nil
	if !isBlank(rest) {
		s.settleAt(append(join(out, rest, s.eol), rest...), follow)
		return
	}
	gap := lineEnd(rest) // one blank line is the reply's
	if gap > 0 && j.gap == 0 {
		out = append(out, rest[:gap]...)
	}
	s.settleAt(out, whole[gap:])
}

// split tells how much of what follows a reply belongs to the chunk: what did
// when it was accepted, or if that was changed, what may be read as the rest of it.
func (s *step) split(out, follow []byte) (whole []byte, n int) {
	j := s.run
	switch {
	case bytes.HasPrefix(follow, []byte(j.rest)) && isLine(follow, len(j.rest)):
		return follow, len(j.rest)
	case j.k == j.n:
		return follow, 0
	}
	text := slices.Concat(closeLine(out, s.eol), follow)
	start := len(text) - len(follow)
	l := s.layoutOf(text, start)
	end := l.above()
	if l.open >= 0 {
		end = min(end, l.open)
	}
	for _, h := range l.heads {
		if h.exact() && h.from < end {
			end = h.from
		}
	}
	return follow, end - start
}

// proceed begins the next block of a chunk, if there is one. The reply to the
// last one is the end of out, from a place on.
func (s *step) proceed(out []byte, from int, rest, follow []byte) bool {
	j := *s.run
	out = join(out, slices.Concat(rest, follow), s.eol)
	text := slices.Concat(out, rest, follow)
	begin := len(out)
	blocks := s.layoutOf(text, begin).code(begin, begin+len(rest))
	if len(blocks) == 0 {
		return false
	}
	s.setAnchor(out, begin)
	b := blocks[0]
	j.k++
	j.n = j.k + len(blocks) - 1
	s.learn(&j, &b, text, out)
	out = closeLine(append(out, text[begin:b.next]...), s.eol)
	j.req = string(out[begin:])
	j.extend(string(out[from:]))
	s.announce(out, j, bytes.Clone(text[b.next:begin+len(rest)]), bytes.Clone(follow))
	return true
}
