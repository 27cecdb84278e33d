package page

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	markdown "zino/pkg/text"
)

// An editor that saves an older copy of the file writes over the exchanges that were
// answered since. Those that are remembered are put back.

// titles returns how often the header of each remembered reply may stand in the file.
// The scanner counts them there.
func (s *State) titles() map[string]int {
	if len(s.history) == 0 {
		return nil
	}
	titles := make(map[string]int, len(s.history))
	for _, e := range s.history {
		titles[e.title] = 0
	}
	return titles
}

// wasAnnounced reports whether a line is the announcement of a remembered exchange.
func (s *State) wasAnnounced(line string) bool {
	return slices.ContainsFunc(s.history, func(e exchange) bool { return e.announcement == line })
}

// answer is the header of a reply in a text, and the code above it.
type answer struct {
	title string
	code  digest
}

// answersIn returns the replies in a text from a place outside of any fence on.
func (t *transition) answersIn(text []byte, from int) (found []answer) {
	var b block
	var code digest
	for at, line := range parts(text, from) {
		switch line.part {
		case outside:
			if kind, _ := t.options.mark(line.text); kind == replies {
				found = append(found, answer{string(bytes.TrimRight(line.text, " \t")), code})
				code = digest{}
			}
		case opens:
			b = block{code: at.next, indent: line.fence.Indent, info: line.fence.Info}
		case closes:
			if b.end = at.from; runs(b.info, t.options.Lang) {
				code = sumOf(string(b.text(text)))
			}
		}
	}
	return found
}

// shownIn returns the places in the history of the exchanges whose replies are found in
// a text behind the anchor. Of several with the same header those with the code above it
// come first.
func (t *transition) shownIn(found []answer) map[int]bool {
	shown := map[int]bool{}
	find := func(match func(exchange) bool) bool {
		for i, e := range t.history {
			if !e.settled && !shown[i] && match(e) {
				shown[i] = true
				return true
			}
		}
		return false
	}
	found = slices.DeleteFunc(found, func(a answer) bool {
		return find(func(e exchange) bool { return e.title == a.title && e.code == a.code })
	})
	for _, a := range found { // the code above it was changed
		find(func(e exchange) bool { return e.title == a.title })
	}
	return shown
}

// markSettled marks the exchanges whose replies stand above the anchor of a file that
// was just read from its head. Of several with the same header the first ones do.
func (t *transition) markSettled(titles map[string]int) {
	t.history = slices.Clone(t.history)
	for i := range t.history {
		t.history[i].settled = false
	}
	behind := t.answersIn(t.text, t.start())
	above := maps.Clone(titles)
	for _, a := range behind {
		above[a.title]--
	}
	shown := t.shownIn(behind)
	for i := range t.history {
		if e := &t.history[i]; !shown[i] && above[e.title] > 0 {
			above[e.title]--
			e.settled = true
		}
	}
}

// missing returns the exchanges whose replies the file does not have.
func (t *transition) missing(text []byte) (lost []exchange) {
	if t.file.origin == current {
		return nil
	}
	shown := t.shownIn(t.answersIn(text, t.start()))
	for i, e := range t.history {
		if !e.settled && !shown[i] {
			lost = append(lost, e)
		}
	}
	return lost
}

// lacksAnswers reports whether the file is an older copy of what was written.
func (t *transition) lacksAnswers() bool {
	return slices.ContainsFunc(t.missing(t.text), func(e exchange) bool { return !e.gone })
}

// lost returns the missing exchanges without those whose blocks stand behind the anchor:
// these get their replies there.
func (t *transition) lost(l *layout) []exchange {
	blocks := map[digest]int{} // without a reply
	for _, b := range l.code(max(l.from, l.marked), len(t.text)) {
		if !t.replied(b.next) {
			blocks[sumOf(string(b.text(t.text)))]++
		}
	}
	lost := t.missing(t.text)
	slices.Reverse(lost) // of several with the same code the last ones have blocks
	lost = slices.DeleteFunc(lost, func(e exchange) bool {
		blocks[e.code]--
		return e.gone || blocks[e.code] >= 0
	})
	slices.Reverse(lost)
	return lost
}

// abandon marks exchanges that are not put back any more.
func (t *transition) abandon(match func(exchange) bool) {
	t.history = slices.Clone(t.history)
	for i := range t.history {
		e := &t.history[i]
		e.gone = e.gone || match(*e)
	}
}

