package page

import (
	"fmt"
	"strconv"
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
	b := t.body(r.body, r.json)
	t.reportWhole(b)
	out = b.append(out, info, t.file.eol)
	out, t.backlog = t.appendBacklog(out), backlog{}
	return out
}

// span formats a duration: up to two seconds in milliseconds, then in seconds.
func span(d time.Duration) string {
	d = max(d, 0)
	if ms := d.Milliseconds(); ms <= 2000 {
		return strconv.FormatInt(ms, 10) + "ms"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
}
