package page

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// interrupted ends a request that the file shows as executing although no job is:
// the service was started again, or an older copy of the file was saved. It is
// not run again.
func (s *step) interrupted(l *layout) bool {
	ann := lineAt(s.text, l.from)
	kind, agent := s.o.mark(ann.of(s.text))
	if kind != announces {
		return false
	}
	ph, seconds, ok := s.placeholder(ann.next)
	reply, known := s.announced(string(bytes.TrimRight(ann.of(s.text), " \t")))
	if !ok || !known && !s.fresh || !s.ready() {
		return false
	}
	out := bytes.Clone(s.text[:l.from])
	if known {
		out = append(out, reply...)
	} else {
		out = s.broken(out, agent, seconds)
		out = append(out, s.text[ann.next:ph.from]...)
	}
	s.unrun(out, l, ph.next)
	return true
}

// placeholder finds the placeholder that stands below an announcement, with
// nothing but background between them.
func (s *step) placeholder(from int) (at line, seconds string, ok bool) {
	for at, state := range parts(s.text, from) {
		if state.part != outside || isOmission(state.text) {
			continue
		}
		seconds, ok = placeholder(state.text)
		return at, seconds, ok
	}
	return at, "", false
}

// isOmission reports whether a line stands for background that is left out.
func isOmission(text []byte) bool {
	return bytes.HasPrefix(text, []byte("... (")) && bytes.HasSuffix(text, []byte(" more background events omitted) ..."))
}

// broken appends the reply to a request that was interrupted.
func (s *step) broken(out []byte, agent, seconds string) []byte {
	n, err := strconv.Atoi(seconds)
	if err != nil {
		n = 0 // too long a number: nobody knows
	}
	s.last = fmt.Sprintf("failed after %dms (interrupted)", time.Duration(n)*time.Second/time.Millisecond)
	out = fmt.Appendf(out, "> **%s** to %s at %s (**ERROR** after %ds)%s", s.o.full(), oneLine(agent), s.now.Format(time.TimeOnly), n, s.eol)
	return fenced(out, "Error", "interrupted: the service was stopped before the answer came; the code may have run, and is not run again", s.eol)
}

// unrun settles what stands below a request that was interrupted: its other
// blocks are not run.
func (s *step) unrun(out []byte, l *layout, from int) {
	to := l.pending(from, len(s.text))
	if l.open >= 0 {
		to = min(to, l.open)
	}
	if len(l.footers) > 0 {
		to = min(to, max(from, l.footers[0].from))
	}
	if n := len(l.code(from, to)); n > 0 {
		out = s.note(out, fmt.Sprintf("%d of %d not run: the blocks below are left as they are.", n, n+1))
	}
	if rest := s.text[from:to]; !isBlank(rest) {
		out = append(join(out, rest, s.eol), rest...)
	}
	s.settleAt(out, l.strip(nil, to, len(s.text)))
}
