package page

import (
	"bytes"
	"slices"
	"strings"
)

// recover finds the job in a text that was edited: by its code, its announcement or
// the header of its request. It removes what the service had written below the
// request and returns where that was, or -1.
func (t *transition) recover() (at int) {
	older := t.restoreShown() || t.lacksAnswers()
	// What the service had written goes, even if it is inside a fence now.
	hint := -1
	shown := []byte(t.job.shown())
	if i := t.start() + bytes.Index(t.text[t.start():], shown); i >= t.start() && hasEnd(t.text[:i]) {
		end := i + len(shown)
		t.cut(i, end+lineEnd(t.text[end:]))
		hint = i
	}
	at = t.byCode(hint)
	if at < 0 && older { // the copy is older than the request
		return t.reinstate()
	}
	if t.job.edited = at < 0; at < 0 {
		at = t.byAnnouncement(hint)
	}
	if at < 0 {
		at = t.byHeader()
	}
	if at < 0 && t.phase == answered {
		return t.reinstate()
	}
	if at < 0 {
		return -1
	}
	l := t.layout() // while a job runs there is no footer
	head := l.strip(nil, 0, at)
	t.text, at = append(slices.Clip(head), l.strip(nil, at, len(t.text))...), len(head)
	t.setAnchor(t.text, t.behindReplies(at))
	t.job.request = string(closeLine(bytes.Clone(t.text[t.start():at]), t.file.eol))
	return at
}

// behindReplies returns where the text between the anchor and a place begins that is
// not part of an exchange.
func (t *transition) behindReplies(at int) int {
	from, reply := t.start(), false
	for l, line := range parts(t.text[:at], from) {
		switch {
		case line.part == outside && (isBlank(line.text) || isOmission(line.text)):
		case line.part == outside:
			kind, _ := t.options.mark(line.text)
			if reply && kind == noMark {
				from = l.from
			}
			reply = kind == replies || reply && kind != noMark
		case line.part == opens && reply && runs(line.fence.Info, t.options.Lang):
			from, reply = l.from, false
		}
	}
	return from
}

// byCode finds the block that was given out: where the service had written below it,
// else the first one without a reply. Older requests above it that have lost their
// replies get those back.
func (t *transition) byCode(hint int) int {
	l := t.layout()
	blocks, k := l.code(l.from, len(t.text)), -1
	for i, b := range blocks {
		if sumOf(string(b.text(t.text))) != sumOf(t.job.code) || t.replied(b.next) {
			continue
		}
		if _, info := label(b.info); info != t.job.info && t.phase == requested {
			continue // its options are others now
		}
		if b.next == hint {
			k = i
			break
		}
		if k < 0 {
			k = i
		}
	}
	if k < 0 {
		return -1
	}
	out, pos := bytes.Clone(t.text[:l.from]), l.from
	for _, b := range blocks[:k] {
		e := t.lostReply(sumOf(string(b.text(t.text))), slices.Concat(out, t.text[pos:b.from]))
		if e == nil || t.replied(b.next) {
			continue
		}
		out, pos = t.appendHeaded(out, l, pos, b.from, e.header)
		out = t.appendLost(closeLine(l.strip(out, pos, b.next), t.file.eol), *e)
		pos = b.next
		below := lineAt(t.text, afterBlanks(t.text, pos))
		if kind, _ := t.options.mark(below.of(t.text)); kind == announces {
			if ph, _, ok := t.findPlaceholder(below.next); ok {
				pos = ph.next
			}
		}
		out = join(out, t.text[pos:], t.file.eol)
	}
	out, pos = t.appendHeaded(out, l, pos, blocks[k].from, t.job.header)
	out = closeLine(l.strip(out, pos, blocks[k].next), t.file.eol)
	at := len(out)
	t.text = l.strip(out, blocks[k].next, len(t.text))
	if hint < 0 {
		t.cutAnnouncement(at)
	}
	return at
}

// replied reports whether a reply is the next line that is not blank.
func (t *transition) replied(i int) bool {
	kind, _ := t.options.mark(lineAt(t.text, afterBlanks(t.text, i)).of(t.text))
	return kind == replies
}

