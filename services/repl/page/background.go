package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// backlog is the captured background that is not in the file for good: the first two
// events, the last eight, and how many there were.
type backlog struct {
	first, last []backgroundEvent // never changed in place
	total       int
	since       time.Time // when the first event arrived
	left        *leftOut  // the latest event between the first and the last
}

// leftOut is an event that the file does not show, linked to the one before it. It is
// kept until the backlog is written, and then stored in a file beside the log.
type leftOut struct {
	before *leftOut
	text   string
	count  int // of events up to this one
	size   int // bytes of their texts
}

const (
	firstMax = 2
	lastMax  = 8
	typeMax  = 60 // bytes of an event's type and level
	placeMax = 80 // bytes of the place that logged it

	capturedMax = 256 << 10 // bytes of a message or a stack in the answer to a program

	// backlogMax is how much of the bodies is kept until they are written, in
	// bytes. What exceeds it is cut at once.
	backlogMax = 16 << 20
	// leftOutMax is how much is kept of the events that are left out.
	leftOutMax = 16 << 20
)

// backgroundEvent is an event as the file shows it.
type backgroundEvent struct {
	Captured
	lang string // the label of the block
	raw  string // the body as it came; "" once shown is set
	body        // as the file shows it
}

// info returns the info string of the event's block.
func (e *backgroundEvent) info() string { return e.lang + " " + e.source() }

// source returns the type, the time and the place of the event.
func (e *backgroundEvent) source() string {
	s := e.Type + " " + e.Time
	if e.Place != "" {
		s += " " + e.Place
	}
	return s
}

// capture adds an event to the backlog.
func (t *transition) capture(c Captured) {
	b, limit := &t.backlog, t.options.BodyMax
	e := backgroundEvent{lang: "Text", raw: c.Message}
	uncaught := c.Type == "window.onerror" || c.Type == "unhandledrejection" || c.Stack != "" && !strings.HasPrefix(c.Type, "console.")
	object := strings.TrimSpace(c.Message)
	switch {
	case uncaught:
		e.lang, e.raw = "Error", c.trace()
	case object != "" && (object[0] == '{' || object[0] == '[') && json.Valid([]byte(object)):
		e.lang = "JSON"
	case c.Level == "error":
		e.lang, e.raw = "Error", c.trace()
	}
	if !isTime(c.Time) {
		c.Time = t.now.Format("15:04:05.000")
	}
	level, _ := escapeUpTo(c.Level, typeMax)
	e.Captured = Captured{
		Type: cmp.Or(infoWords(c.Type, typeMax), "event"), Level: level, Message: clip(c.Message, capturedMax), Stack: clip(c.Stack, capturedMax),
		Time: c.Time, Place: infoWords(c.Place, placeMax),
	}

	waiting := len(e.raw)
	for _, other := range b.shown() {
		waiting += len(other.raw)
	}
	if waiting > backlogMax {
		text, left := escapeUpTo(e.raw, limit)
		if left > 0 {
			text += fmt.Sprintf("\n... (%d more bytes left out) ...", left)
			if e.lang == "JSON" {
				e.lang = "Text"
			}
		}
		e.body, e.raw = body{text: text}, ""
	}
	if b.total == 0 {
		b.since = t.now
	}
	b.total++
	if len(b.first) < firstMax {
		b.first = append(slices.Clip(b.first), e)
		return
	}
	b.last = append(slices.Clip(b.last), e)
	if len(b.last) > lastMax {
		b.leaveOut(&b.last[0])
		b.last = b.last[1:]
	}
}

// leaveOut adds an event to those that are left out, unless they are too long.
func (b *backlog) leaveOut(e *backgroundEvent) {
	text := e.source() + "\n" + cmp.Or(e.raw, e.text)
	if e.below != "" {
		text += "\n" + e.below
	}
	next := leftOut{before: b.left, text: text + "\n\n", count: 1, size: len(text)}
	if b.left != nil {
		next.count, next.size = b.left.count+1, b.left.size+next.size
	}
	if next.size <= leftOutMax {
		b.left = &next
	}
}

