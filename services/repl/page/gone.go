package page

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

const (
	// goneNote is how long a request waits for a page that is gone before the file
	// says so.
	goneNote = 60 * time.Second
	// goneWait is how long it waits from then on.
	goneWait = 10 * time.Minute
	// goneMark begins the note. The note is all that is known of such a request after
	// a restart of the service.
	goneMark = "not run: the page is gone since "
)

// waiting is a request that stands in the file and was not accepted when it was first
// parsed, because the page was gone.
type waiting struct {
	since time.Time // zero: no request waits
	load  int       // State.loads at that time
}

// await leaves a request of a page that is gone as it is, for goneNote. Then it writes
// a note below its first block, the end of out. The request begins at a place in out;
// the anchor stays there, because it may still be run.
func (t *transition) await(out []byte, from int, rest, follow []byte) bool {
	if t.waiting.since.IsZero() {
		t.waiting = waiting{t.now, t.loads}
	}
	if !t.due(t.waiting.since.Add(goneNote)) {
		return false
	}
	if !t.notedInTime() {
		t.setAnchor(out, from)
	}
	t.waiting, t.noted = waiting{}, t.now.Add(goneWait)
	note := fmt.Sprintf("%s%s. It runs if the page comes back before %s; after that only if the block is saved again: append it below, or remove this note.",
		goneMark, t.gone.In(t.now.Location()).Format(time.TimeOnly), t.noted.Format(time.TimeOnly))
	out = t.appendNote(out, note)
	if !isBlank(rest) {
		out = join(out, rest, t.file.eol)
	}
	t.text = t.appendFooter(append(out, rest...), follow)
	t.act(Log{t.File() + ": " + note})
	return true
}

// notedInTime reports whether a request with such a note may still be run.
func (t *transition) notedInTime() bool { return t.now.Before(t.noted) }

// resume removes the notes of requests that were not run because the page was gone. It
// is back in time: they are requests again.
func (t *transition) resume(l *layout) bool {
	if !t.connected || !t.notedInTime() || l.open >= 0 || t.stopping || !t.ready() {
		return false
	}
	t.noted, t.waiting = time.Time{}, waiting{t.now, t.loads - 1}
	out, pos := bytes.Clone(t.text[:l.from]), l.from
	for _, n := range t.goneNotes() {
		out = append(out, t.text[pos:n.from]...)
		if pos = n.next; endsBlank(out) && len(out) > 0 { // the line above the note is the service's
			out = trimEnd(out)
		}
	}
	t.text = append(out, t.text[pos:]...)
	return true
}

// note is the position of a note with its block, and when it was written.
type note struct {
	from, next int
	at         time.Time
}

// goneNotes returns the notes behind the anchor that were written less than goneWait
// ago.
func (t *transition) goneNotes() (notes []note) {
	var n note
	state := 0 // of n: 1 the header was parsed, 2 the fence, 3 the first line
	for at, line := range parts(t.text, t.start()) {
		switch {
		case line.part == outside && !isBlank(line.text):
			state = 0
			if kind, _ := t.options.mark(line.text); kind == reports {
				text := bytes.TrimRight(line.text, " \t")
				n = note{from: at.from, at: t.lastAt(string(text[len(text)-len(time.TimeOnly):]))}
				state = 1
			}
		case line.part == opens && state == 1:
			state = 2
		case line.part == closes && state == 3 && t.now.Sub(n.at) < goneWait:
			n.next, state = at.next, 0
			notes = append(notes, n)
		case state == 2 && strings.HasPrefix(string(line.text), goneMark):
			state = 3
		case state == 2:
			state = 0
		}
	}
	return notes
}

// lastAt returns when a clock last showed a time.
func (t *transition) lastAt(clock string) time.Time {
	c, err := time.ParseInLocation(time.DateOnly+time.TimeOnly, t.now.Format(time.DateOnly)+clock, t.now.Location())
	if err != nil {
		return time.Time{} // not a time
	}
	if c.After(t.now) {
		c = c.AddDate(0, 0, -1)
	}
	return c
}

// readNotes finds out how long requests with such a note may still be run, when the
// file was read from its head.
func (t *transition) readNotes() {
	t.noted = time.Time{}
	if t.view.ModTime.Add(goneWait).Before(t.now) {
		return
	}
	for _, n := range t.goneNotes() {
		t.noted = n.at.Add(goneWait)
	}
}
