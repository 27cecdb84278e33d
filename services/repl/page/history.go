package page

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// exchange is an answered block, as far as it is needed when an editor saves an
// older copy of the file over the answer.
type exchange struct {
	code         digest
	header       string // of the request
	announcement string
	title        string // header of the reply
	reply        string // "" if it is too long
}

const (
	historyMax  = 64       // exchanges
	replyMax    = 64 << 10 // bytes of a reply that is remembered
	historySize = 1 << 20  // bytes of all of them
)

// sumOf returns the digest of a code. Its kind of line ends and a line end at its
// end make no difference.
func sumOf(code string) digest {
	return sha256.Sum256([]byte(strings.TrimSuffix(strings.ReplaceAll(code, "\r\n", "\n"), "\n")))
}

// remember adds the job's reply to the history, which forgets the oldest.
func (t *transition) remember(reply string) {
	j := &t.job
	e := exchange{code: sumOf(j.code), header: j.header, announcement: j.announcement, reply: reply}
	e.title, _, _ = strings.Cut(reply, t.file.eol)
	if len(reply) > replyMax {
		e.reply = ""
	}
	history, size := []exchange{e}, len(e.reply)
	for i := len(t.history) - 1; i >= 0 && len(history) < historyMax; i-- {
		older := t.history[i]
		if size += len(older.reply); size > historySize {
			older.reply = ""
		}
		history = append([]exchange{older}, history...)
	}
	t.history = history
}

// lostReply returns the exchange of a block that was answered, but whose reply is
// not in the text above it: the block comes from an older copy of the file.
func (t *transition) lostReply(code digest, above []byte) (lost *exchange) {
	if t.file.origin == current {
		return nil
	}
	titled := func(history []exchange, title string) (n int) {
		for _, e := range history {
			if e.title == title {
				n++
			}
		}
		return n
	}
	for i := range t.history {
		e := &t.history[i]
		there := bytes.Count(above, []byte(e.title))
		if e.code != code || there >= titled(t.history, e.title) {
			continue
		}
		if titled(t.history[:i], e.title) >= there {
			return e // those before it with the same header stand above
		}
		if lost == nil {
			lost = e
		}
	}
	return lost
}

// appendLost appends what stands below a block that is not run again: its reply, or
// a note if the reply was too long to be remembered.
func (t *transition) appendLost(out []byte, e exchange) []byte {
	t.act(Log{t.File() + ": an older copy was written over an answered request; it is not run again"})
	if e.reply != "" {
		return append(out, e.reply...)
	}
	return t.appendNote(out, "not run again: this was answered ("+strings.TrimPrefix(e.title, "> ")+"), and an older copy of the file was written over the answer.")
}

// interrupted ends a request that the file shows as executing although no job is at
// work: the service was restarted, or an older copy of the file was saved. It is
// not run again.
func (t *transition) interrupted(l *layout) bool {
	ann := lineAt(t.text, l.from)
	kind, agent := t.options.mark(ann.of(t.text))
	if kind != announces {
		return false
	}
	ph, seconds, ok := t.findPlaceholder(ann.next)
	if !ok {
		return false
	}
	var known *exchange // the exchange whose reply stood here
	for i := range t.history {
		if e := &t.history[i]; e.announcement == string(bytes.TrimRight(ann.of(t.text), " \t")) && e.reply != "" {
			known = e
			break
		}
	}
	if known == nil && t.file.origin != firstRead || !t.ready() {
		return false
	}
	out := bytes.Clone(t.text[:l.from])
	if known != nil {
		out = append(out, known.reply...)
	} else {
		n, err := strconv.Atoi(seconds)
		if err != nil {
			n = 0 // out of range: the duration is unknown
		}
		t.last = fmt.Sprintf("failed after %dms (interrupted)", int64(n)*1000)
		out = fmt.Appendf(out, "> **%s** to %s at %s (**ERROR** after %ds)%s", t.options.full(), oneLine(agent), t.now.Format(time.TimeOnly), n, t.file.eol)
		out = fenced(out, "Error", "interrupted: the service was stopped before the answer came; the code may have run, and is not run again", t.file.eol)
		out = append(out, t.text[ann.next:ph.from]...)
	}
	// The other blocks of the chunk are not run either.
	from := ph.next
	to := l.pending(from, len(t.text))
	if l.open >= 0 {
		to = min(to, l.open)
	}
	if len(l.footers) > 0 {
		to = min(to, max(from, l.footers[0].from))
	}
	if n := len(l.code(from, to)); n > 0 {
		out = t.appendNote(out, fmt.Sprintf("%d of %d not run: the blocks below are left as they are.", n, n+1))
	}
	if rest := t.text[from:to]; !isBlank(rest) {
		out = append(join(out, rest, t.file.eol), rest...)
	}
	t.settleAt(out, l.strip(nil, to, len(t.text)))
	return true
}

// findPlaceholder returns the placeholder below an announcement, with nothing but
// background between them.
func (t *transition) findPlaceholder(from int) (at line, seconds string, ok bool) {
	for at, line := range parts(t.text, from) {
		if line.part != outside || isOmission(line.text) {
			continue
		}
		seconds, ok = placeholder(line.text)
		return at, seconds, ok
	}
	return at, "", false
}