// keepLeftOut stores the events that are left out in a file beside the log, and returns
// a line that says so, or "".
func (t *transition) keepLeftOut() string {
	left := t.backlog.left
	if left == nil {
		return ""
	}
	var texts []string
	for e := left; e != nil; e = e.before {
		texts = append(texts, e.text)
	}
	slices.Reverse(texts)
	count := left.count
	file, _ := t.keep(strings.Join(texts, ""))
	if file == "" {
		return "... (they could not be stored) ..."
	}
	if n := t.backlog.omitted(); n > count {
		return fmt.Sprintf("... (%d of them are in %s, the others are lost) ...", count, file)
	}
	return fmt.Sprintf("... (they are in %s) ...", file)
}

// shown returns the events that were not omitted.
func (b *backlog) shown() []backgroundEvent { return slices.Concat(b.first, b.last) }

// captured returns the same events as the page sent them.
func (b *backlog) captured() (list []Captured) {
	for _, e := range b.shown() {
		list = append(list, e.Captured)
	}
	return list
}

// omitted returns how many events there were between the first and the last.
func (b *backlog) omitted() int { return b.total - len(b.first) - len(b.last) }

// appendBacklog appends the backlog as fenced blocks. The info string of each names
// its source.
func (t *transition) appendBacklog(out []byte) []byte {
	t.formatBacklog()
	b := &t.backlog
	for i, e := range b.shown() {
		if n := b.omitted(); n > 0 && i == len(b.first) {
			out = fmt.Appendf(out, "... (%d more background events omitted) ...%s", n, t.file.eol)
			if t.phase != executing && t.phase != requested { // else there may be more
				if line := t.keepLeftOut(); line != "" {
					out = append(append(out, line...), t.file.eol...)
				}
			}
		}
		out = e.body.append(out, e.info(), t.file.eol)
	}
	return out
}

// formatBacklog makes the bodies of the events as the file shows them.
func (t *transition) formatBacklog() {
	format := func(events []backgroundEvent) []backgroundEvent {
		events = slices.Clone(events)
		for i := range events {
			if e := &events[i]; e.raw != "" {
				e.body, e.raw = t.body(e.raw, e.lang == "JSON"), ""
			}
		}
		return events
	}
	b := &t.backlog
	b.first, b.last = format(b.first), format(b.last)
}

// trace returns the stack of an error, with the message above it where the browser's
// stack does not have it.
func (c *Captured) trace() string {
	message := strings.TrimPrefix(strings.TrimPrefix(c.Message, "Uncaught "), "(in promise) ")
	stack := strings.TrimRight(c.Stack, "\n")
	if stack == "" {
		return c.Message
	}
	// A stack without a message begins with a frame: "at f (place)", or "f@place"
	// in Firefox and Safari.
	first, _, _ := strings.Cut(strings.TrimSpace(stack), "\n")
	name, _, ok := strings.Cut(first, "@")
	headless := ok && !strings.Contains(name, ": ") || strings.HasPrefix(first, "at ")
	if !headless || strings.Contains(stack, message) {
		return stack
	}
	return message + "\n" + stack
}

// infoWords turns a text of the page into words of an info string, which may hold
// neither line ends nor backticks.
func infoWords(s string, limit int) string {
	s = s[:min(len(s), 4*limit)]
	s, _ = escapeUpTo(strings.ReplaceAll(oneLine(s), "`", "'"), limit)
	return strings.Join(strings.Fields(s), " ")
}

// isTime reports whether a text is a time of day, HH:MM:SS or HH:MM:SS.mmm.
func isTime(s string) bool {
	clock, ms, ok := strings.Cut(s, ".")
	return isClock([]byte(clock)) && (!ok || len(ms) == 3 && strings.Trim(ms, "0123456789") == "")
}
