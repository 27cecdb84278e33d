package page

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	markdown "zino/pkg/text"
)

// appendLine appends a line of the service: "> **page** what at HH:MM:SS".
func (t *transition) appendLine(out []byte, what string) []byte {
	return fmt.Appendf(out, "> **%s** %s at %s%s", t.options.full(), what, t.now.Format(time.TimeOnly), t.file.eol)
}

// appendNote appends a note, with a blank line before it.
func (t *transition) appendNote(out []byte, text string) []byte {
	out = t.appendLine(closeParagraph(out, t.file.eol), "note")
	return fenced(out, "Text", text, t.file.eol)
}

// appendFooter appends the footer, with a blank line before it, and what follows.
func (t *transition) appendFooter(out, follow []byte) []byte {
	out = append(closeParagraph(out, t.file.eol), t.options.Footer...)
	return append(append(out, t.file.eol...), follow...)
}

// appendCode appends a block of code, byte for byte.
func (t *transition) appendCode(out []byte, code string) []byte {
	fence := markdown.FenceFor(code)
	out = append(append(append(out, fence...), t.options.Lang...), t.file.eol...)
	out = closeLine(append(out, code...), t.file.eol)
	return append(append(out, fence...), t.file.eol...)
}

// appendReply appends the reply to the job: its header, the result and all
// background.
func (t *transition) appendReply(out []byte) []byte {
	r := &t.job.result
	took, info := span(r.took), "Text"
	if !r.ok {
		took, info = "**ERROR** after "+took, "Error"
	} else if r.json {
		info = "JSON"
	}
	out = fmt.Appendf(out, "> **%s** to %s at %s (%s)%s", t.options.full(), oneLine(t.job.agent), r.at.Format(time.TimeOnly), took, t.file.eol)
	return t.appendBacklog(fenced(out, info, t.body(r.body), t.file.eol))
}

// span formats a duration: up to two seconds in milliseconds, then in seconds.
func span(d time.Duration) string {
	d = max(d, 0)
	if ms := d.Milliseconds(); ms <= 2000 {
		return strconv.FormatInt(ms, 10) + "ms"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
}

// body returns a text as it stands in the file: escaped, and cut if it is too long.
// Then the whole text is kept in an overflow file.
func (t *transition) body(text string) string {
	short, left := escapeUpTo(text, t.options.BodyMax)
	if left == 0 {
		return short
	}
	t.kept++
	file := fmt.Sprintf("debug/%s/%d.txt", t.options.full(), t.kept)
	t.act(Keep{file, text})
	return fmt.Sprintf("%s\n... (%d more bytes left out, the whole is in %s) ...", short, left, file)
}

// backlog is the captured background that is not in the file for good: the first two
// events, the last eight, and how many there were.
type backlog struct {
	first, last []backgroundEvent // never changed in place
	total       int
	since       time.Time // when the first event arrived
}

const (
	firstMax = 2
	lastMax  = 8
	typeMax  = 60 // bytes of an event's type and level

	// backlogMax is how much of the bodies is kept until they are written, in
	// bytes. What exceeds it is cut at once.
	backlogMax = 16 << 20
)

// backgroundEvent is an event as the file shows it.
type backgroundEvent struct {
	Captured
	lang string // the label of the block
	raw  string // the body as it came; "" once text is set
	text string // the body as the file shows it
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
	level, _ := escapeUpTo(c.Level, typeMax)
	e.Captured = Captured{infoWord(c.Type), level, clip(c.Message, limit), clip(c.Stack, limit)}

	waiting := len(e.raw)
	for _, other := range b.shown() {
		waiting += len(other.raw)
	}
	if waiting > backlogMax {
		text, left := escapeUpTo(e.raw, limit)
		if e.text, e.raw = text, ""; left > 0 {
			e.text += fmt.Sprintf("\n... (%d more bytes left out) ...", left)
		}
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
	b.last = b.last[max(0, len(b.last)-lastMax):]
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
	format := func(events []backgroundEvent) []backgroundEvent {
		events = slices.Clone(events)
		for i := range events {
			if e := &events[i]; e.raw != "" {
				e.text, e.raw = t.body(e.raw), ""
			}
		}
		return events
	}
	b := &t.backlog
	b.first, b.last = format(b.first), format(b.last)
	for i, e := range b.shown() {
		if n := b.omitted(); n > 0 && i == len(b.first) {
			out = fmt.Appendf(out, "... (%d more background events omitted) ...%s", n, t.file.eol)
		}
		out = fenced(out, e.lang+" "+e.Type, e.text, t.file.eol)
	}
	return out
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

// infoWord turns an event's type into words of an info string, which may hold
// neither line ends nor backticks.
func infoWord(s string) string {
	s = s[:min(len(s), 4*typeMax)]
	s, _ = escapeUpTo(strings.ReplaceAll(oneLine(s), "`", "'"), typeMax)
	if s = strings.Join(strings.Fields(s), " "); s == "" {
		return "event"
	}
	return s
}

// clip bounds a text of the page that is kept in memory.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	text := strings.ToValidUTF8(s[:limit], "") // a character may be cut in two
	return fmt.Sprintf("%s\n... (%d more bytes left out) ...", text, len(s)-len(text))
}
