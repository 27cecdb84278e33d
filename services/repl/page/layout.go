package page

import (
	"slices"
	"strings"
)

// layout is the structure of a text from a place outside of any fence on.
type layout struct {
	options *Options
	text    []byte
	from    int
	footers []line
	heads   []head
	blocks  []block // closed ones
	open    int     // where a fence begins that is not closed, or -1
	marked  int     // end of the last line that makes history of what is above it; below the footer only in a file that was replaced
	gap     int     // length of the service's blank line above the footer, at from
}

// head is a line that may be the header of a request.
type head struct {
	line
	header
}

// chunk is a piece of text with code in it that was written to be run.
type chunk struct {
	from, to int
	head     *head // its first line, if that is a header
	blocks   []block
}

// layout parses the text behind the anchor.
func (t *transition) layout() *layout { return t.layoutOf(t.text, t.start()) }

// layoutOf parses a text, which begins where the view does, from a place on.
func (t *transition) layoutOf(text []byte, from int) *layout {
	l := &layout{options: &t.options, text: text, from: from, open: -1}
	var b block
	for at, line := range parts(text, from) {
		switch line.part {
		case outside:
			if l.options.isFooter(line.text) {
				l.footers = append(l.footers, at)
			} else if (len(l.footers) == 0 || t.file.origin == suspect) && l.isHistory(at, line.text) {
				l.marked = at.next
			} else if h, ok := l.options.request(line.text); ok {
				l.heads = append(l.heads, head{at, h})
			}
		case opens:
			b = block{from: at.from, code: at.next, indent: line.fence.Indent, info: line.fence.Info}
			l.open = at.from
		case closes:
			b.end, b.next = at.from, at.next
			l.blocks = append(l.blocks, b)
			l.open = -1
		}
	}
	if n := lineEnd(text[from:]); len(l.footers) > 0 && l.footers[0].from == from+n {
		l.gap = n
	}
	return l
}

// isHistory reports whether a line outside of fences shows that the text above it
// was run: the service wrote it, or it answers the block directly above.
func (l *layout) isHistory(at line, text []byte) bool {
	if kind, _ := l.options.mark(text); kind != noMark {
		return true
	}
	n := len(l.blocks)
	return n > 0 && l.options.answers(text) && isBlank(l.text[l.blocks[n-1].next:at.from])
}

// above returns where the text above the footer ends.
func (l *layout) above() int {
	if len(l.footers) > 0 {
		return l.footers[0].from
	}
	return len(l.text)
}

// below returns where the text below the footer begins.
func (l *layout) below() int {
	if len(l.footers) > 0 {
		return l.footers[0].next
	}
	return len(l.text)
}

// begin returns where the text below the footer begins, without blank lines, further
// footers and history.
func (l *layout) begin() int {
	i := l.below()
	for _, f := range l.footers {
		if f.from <= i {
			i = max(i, f.next)
		}
		i = afterBlanks(l.text, i)
	}
	if l.marked <= i {
		return i
	}
	return afterBlanks(l.text, l.behindMark())
}

// behindMark returns where the reply or the note ends that the last marked line begins.
func (l *layout) behindMark() int {
	i := l.marked
	for at, line := range parts(l.text, i) {
		_, shown := placeholder(line.text)
		if line.part == outside && !shown && !isOmission(line.text) || line.part == opens && runs(line.fence.Info, l.options.Lang) {
			break
		}
		i = at.next
	}
	return i
}

// tidy reports whether the footer is there, below a blank line and with nothing
// below it.
func (l *layout) tidy() bool {
	return len(l.footers) == 1 && isBlank(l.text[l.below():]) && hasEnd(l.text) && endsBlank(l.text[:l.above()])
}

// code returns the blocks between two places that can be run.
func (l *layout) code(from, to int) (blocks []block) {
	for _, b := range l.blocks {
		if b.from >= from && b.next <= to && runs(b.info, l.options.Lang) && !isBlank(l.text[b.code:b.end]) {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// notRun returns a note about blocks between two places that look like code for the
// page and are not run, or "".
func (l *layout) notRun(from, to int) string {
	var found []string
	for _, b := range l.blocks {
		first, _ := label(b.info)
		if b.from >= from && b.next <= to && l.options.Lang == "js" && slices.Contains(compiled, first) && !slices.Contains(found, first) {
			found = append(found, first)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return "not run: " + strings.Join(found, ", ") + "; JS blocks run"
}

// fenced reports whether a block begins at a place.
func (l *layout) fenced(i int) bool {
	for _, b := range l.blocks {
		if b.from == i {
			return true
		}
	}
	return false
}

// strip appends the text between two places without the footers in it. The service's
// blank line above the footer goes too if the user's text below it begins with one.
func (l *layout) strip(out []byte, from, to int) []byte {
	for _, f := range l.footers {
		if f.from >= from && f.next <= to {
			if from == l.from && from+l.gap == f.from && l.blankAt(f.next) {
				from = f.from
			}
			out = append(out, l.text[from:f.from]...)
			from = f.next
		}
	}
	return append(out, l.text[from:to]...)
}

// blankAt reports whether a blank line begins at a place.
func (l *layout) blankAt(i int) bool {
	at := lineAt(l.text, i)
	return i < len(l.text) && isBlank(l.text[at.from:at.end])
}

// chunk returns the first request of the text.
func (l *layout) chunk() (c chunk, ok bool) {
	// Above the footer only an exact header behind the last reply makes a request.
	for i, h := range l.heads {
		if h.from >= l.above() || h.from < l.marked || !h.exact() || !l.options.isSelf(h.page) {
			continue
		}
		c = chunk{from: h.from, to: l.above(), head: &h}
		for _, other := range l.heads[i+1:] {
			if other.exact() {
				c.to = min(other.from, c.to)
				break
			}
		}
		if c.blocks = l.code(c.from, c.to); len(c.blocks) > 0 {
			return c, true
		}
	}
	if len(l.footers) == 0 {
		return chunk{}, false
	}
	for i := l.begin(); i < len(l.text); i = c.to {
		c = chunk{from: i, to: len(l.text)}
		for _, h := range l.heads {
			if h.from == i {
				c.head = &h
			} else if h.from > i && (h.exact() || l.options.isSelf(h.page)) {
				c.to = h.from
				break
			}
		}
		if c.blocks = l.code(c.from, c.to); len(c.blocks) > 0 {
			return c, true
		}
	}
	return chunk{}, false
}

// pending returns the first header between two places that would make a request of
// code below it, or the second place.
func (l *layout) pending(from, to int) int {
	for _, h := range l.heads {
		if h.from >= from && h.from < to && h.exact() && l.options.isSelf(h.page) {
			return h.from
		}
	}
	return to
}