// putBack writes the exchanges that an older copy of the file lacks behind those that it
// has and above what was added to it, or keeps them beside a file that was replaced by another one.
func (t *transition) putBack(l *layout) bool {
	if l.open >= 0 || !t.lacksAnswers() || !t.ready() {
		return false
	}
	lost := t.lost(l)
	if len(lost) == 0 {
		return false
	}
	foreign := t.view.Offset == 0 && !bytes.HasPrefix(bytes.TrimPrefix(t.text, []byte(bom)), []byte("# "+t.options.full()))
	t.abandon(func(e exchange) bool {
		return (foreign || e.request == "") && slices.ContainsFunc(lost, func(other exchange) bool {
			return other.announcement == e.announcement && other.title == e.title && other.code == e.code
		})
	})
	eol := t.file.eol
	var whole []byte
	var long []string
	for _, e := range lost {
		if e.request == "" {
			long = append(long, strings.TrimPrefix(e.title, "> "))
			continue
		}
		whole = append(closeParagraph(append(join(whole, []byte(e.request), eol), e.request...), eol), e.reply...)
	}
	at := l.behindCopy()
	if foreign {
		at = l.from
	}
	out := l.strip(bytes.Clone(t.text[:l.from]), l.from, at)
	switch {
	case foreign && len(whole) > 0:
		file, _ := t.keep(string(whole))
		out = t.appendNote(out, fmt.Sprintf("This file was replaced. What it does not have any more is in %s: %s.", file, markdown.Count(len(lost)-len(long), "answered request")))
	case len(whole) > 0:
		out = append(join(out, whole, eol), whole...)
	}
	if len(long) > 0 {
		out = t.appendNote(out, "An older copy of this file was saved. These replies were too long to be put back:\n"+strings.Join(long, "\n"))
	}
	t.act(Log{fmt.Sprintf("%s: a copy without %s was saved; what it lacks is put back or kept", t.File(), markdown.Count(len(lost), "answered request"))})
	out = closeWhole(out, eol)
	t.setAnchor(out, len(out))
	t.text = append(join(out, t.text[at:], eol), t.text[at:]...)
	return true
}

// behindCopy returns where what an older copy lacks is put back: behind its last reply,
// above its footer and what was added to it.
func (l *layout) behindCopy() int {
	if l.marked > l.from {
		return l.behindMark()
	}
	if _, ok := l.chunk(); ok || len(l.footers) > 0 || l.open >= 0 {
		return l.from
	}
	return len(l.text)
}

// reinstate writes the request at work again into an older copy of the file that does not
// have it. It returns the place below the request.
func (t *transition) reinstate() (at int) {
	restored := t.putBack(t.layout())
	j, l := &t.job, t.layout()
	from := l.from
	if !restored {
		from = l.behindCopy()
	}
	out := closeParagraph(l.strip(bytes.Clone(t.text[:l.from]), l.from, from), t.file.eol)
	t.setAnchor(out, len(out))
	out = append(out, j.request...)
	at = len(out)
	j.rest, j.edited = string(closeLine([]byte(j.rest), t.file.eol)), false
	t.text = l.strip(append(out, j.rest...), from, len(t.text))
	return at
}

// restoreShown replaces what an older copy shows of requests at work that were answered
// since by their replies.
func (t *transition) restoreShown() (changed bool) {
	above := bytes.TrimSpace(t.text[:t.start()])
	if end := t.restoreBelow(t.start(), func(e exchange) bool {
		if t.showsJob(e) {
			return false
		}
		request := strings.TrimSpace(e.request)
		return bytes.HasSuffix(above, []byte(request[max(0, len(request)-anchorMin):]))
	}); end > 0 {
		t.setAnchor(t.text, end)
		changed = true
	}
	for again := true; again; {
		again = false
		for _, b := range t.layout().blocks {
			code := sumOf(string(b.text(t.text)))
			if again = t.restoreBelow(b.next, func(e exchange) bool {
				return e.code == code && !t.showsJob(e)
			}) > 0; again {
				changed = true
				break
			}
		}
	}
	return changed
}

// showsJob reports whether the file shows an exchange at work as it shows the job.
func (t *transition) showsJob(e exchange) bool {
	return t.busy() && e.announcement == t.job.announcement && e.code == sumOf(t.job.code)
}

// restoreBelow does that at a place, if an exchange with the announcement there matches.
// It returns the end of the reply, or 0.
func (t *transition) restoreBelow(at int, match func(exchange) bool) (end int) {
	ann := lineAt(t.text, afterBlanks(t.text, at))
	text := string(bytes.TrimRight(ann.of(t.text), " \t"))
	i := slices.IndexFunc(t.history, func(e exchange) bool { return e.announcement == text && e.reply != "" && match(e) })
	shown, _, ok := t.findPlaceholder(ann.next)
	if i < 0 || !ok {
		return 0
	}
	out := append(closeParagraph(bytes.Clone(t.text[:at]), t.file.eol), t.history[i].reply...)
	follow := t.text[shown.next:]
	end = len(out)
	t.text = append(join(out, follow, t.file.eol), follow...)
	return end
}