// appendHeaded appends the text from pos to a request below the footer, and the
// header of the request if an older copy of the file does not have it. It returns
// how far it got.
func (t *transition) appendHeaded(out []byte, l *layout, pos, to int, want string) ([]byte, int) {
	if len(l.footers) == 0 || l.below() > to {
		return out, pos
	}
	for _, h := range l.heads {
		if h.from >= pos && h.from < to && strings.TrimRight(string(h.of(t.text)), " \t") == want {
			return out, pos
		}
	}
	i := max(pos, min(l.begin(), to))
	i = min(afterBlanks(t.text, i), to)
	out = closeParagraph(l.strip(out, pos, i), t.file.eol)
	out = append(append(out, want...), t.file.eol...)
	if !l.fenced(i) {
		out = append(out, t.file.eol...)
	}
	return out, i
}

// byAnnouncement finds the place of the announcement. The text above it may be any,
// except a block that was answered before.
func (t *transition) byAnnouncement(hint int) int {
	at := hint
	if at < 0 {
		l, ok := t.findLine(t.start(), t.job.announcement)
		if !ok {
			return -1
		}
		at = l.from
		t.cutAnnouncement(at)
	}
	l := t.layout()
	if blocks := l.code(l.from, at); len(blocks) > 0 && t.wasAnswered(blocks[len(blocks)-1], t.text) {
		return -1
	}
	if t.layoutOf(t.text[:at], l.from).open >= 0 {
		return -1
	}
	return at
}

// wasAnswered reports whether a block of a text has lost its reply.
func (t *transition) wasAnswered(b block, text []byte) bool {
	return t.lostReply(sumOf(string(b.text(text))), text[:b.from]) != nil
}

// byHeader finds the place below the first block behind the request's header and the
// replies there, or without such a block the place below the replies. Below a footer, which
// is that of a copy without the request, and below other blocks stands another request with
// the same header.
func (t *transition) byHeader() int {
	head, ok := t.findLine(t.start(), t.job.header)
	if l := t.layout(); !ok || len(l.footers) > 0 && l.footers[0].from < head.from || len(l.code(l.from, head.from)) > 0 {
		return -1
	}
	at, above := head.next, 0
	for l, line := range parts(t.text, head.next) {
		if kind, _ := t.options.mark(line.text); line.part != outside || kind != replies {
			continue
		}
		if above++; above >= t.job.index {
			return -1 // it is the header of another request
		}
		at = len(t.text) // where the blocks of the reply end
		for next, line := range parts(t.text, l.next) {
			if line.part == outside && !isOmission(line.text) {
				at = next.from
				break
			}
		}
	}
	blocks := t.layoutOf(t.text, head.from).code(at, len(t.text))
	switch {
	case len(blocks) == 0:
	case !t.wasAnswered(blocks[0], t.text):
		at = blocks[0].next
	case at == head.next:
		return -1
	}
	t.cutShown(at)
	return at
}

// findLine returns the first line outside of fences that is equal to want. A copy
// that the user makes stands behind it.
func (t *transition) findLine(from int, want string) (found line, ok bool) {
	for at, line := range parts(t.text, from) {
		if line.part == outside && string(bytes.TrimRight(line.text, " \t")) == want {
			return at, true
		}
	}
	return found, false
}

// cut removes the text between two places.
func (t *transition) cut(from, to int) { t.text = slices.Concat(t.text[:from], t.text[to:]) }

// cutAnnouncement removes the announcement at a place or below a blank line there, and
// what belongs to it.
func (t *transition) cutAnnouncement(at int) {
	l := lineAt(t.text, at)
	if isBlank(t.text[l.from:l.end]) {
		l = lineAt(t.text, l.next)
	}
	if string(bytes.TrimRight(l.of(t.text), " \t")) == t.job.announcement {
		t.cut(at, l.next)
	}
	t.cutShown(at)
}

// cutShown removes the background at a place that was shown, and the placeholder,
// wherever it stands behind that.
func (t *transition) cutShown(at int) {
	t.cut(at, sameLines(t.text, at, t.job.background))
	if rest, ok := bytes.CutPrefix(t.text[at:], []byte(t.job.placeholder)); ok {
		t.cut(at, len(t.text)-len(rest)+lineEnd(rest))
	} else if l, ok := t.findLine(at, t.job.placeholder); ok {
		t.cut(l.from, l.next)
	}
}
