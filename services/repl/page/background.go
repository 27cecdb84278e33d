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
	first, last []shown // never changed in place
	total       int
}

const (
	firstMax = 2
	lastMax  = 8
	typeMax  = 60 // of an event's type and level, in bytes

	// backlogMax is how much of a backlog's bodies is kept until they are written,
	// in bytes. What comes beyond that is cut at once.
	backlogMax = 16 << 20
)

// shown is an event as the file has it.
type shown struct {
	Captured
	lang string // the block's label
	body string // what is to be in the block, as it came; "" once it is worded
	text string // the body as the file has it
}

// add takes in an event.
func (b *backlog) add(e shown, bodyMax int) {
	if b.size()+len(e.body) > backlogMax {
		e.clip(bodyMax)
	}
	b.total++
	if len(b.first) < firstMax {
		b.first = append(slices.Clip(b.first), e)
		return
	}
	b.last = append(slices.Clip(b.last), e)
	if len(b.last) > lastMax {
		b.last = slices.Clone(b.last[1:])
	}
}

// size is how much of bodies waits to be written.
func (b *backlog) size() (n int) {
	for _, e := range b.shown() {
		n += len(e.body)
	}
	return n
}

// shown are the events that are there.
func (b *backlog) shown() []shown { return slices.Concat(b.first, b.last) }

// events are the same as the realm told them.
func (b *backlog) events() (list []Captured) {
	for _, e := range b.shown() {
		list = append(list, e.Captured)
	}
	return list
}

// omitted is how many there were between them.
func (b *backlog) omitted() int { return b.total - len(b.first) - len(b.last) }

// backdrop is the backlog as fenced blocks.
func (s *step) backdrop() []byte {
	s.bg.first, s.bg.last = s.worded(s.bg.first), s.worded(s.bg.last)
	var out []byte
	for _, e := range s.bg.first {
		out = e.block(out, s.eol)
	}
	if n := s.bg.omitted(); n > 0 {
		out = fmt.Appendf(out, "... (%d more background events omitted) ...%s", n, s.eol)
	}
	for _, e := range s.bg.last {
		out = e.block(out, s.eol)
	}
	return out
}

// worded are events whose bodies are as the file has them.
func (s *step) worded(events []shown) []shown {
	events = slices.Clone(events)
	for i, e := range events {
		if e.body != "" {
			events[i].text, events[i].body = s.body(e.body), ""
		}
	}
	return events
}

// clip words a body at once, and leaves out for good what is too much.
func (e *shown) clip(limit int) {
	text, left := escapeUpTo(e.body, limit)
	if e.text, e.body = text, ""; left > 0 {
		e.text += fmt.Sprintf("\n... (%d more bytes left out) ...", left)
	}
}

// block appends an event's block. Its info string tells the source.
func (e *shown) block(out []byte, eol string) []byte {
	return fenced(out, e.lang+" "+e.Type, e.text, eol)
}

// shape makes an event what the file will have of it.
func (o *Options) shape(c Captured) shown {
	e := shown{lang: "Text", body: c.Message}
	switch {
	case isError(c):
		e.lang, e.body = "Error", c.trace()
	case isJSON(c.Message):
		e.lang = "JSON"
	case c.Level == "error":
		e.lang, e.body = "Error", c.trace()
	}
	level, _ := escapeUpTo(c.Level, typeMax)
	e.Captured = Captured{source(c.Type), level, clip(c.Message, o.BodyMax), clip(c.Stack, o.BodyMax)}
	return e
}

// isError reports whether an event tells of an error that nobody caught.
func isError(c Captured) bool {
	return c.Type == "window.onerror" || c.Type == "unhandledrejection" ||
		c.Stack != "" && !strings.HasPrefix(c.Type, "console.")
}

// trace is an error's stack. Those of some browsers do not have the message: it
// stands above them.
func (c *Captured) trace() string {
	message := strings.TrimPrefix(strings.TrimPrefix(c.Message, "Uncaught "), "(in promise) ")
	stack := strings.TrimRight(c.Stack, "\n")
	switch {
	case stack == "":
		return c.Message
	case !headless(stack) || strings.Contains(stack, message):
		return stack
	}
	return message + "\n" + stack
}

// headless reports whether a stack begins with a frame: "at f (place)", or
// "f@place" as Firefox and Safari have it.
func headless(stack string) bool {
	first, _, _ := strings.Cut(strings.TrimSpace(stack), "\n")
	name, _, ok := strings.Cut(first, "@")
	return ok && !strings.Contains(name, ": ") || strings.HasPrefix(first, "at ")
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

// clip is a text of the page that is not too long for memory.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	text := strings.ToValidUTF8(s[:limit], "") // a character that was cut in two
	return fmt.Sprintf("%s\n... (%d more bytes left out) ...", text, len(s)-len(text))
}
