package page

import (
	"bytes"
	"iter"
)

// layout is what a text consists of from a place on that is outside of any fence.
type layout struct {
	o       *Options
	text    []byte
	from    int
	footers []line
	heads   []head
	blocks  []block // closed ones
	open    int     // where a fence begins that is not closed, or -1
	marked  int     // where the last line above the footer ends that makes history of what is above it
}

// head is a line that may be the header of a request.
type head struct {
	line
	header
}

// layout parses the text behind the anchor.
func (s *step) layout() *layout { return s.layoutOf(s.text, s.start()) }

// layoutOf parses a text, which begins where the view does, from a place on.
func (s *step) layoutOf(text []byte, from int) *layout {
	l := &layout{o: &s.o, text: text, from: from, open: -1}
	var b block
	for at, state := range parts(text, from) {
		switch state.part {
		case outside:
			l.plain(at, state.text)
		case opens:
			b = block{from: at.from, code: at.next, indent: state.indent, info: state.info}
			l.open = at.from
		case closes:
			b.end, b.next = at.from, at.next
			l.blocks = append(l.blocks, b)
			l.open = -1
		}
	}
	return l
}

// state is a line to a parser of fences.
type state struct {
	fence
	part part
	text []byte
}

// parts are the lines of a text from a place on that is outside of any fence. A
// byte order mark is no part of a line.
func parts(text []byte, from int) iter.Seq2[line, state] {
	return func(yield func(line, state) bool) {
		var f fence
		for i := from; i < len(text); {
			at := lineAt(text, i)
			words := at.of(text)
			if i == 0 {
				words = bytes.TrimPrefix(words, []byte(bom))
			}
			if !yield(at, state{part: f.step(words), fence: f, text: words}) {
				return
			}
			i = at.next
		}
	}
}

// plain takes a line outside of fences.
func (l *layout) plain(at line, text []byte) {
	if l.o.isFooter(text) {
		l.footers = append(l.footers, at)
	} else if l.history(at, text) && len(l.footers) == 0 {
		l.marked = at.next
	} else if h, ok := l.o.request(text); ok {
		l.heads = append(l.heads, head{at, h})
	}
}

// history reports whether a line outside of fences tells that what stands above
// it was run: it is the service's, or shows that the block above was answered.
func (l *layout) history(at line, text []byte) bool {
	if kind, _ := l.o.mark(text); kind != noMark {
		return true
	}
	n := len(l.blocks)
	return n > 0 && l.o.answers(text) && isBlank(l.text[l.blocks[n-1].next:at.from])
}

// above is where the text above the footer ends.
func (l *layout) above() int {
	if len(l.footers) > 0 {
		return l.footers[0].from
	}
	return len(l.text)
}

// below is where the text below the footer begins.
func (l *layout) below() int {
	if len(l.footers) > 0 {
		return l.footers[0].next
	}
	return len(l.text)
}

// code are the blocks between two places that are to be run.
func (l *layout) code(from, to int) (blocks []block) {
	for _, b := range l.blocks {
		if b.from >= from && b.next <= to && runs(b.info, l.o.Lang) && !isBlank(l.text[b.code:b.end]) {
			blocks = append(blocks, b)
		}
	}
	return blocks
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

// strip appends the text between two places without the footers in it.
func (l *layout) strip(out []byte, from, to int) []byte {
	for _, f := range l.footers {
		if f.from >= from && f.next <= to {
			out = append(out, l.text[from:f.from]...)
			from = f.next
		}
	}
	return append(out, l.text[from:to]...)
}
