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
	request      string // from the header, or the reply before, to the end of the block; "" if it is too long
	reply        string // "" if it is too long
	settled      bool   // its reply stands above the anchor
	gone         bool   // it is not put back any more
}

const (
	historyMax  = 64        // exchanges
	replyMax    = 128 << 10 // bytes of a reply, or of a request with its reply, that are remembered
	historySize = 1 << 20   // bytes of all of them
)

// sumOf returns the digest of a code. Its kind of line ends and a line end at its
// end make no difference.
func sumOf(code string) digest {
	return sha256.Sum256([]byte(strings.TrimSuffix(strings.ReplaceAll(code, "\r\n", "\n"), "\n")))
}

// remember adds the job's request and reply to the history, which forgets the oldest.
func (t *transition) remember(request, reply string) {
	j := &t.job
	e := exchange{code: sumOf(j.code), header: j.header, announcement: j.announcement, request: request, reply: reply}
	e.title, _, _ = strings.Cut(reply, t.file.eol)
	if len(reply) > replyMax {
		e.reply = ""
	}
	if len(request)+len(reply) > replyMax {
		e.request = ""
	}
	history, size := []exchange{e}, len(e.request)+len(e.reply)
	for i := len(t.history) - 1; i >= 0 && len(history) < historyMax; i-- {
		older := t.history[i]
		if size += len(older.request) + len(older.reply); size > historySize {
			older.request, older.reply = "", ""
		}
		history = append([]exchange{older}, history...)
	}
	t.history = history
}

// lostReply returns the exchange of a block that was answered, but whose reply is
// not in the text above it: the block comes from an older copy of the file.
func (t *transition) lostReply(code digest, above []byte) *exchange {
	for _, e := range t.missing(above) {
		if e.code == code {
			return &e
		}
	}
	return nil
}

// appendLost appends what stands below a block that is not run again: its reply, or
// a note if the reply was too long to be remembered.
func (t *transition) appendLost(out []byte, e exchange) []byte {
	t.act(Log{t.File() + ": an older copy was written over an answered request; it is not run again"})
	if e.reply != "" {
		return append(closeParagraph(out, t.file.eol), e.reply...)
	}
	t.abandon(func(other exchange) bool { return other.code == e.code && other.title == e.title })
	return t.appendNote(out, "not run again: this was answered ("+strings.TrimPrefix(e.title, "> ")+"), and an older copy of the file was written over the answer.")
}

// interruptedText is the reply to a request that a stop of the service interrupted.
const interruptedText = "interrupted: the service was stopped before the answer came; the code may have run, and is not run again"

// notRunText is the reply to one whose code had not been given out.
const notRunText = "interrupted: the service was stopped before the code was given to the page; it was not run"

// Unfinished reports whether the end of a log looks as if a request were at work in it.
// Start marks it then.
func Unfinished(end []byte) bool {
	var last []byte // the last line that is not blank
	for l := range bytes.Lines(bytes.ReplaceAll(end, []byte("\r"), []byte("\n"))) {
		if l = bytes.TrimRight(l, " \t\n"); len(l) == 0 {
			continue
		}
		if _, ok := placeholder(l); ok {
			return true
		}
		last = l
	}
	_, kind, _ := parseMark(last)
	return kind == announces
}

// interrupted ends a request that the file shows as executing when it is read for the
// first time. It is not run again.
func (t *transition) interrupted(l *layout) bool {
	ann := lineAt(t.text, afterBlanks(t.text, l.from))
	agent, end, seconds, ok := t.announced(l, ann)
	if !ok || t.file.origin != firstRead || !t.ready() {
		return false
	}
	out := closeParagraph(bytes.Clone(t.text[:ann.from]), t.file.eol)
	n, err := strconv.Atoi(seconds)
	if err != nil {
		n = 0 // the duration is unknown
	}
	text := interruptedText
	if bytes.HasPrefix(t.text[end.from:], []byte(reloadMark)) {
		text = notRunText
	}
	t.last = fmt.Sprintf("failed after %dms (interrupted)", int64(n)*1000)
	out = fmt.Appendf(out, "> **%s** to %s at %s (**ERROR** after %ds)%s", t.options.full(), oneLine(agent), t.now.Format(time.TimeOnly), n, t.file.eol)
	out = fenced(out, "Error", text, t.file.eol)
	if ann.next < end.from {
		out = append(out, bytes.TrimRight(t.text[ann.next:end.from], " \t\r\n")...)
		out = closeLine(out, t.file.eol)
	}
	// The other blocks of the chunk are not run either.
	from := end.next
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

// announced parses what the file shows of a request at work: an announcement with a
// placeholder below it, or one of the two. It returns the last line of it.
func (t *transition) announced(l *layout, at line) (agent string, end line, seconds string, ok bool) {
	if seconds, ok = placeholder(at.of(t.text)); ok {
		return defaultAgent, at, seconds, true
	}
	if !t.options.announces(at.of(t.text)) {
		return "", at, "", false
	}
	_, _, agent = parseMark(at.of(t.text))
	if end, seconds, ok = t.findPlaceholder(at.next); ok {
		return agent, end, seconds, true
	}
	return agent, at, "", isBlank(l.strip(nil, at.next, len(t.text)))
}

// findPlaceholder returns the placeholder below an announcement, with nothing but
// background between them.
func (t *transition) findPlaceholder(from int) (at line, seconds string, ok bool) {
	for at, line := range parts(t.text, from) {
		if line.part != outside || isOmission(line.text) || isBlank(line.text) {
			continue
		}
		seconds, ok = placeholder(line.text)
		return at, seconds, ok
	}
	return at, "", false
}
