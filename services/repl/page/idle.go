package page

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// advanceIdle parses the text while no job runs: a request, text that does not
// run, background. It reports whether there may be more to do.
func (t *transition) advanceIdle() bool {
	l := t.layout()
	if t.file.origin != current && (t.interrupted(l) || t.ready() && t.restoreShown()) {
		return true
	}
	if t.putBack(l) || t.resume(l) || t.appendNow(l) {
		return true
	}
	if c, ok := l.chunk(); ok && l.open < 0 {
		if t.stopping || !t.ready() {
			return false
		}
		if c.head == nil || t.options.isSelf(c.head.page) {
			return t.accept(l, c)
		}
		note := "not run: the request is addressed to " + oneLine(c.head.page) + ", and this is " + t.options.full() + "."
		out := l.strip(bytes.Clone(t.text[:l.from]), l.from, c.to)
		t.settleAt(t.appendNote(out, note), l.strip(nil, c.to, len(t.text)))
		t.act(Log{t.File() + ": " + note})
		return true
	}
	if t.file.origin != current && l.open < 0 && l.tidy() && t.ready() {
		t.file.origin = current // before, a reply below the footer tells that the block above it was run
	}
	if l.open < 0 {
		t.waiting = waiting{}
	}
	switch {
	case len(t.queue) > 0 && t.connected:
		t.insert(l)
		return true
	case l.open >= 0:
		return false // a draft: the file is not touched
	case !l.tidy():
		if !t.quiet() {
			return false
		}
		// Text that does not run is final: the footer moves below it.
		t.text = closeWhole(l.strip(bytes.Clone(t.text[:l.from]), l.from, len(t.text)), t.file.eol)
		if note := l.notRun(l.below(), len(l.text)); note != "" {
			t.text = t.appendNote(t.text, note)
		}
		end := len(t.text)
		t.text = t.appendFooter(t.text, nil)
		t.setAnchor(t.text, t.layout().pending(l.from, end))
		return true
	}
	// Write background that belongs to no reply.
	at := t.backlog.since.Add(t.options.Quiet / 2)
	if next := t.flushed.Add(t.options.Cadence); !t.flushed.IsZero() && next.After(at) {
		at = next
	}
	if t.backlog.total == 0 || !t.due(at) {
		return false
	}
	out := t.appendLine(closeParagraph(bytes.Clone(t.text[:l.above()]), t.file.eol), "background")
	t.settleAt(t.appendBacklog(out), t.text[l.below():])
	t.backlog, t.flushed = backlog{}, t.now
	return true
}

// accept makes a job of the first block of a chunk: the footer goes, a header is
// added to a request without one, and the block is announced. While the page is gone,
// the request waits. accept reports whether it has changed anything.
func (t *transition) accept(l *layout, c chunk) bool {
	// A later block that has lost its reply gets it back in a chunk of its own: as the rest
	// of this one it would be written again, without the reply, into a copy that has it.
	for i, b := range c.blocks {
		if i > 0 && t.wasAnswered(b, t.text) {
			c.to, c.blocks = b.from, c.blocks[:i]
			break
		}
	}
	eol := t.file.eol
	out := closeLine(l.strip(bytes.Clone(t.text[:l.from]), l.from, c.from), eol)
	if c.head == nil {
		out = closeParagraph(out, eol)
	}
	from := len(out)

	// Without a time in the header the request was made when the file was written,
	// if another program did that, else now.
	asked := t.now
	if !t.waiting.since.IsZero() {
		asked = t.waiting.since
	}
	if m := t.view.ModTime; m.After(t.file.written) && m.Before(t.now) && !t.file.written.IsZero() {
		asked = m.In(t.now.Location())
	}
	j := job{agent: defaultAgent, asked: asked.Format(time.TimeOnly), index: 1, count: len(c.blocks), notRun: l.notRun(c.from, c.to), ranIn: t.loads}
	if !t.waiting.since.IsZero() {
		j.ranIn = t.waiting.load
	}
	b := c.blocks[0]
	t.setBlock(&j, &b, t.text, out)
	if h := c.head; h != nil {
		if !t.connected && !h.exact() { // only below an exact header it can be run later
			out = fmt.Appendf(out, "> **%s** to %s at %s%s", strings.ReplaceAll(h.agent, " ", "_"), t.options.full(), j.asked, eol)
		}
		j.header, j.agent = strings.TrimPrefix(strings.TrimRight(string(h.of(t.text)), " \t"), bom), h.agent
		if h.time != "" {
			j.asked = h.time
		}
	} else {
		if j.header = t.headline(&j); j.lost != nil {
			j.header = j.lost.header
		}
		if j.lost == nil || j.header != t.restored { // else the chunk that is put back continues
			out = append(append(out, j.header...), eol...)
			if !l.fenced(c.from) {
				out = append(out, eol...)
			}
		}
	}
	out = closeLine(l.strip(out, c.from, b.next), eol)
	rest, follow := l.strip(nil, b.next, c.to), l.strip(nil, c.to, len(t.text))
	if !t.connected && j.lost == nil {
		return t.await(out, from, rest, follow)
	}
	t.waiting = waiting{}
	t.setAnchor(out, from)
	j.request = string(out[from:])
	j.exchange = j.request
	t.announce(out, j, rest, follow)
	return true
}

// insert writes the first request of a program above the footer, and begins it.
func (t *transition) insert(l *layout) {
	e := t.queue[0]
	t.queue = t.queue[1:]
	at := l.above()
	if len(l.footers) == 0 && l.open >= 0 {
		at = l.from // the only place outside of the draft
	}
	out := closeParagraph(bytes.Clone(t.text[:at]), t.file.eol)
	t.setAnchor(out, len(out))
	from := len(out)
	j := job{key: e.Key, agent: e.Agent, asked: t.now.Format(time.TimeOnly), code: e.Code, timeout: e.Timeout, index: 1, count: 1}
	j.header = t.headline(&j)
	out = t.appendCode(append(append(out, j.header...), t.file.eol...), e.Code)
	j.request = string(out[from:])
	j.exchange = j.request
	t.announce(out, j, nil, l.strip(nil, at, len(t.text)))
}

// settleAt writes out, the footer and what follows. All of out is settled; the blank
// line above the footer is part of it only if it is the user's.
func (t *transition) settleAt(out, follow []byte) {
	out = closeWhole(out, t.file.eol)
	end := len(out)
	if !t.busy() && t.notedInTime() {
		end = t.layoutOf(out, t.start()).pending(t.start(), end)
	}
	t.setAnchor(out, end)
	t.text = t.appendFooter(out, follow)
}
