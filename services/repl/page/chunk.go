package page

// chunk is a piece of text with code in it that was written to be run.
type chunk struct {
	from, to int
	head     *head   // its first line, if that is a header
	blocks   []block // what is to be run
}

// chunk is the first request in a text, if there is one.
func (l *layout) chunk() (c chunk, ok bool) {
	if c, ok = l.early(); ok || len(l.footers) == 0 {
		return c, ok
	}
	for i := l.begin(); i < len(l.text); i = c.to {
		c = chunk{from: i, to: len(l.text)}
		for _, h := range l.heads {
			if h.from == i {
				c.head = &h
			} else if h.from > i && (h.exact() || l.o.isSelf(h.page)) {
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

// begin is where the text below the footer begins, but for blank lines and more
// footers.
func (l *layout) begin() int {
	i := l.below()
	for _, f := range l.footers {
		if f.from <= i {
			i = max(i, f.next)
		}
		i = afterBlanks(l.text, i)
	}
	return i
}

// early is a request above the footer: only an exact header behind the last reply
// makes it one.
func (l *layout) early() (c chunk, ok bool) {
	for _, h := range l.heads {
		if h.from >= l.above() || h.from < l.marked || !h.exact() || !l.o.isSelf(h.page) {
			continue
		}
		c = chunk{from: h.from, to: l.next(h), head: &h}
		if c.blocks = l.code(c.from, c.to); len(c.blocks) > 0 {
			return c, true
		}
	}
	return chunk{}, false
}

// next is where the chunk ends that a header above the footer begins.
func (l *layout) next(h head) int {
	for _, other := range l.heads {
		if other.from > h.from && other.exact() {
			return min(other.from, l.above())
		}
	}
	return l.above()
}

// foreign reports whether a chunk is for another page.
func (c *chunk) foreign(o *Options) bool { return c.head != nil && !o.isSelf(c.head.page) }

// pending is where the first header stands between two places that would make a
// request of code below it, or the second place.
func (l *layout) pending(from, to int) int {
	for _, h := range l.heads {
		if h.from >= from && h.from < to && h.exact() && l.o.isSelf(h.page) {
			return h.from
		}
	}
	return to
}
