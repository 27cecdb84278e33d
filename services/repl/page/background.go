package page

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// backlog is what was captured and is not in the file for good: the first two
// events, the last eight, and how many there were.
type backlog struct {
	first, last []Captured // never changed in place
	total       int
}

const (
	firstMax    = 2
	lastMax     = 8
	capturedMax = 16 << 10 // of an event's text, in bytes
	typeMax     = 60       // of an event's type, in bytes
)

// add takes in an event.
func (b *backlog) add(c Captured) {
	c.Type = source(c.Type)
	c.Message, c.Stack = bounded(c.Message), bounded(c.Stack)
	b.total++
	if len(b.first) < firstMax {
		b.first = append(slices.Clip(b.first), c)
		return
	}
	b.last = append(slices.Clip(b.last), c)
	if len(b.last) > lastMax {
		b.last = slices.Clone(b.last[1:])
	}
}

// events are those that are there.
func (b *backlog) events() []Captured { return slices.Concat(b.first, b.last) }

// omitted is how many there were between them.
func (b *backlog) omitted() int { return b.total - len(b.first) - len(b.last) }

// backdrop is the backlog as fenced blocks.
func (s *step) backdrop() []byte {
	var out []byte
	for _, c := range s.bg.first {
		out = appendCaptured(out, c, s.eol)
	}
	if n := s.bg.omitted(); n > 0 {
		out = fmt.Appendf(out, "... (%d more background events omitted) ...%s", n, s.eol)
	}
	for _, c := range s.bg.last {
		out = appendCaptured(out, c, s.eol)
	}
	return out
}

// appendCaptured appends an event's block. Its info string tells the source.
func appendCaptured(out []byte, c Captured, eol string) []byte {
	lang, body := "Text", c.Message
	switch {
	case isError(c):
		lang, body = "Error", c.trace()
	case isJSON(c.Message):
		lang = "JSON"
	case c.Level == "error":
		lang, body = "Error", c.trace()
	}
	return fenced(out, lang+" "+c.Type, body, eol)
}

// isError reports whether an event tells of an error that nobody caught.
func isError(c Captured) bool {
	return c.Type == "window.onerror" || c.Type == "unhandledrejection" ||
		c.Stack != "" && !strings.HasPrefix(c.Type, "console.")
}

// trace is an error's stack, which in some browsers does not hold the message.
func (c *Captured) trace() string {
	switch {
	case c.Stack == "":
		return c.Message
	case strings.Contains(c.Stack, c.Message):
		return c.Stack
	}
	return c.Message + "\n" + c.Stack
}

// isJSON reports whether a text is a JSON object or array.
func isJSON(s string) bool {
	s = strings.TrimSpace(s)
	return s != "" && (s[0] == '{' || s[0] == '[') && json.Valid([]byte(s))
}

// source is an event's type as a word of an info string, which may hold neither
// line ends nor backticks.
func source(s string) string {
	s = s[:min(len(s), 4*typeMax)]
	s, _ = escapeUpTo(strings.ReplaceAll(oneLine(s), "`", "'"), typeMax)
	if s = strings.Join(strings.Fields(s), " "); s == "" {
		return "event"
	}
	return s
}

// bounded is a text of the page, escaped and not too long.
func bounded(s string) string {
	text, left := escapeUpTo(s, capturedMax)
	if left > 0 {
		text += fmt.Sprintf("\n... (%d more bytes left out) ...", left)
	}
	return text
}
