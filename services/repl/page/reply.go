package page

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// fenced appends a fenced block whose fence no line of the body can close. The
// body is escaped; a body that is not empty gets a line end.
func fenced(out []byte, info, body, eol string) []byte {
	fence := strings.Repeat("`", max(3, longestRun(body, '`')+1))
	out = append(append(append(out, fence...), info...), eol...)
	if body != "" {
		out = append(append(out, strings.ReplaceAll(body, "\n", eol)...), eol...)
	}
	return append(append(out, fence...), eol...)
}

// longestRun is the length of the longest run of a character in a text.
func longestRun(s string, char byte) (longest int) {
	run := 0
	for i := range len(s) {
		if s[i] != char {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

// lead appends a line of the service's: "> **page** what at HH:MM:SS".
func (s *step) lead(out []byte, what string) []byte {
	out = fmt.Appendf(out, "> **%s** %s at %s", s.o.full(), what, s.now.Format(time.TimeOnly))
	return append(out, s.eol...)
}

// note appends a note, with a blank line before it.
func (s *step) note(out []byte, text string) []byte {
	out = s.lead(closeParagraph(out, s.eol), "note")
	return fenced(out, "Text", text, s.eol)
}

// span writes a duration: up to two seconds in milliseconds, then in seconds.
func span(d time.Duration) string {
	d = max(d, 0)
	if ms := d.Milliseconds(); ms <= 2000 {
		return strconv.FormatInt(ms, 10) + "ms"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
}

// reply appends the reply to the current job: its header, the result, and all
// background. Only the header is different for an error.
func (s *step) reply(out []byte) []byte {
	r, j := s.run.outcome, s.run
	took := span(r.took)
	if !r.ok {
		took = "**ERROR** after " + took
	}
	out = fmt.Appendf(out, "> **%s** to %s at %s (%s)%s", s.o.full(), oneLine(j.agent), r.at.Format(time.TimeOnly), took, s.eol)
	info := "Text"
	switch {
	case !r.ok:
		info = "Error"
	case r.json:
		info = "JSON"
	}
	out = fenced(out, info, s.body(r.body), s.eol)
	return append(out, s.backdrop()...)
}

// body is a result's text as it stands in the file.
func (s *step) body(text string) string {
	n, note := s.excess(text)
	return escape(text[:n]) + note
}

// excess tells how much of a text stands in the file, escaped. If that is not
// all, the whole is kept elsewhere, and the note says where.
func (s *step) excess(text string) (n int, note string) {
	_, left := escapeUpTo(text, s.o.BodyMax)
	if left == 0 {
		return len(text), ""
	}
	s.kept++
	file := fmt.Sprintf("debug/%s/%d.txt", s.o.full(), s.kept)
	s.effect(Keep{file, text})
	return len(text) - left, fmt.Sprintf("\n... (%d more bytes left out, the whole is in %s) ...", left, file)
}
