package page

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// job is a block at work, and what is known of its chunk. What the file shows of it
// stands between the anchor and rest: the request, the announcement, the background
// and the placeholder.
type job struct {
	id      string
	key     string // of the Eval
	agent   string
	header  string // of the request, as it stands in the file
	asked   string // the time of the request
	code    string
	info    string // the words behind the fence's label
	fence   fenceOptions
	load    int // the load of the page that may run it: this one or a later one
	ranIn   int // the load that the code was given to; before: that of the block above it
	timeout time.Duration
	notRun  string // a note about blocks of the chunk that are not run, or ""

	index, count int    // which block of the chunk this is, from 1; how many there are
	exchange     string // what the file shows from the header to the end of this block, "" if it is too long
	rest         string // what follows the placeholder and belongs to the chunk
	gap          int    // length of a blank line of the service's at the start of rest

	request      string // up to the blank line above the announcement
	lead         string // the blank line of the service's above the announcement
	announcement string // without line end
	background   string
	placeholder  string // without line end
	eol          string

	accepted     time.Time
	shownAt      time.Time // when the file was last updated
	backgroundAt time.Time // when background was first shown
	dispatched   time.Time // when Run was returned
	sent         time.Time // the first Started
	started      time.Time // the last Started

	result result    // if answered
	edited bool      // the file shows other code than was given out
	lost   *exchange // the answer that an older copy of the file lost; it is put back and the block is not run
}

// result is how a job ended.
type result struct {
	at       time.Time
	ok, json bool
	body     string
	took     time.Duration
	reason   string // why there is no answer
}

// Reasons why a job has no answer.
const (
	reasonTimeout = "timeout"
	reasonGone    = "gone"
	reasonAborted = "aborted"
	reasonLost    = "lost"
	reasonBusy    = "busy"
	reasonStopped = "stopped"
)

// reasonText is how the registry shows a reason.
var reasonText = map[string]string{
	reasonTimeout: " (timeout)", reasonGone: " (page closed or reloaded)",
	reasonAborted: " (interrupted)", reasonLost: " (disrupted)", reasonStopped: " (interrupted)",
}

const (
	codeMax     = 4 << 20          // bytes of a block
	exchangeMax = 512 << 10        // bytes of an exchange that is remembered: one result of the largest size
	lateMax     = 16               // jobs whose results are awaited after their end
	reloadMax   = 10 * time.Minute // a block with after=reload waits for the next load
)

// lateJob is a job that ended without an answer, which may still arrive.
type lateJob struct {
	id, agent, asked string
	sent             time.Time
}

// shown returns what the service shows below the request while the job runs.
func (j *job) shown() string {
	return j.lead + j.announcement + j.eol + j.background + j.placeholder
}

// appendShown appends what the service shows of the job below its request.
func (t *transition) appendShown(out []byte) []byte {
	j := &t.job
	j.lead = string(closeParagraph(out, j.eol)[len(out):])
	return append(append(out, j.shown()...), j.eol...)
}

// limit returns how long the job may take, and from when on: from when it was sent, or
// else given out. Until then it waits for a reload, from when it was accepted.
func (j *job) limit() (from time.Time, limit time.Duration) {
	switch {
	case !j.sent.IsZero():
		return j.sent, j.timeout
	case !j.dispatched.IsZero():
		return j.dispatched, j.timeout
	}
	return j.accepted, reloadMax
}

// deadline returns when the job times out.
func (j *job) deadline() time.Time {
	from, limit := j.limit()
	return from.Add(limit)
}

// reloadFollows reports whether the next block of the chunk waits for a reload of the
// page: then the reload is what the block at work was to bring about.
func (t *transition) reloadFollows() bool {
	rest := []byte(t.job.rest)
	blocks := t.layoutOf(rest, 0).code(0, len(rest))
	if len(blocks) == 0 {
		return false
	}
	_, words := label(blocks[0].info)
	return parseFenceOptions(words).afterReload
}

// headline returns the header of the job's request.
func (t *transition) headline(j *job) string {
	return fmt.Sprintf("> **%s** to %s at %s", j.agent, t.options.full(), j.asked)
}

// setBlock makes a block the job's, and finds out whether it was answered before.
func (t *transition) setBlock(j *job, b *block, text, above []byte) {
	j.code = string(b.text(text))
	j.lost = t.lostReply(sumOf(j.code), above)
	_, j.info = label(b.info)
	j.fence = parseFenceOptions(j.info)
	j.timeout = cmp.Or(j.fence.timeout, t.options.Timeout)
	if j.load = 0; j.fence.afterReload {
		j.load = j.ranIn + 1
	}
}

// announce begins a job below its request, the end of out, with a blank line before
// what follows. The rest belongs to the chunk.
func (t *transition) announce(out []byte, j job, rest, follow []byte) {
	t.jobs++
	j.id = fmt.Sprintf("%s-%d", t.options.Epoch, t.jobs)
	j.eol = t.file.eol
	j.announcement = strings.TrimSuffix(string(t.appendLine(nil, "to "+oneLine(j.agent))), j.eol)
	j.accepted, j.dispatched, j.sent, j.started, j.backgroundAt = t.now, time.Time{}, time.Time{}, time.Time{}, time.Time{}
	j.result, j.edited = result{}, false
	t.job, t.phase = j, requested
	if j.lost != nil {
		t.phase = restoring
	} else {
		if len(j.code) > codeMax {
			t.conclude(result{body: fmt.Sprintf("not run: the block has %d bytes, and %d is the most", len(j.code), codeMax)})
		}
		t.dispatch()
		t.update()
		out = t.appendShown(out)
	}
	n := len(out)
	out = join(out, append(rest, follow...), j.eol)
	t.job.gap = len(out) - n
	t.job.rest = string(out[n:]) + string(rest)
	t.text = append(append(out, rest...), follow...)
}

// dispatch gives the code out, unless it waits for a reload of the page.
func (t *transition) dispatch() {
	if !t.connected || t.phase != requested || t.loads < t.job.load {
		return
	}
	j := &t.job
	if j.load > 0 {
		j.shownAt = time.Time{} // the placeholder says something else now
	}
	t.phase, j.dispatched, j.ranIn = executing, t.now, t.loads
	t.act(Run{Job: j.id, Agent: j.agent, Code: handedOut(j.code), Lang: t.options.Lang, Info: j.info, Test: j.fence.test, Timeout: j.timeout})
}

// conclude ends the job. Its reply is written as soon as the file can be changed.
func (t *transition) conclude(r result) {
	j := &t.job
	began := j.accepted
	if !j.started.IsZero() {
		began = j.started
	} else if !j.dispatched.IsZero() {
		began = j.dispatched
	}
	r.at, r.took = t.now, max(0, t.now.Sub(began))
	if r.reason == reasonTimeout {
		_, r.took = j.limit()
	}
	t.phase, j.result = answered, r
	done := Done{
		Job: j.id, Key: j.key, OK: r.ok, JSON: r.json, Reason: r.reason,
		Background: t.backlog.captured(), Omitted: t.backlog.omitted(), Duration: r.took,
	}
	if r.ok {
		t.last, done.Value = "completed ("+span(r.took)+")", r.body
	} else {
		t.last = fmt.Sprintf("failed after %dms%s", r.took.Milliseconds(), reasonText[r.reason])
		done.Error = r.body
	}
	t.act(done)
}

// fail ends the job without an answer. A result that still arrives is shown as late.
func (t *transition) fail(reason, text string) {
	j := &t.job
	if t.phase == executing && reason != reasonGone {
		t.act(Cancel{j.id})
		sent := j.sent
		if sent.IsZero() {
			sent = j.dispatched
		}
		late := append(slices.Clip(t.late), lateJob{j.id, j.agent, j.asked, sent})
		t.late = late[max(0, len(late)-lateMax):]
	}
	t.conclude(result{reason: reason, body: text})
}

// advanceJob updates what the file shows of the job, and writes its reply once it is
// answered. It reports whether there may be more to do.
func (t *transition) advanceJob() bool {
	at, found, stable := t.locateJob()
	switch {
	case !stable:
		return false
	case !found:
		return t.disrupt()
	case t.job.edited && t.phase == requested:
		// The request was changed before it was run: what stands there now is a
		// candidate again.
		i := t.start()
		t.text = t.appendFooter(bytes.Clone(t.text[:i]), t.text[i:])
		t.phase, t.last = idle, ""
		return true
	case t.phase == answered || t.phase == restoring:
		t.complete(at)
		return true
	}
	t.dispatch()
	t.show(at)
	return false
}

// locateJob removes what the service wrote below the request from the text and
// returns where it was. Nothing of the request may be found; stable is false if the
// file may be about to change again.
func (t *transition) locateJob() (at int, found, stable bool) {
	j, i := &t.job, t.start()
	at = i + len(j.request)
	if t.phase == restoring {
		return at, true, true
	}
	if rest, ok := bytes.CutPrefix(t.text[i:], []byte(j.request)); ok {
		if rest, ok = bytes.CutPrefix(rest, []byte(j.shown())); ok {
			t.text = slices.Concat(t.text[:at], rest[lineEnd(rest):])
			return at, true, true
		}
	}
	if !t.ready() {
		return 0, false, false
	}
	t.suspect()
	at = t.recover()
	return at, at >= 0, true
}

// show puts back what locateJob removed, updated if the time has come.
func (t *transition) show(at int) {
	j := &t.job
	first := t.backlog.total > 0 && j.backgroundAt.IsZero()
	if t.due(j.shownAt.Add(t.options.Cadence)) || first {
		t.update()
		t.tickAt(j.shownAt.Add(t.options.Cadence))
	}
	out := closeLine(bytes.Clone(t.text[:at]), t.file.eol)
	out = t.appendShown(out)
	follow := t.text[at:]
	if n := len(out); !bytes.HasPrefix(follow, []byte(j.rest)) {
		out = join(out, follow, t.file.eol)
		follow = append(out[n:len(out):len(out)], follow...)
		out = out[:n]
	}
	t.text = append(out, follow...)
}

// update computes what is shown of the job now.
func (t *transition) update() {
	j := &t.job
	j.shownAt, j.eol = t.now, t.file.eol
	if t.backlog.total > 0 && j.backgroundAt.IsZero() {
		j.backgroundAt = t.now
	}
	j.background = string(t.appendBacklog(nil))
	if t.phase == requested {
		j.placeholder = fmt.Sprintf("%s (%ds)", reloadMark, int(t.now.Sub(j.accepted).Seconds()))
		return
	}
	j.placeholder = fmt.Sprintf("%s (%ds)%s", executingMark, int(t.now.Sub(j.dispatched).Seconds()), t.frozenSince(": "))
}

// complete writes the reply to the job below its request, and continues with the
// next block of the chunk or ends the chunk.
func (t *transition) complete(at int) {
	j, eol := &t.job, t.file.eol
	out := closeLine(bytes.Clone(t.text[:at]), eol)
	from := len(out)
	if t.phase == restoring {
		t.phase, t.restored = idle, j.lost.header
		t.settleAt(t.appendLost(out, *j.lost), t.text[at+j.gap:])
		return
	}
	out = closeParagraph(out, eol)
	reply := len(out)
	out = t.appendReply(out)
	t.remember(j.request, string(out[reply:]))
	if j.edited {
		out = t.appendNote(out, "The code above was changed after it had been given to the page. The reply is to the code as it was then.")
	}
	if len(j.fence.faults) > 0 {
		out = t.appendNote(out, strings.Join(j.fence.faults, "\n"))
	}
	after := t.text[at:]
	n := t.restOfChunk(out, after)
	rest, follow := after[:n], after[n:]
	if j.index < j.count && j.result.reason == "" && t.nextBlock(out, from, rest, follow) {
		return
	}
	if j.index < j.count && (j.result.reason != "" || !t.connected) {
		out = t.appendNote(out, fmt.Sprintf("%d of %d not run: the blocks below are left as they are.", j.count-j.index, j.count))
	}
	if j.notRun != "" {
		out = t.appendNote(out, j.notRun)
	}
	t.phase = idle
	if !isBlank(rest) {
		t.settleAt(append(join(out, rest, eol), rest...), follow)
		return
	}
	gap := lineEnd(rest) // a blank line that belongs to the reply
	if gap > 0 && j.gap == 0 {
		out = append(out, rest[:gap]...)
	}
	t.settleAt(out, after[gap:])
}

// restOfChunk returns how much of what follows the reply, the end of out, belongs to
// the chunk: what did when it was accepted, or if that was changed, what can be
// parsed as the rest of it.
func (t *transition) restOfChunk(out, follow []byte) int {
	j := &t.job
	if bytes.HasPrefix(follow, []byte(j.rest)) && isLine(follow, len(j.rest)) {
		return len(j.rest)
	}
	if j.index == j.count {
		return 0
	}
	text := slices.Concat(closeLine(out, t.file.eol), follow)
	start := len(text) - len(follow)
	l := t.layoutOf(text, start)
	end := l.above()
	if l.open >= 0 {
		end = min(end, l.open)
	}
	for _, h := range l.heads {
		if h.exact() && h.from < end {
			end = h.from
		}
	}
	for _, b := range l.code(start, end) {
		if t.wasAnswered(b, text) { // see accept
			return b.from - start
		}
	}
	return end - start
}

// nextBlock begins the next block of the chunk, if there is one and the page is not gone. The reply to the
// last one is the end of out, from the blank line above it on.
func (t *transition) nextBlock(out []byte, from int, rest, follow []byte) bool {
	j := t.job
	out = join(out, slices.Concat(rest, follow), t.file.eol)
	text := slices.Concat(out, rest, follow)
	begin := len(out)
	blocks := t.layoutOf(text, begin).code(begin, begin+len(rest))
	if len(blocks) == 0 {
		return false
	}
	b := blocks[0]
	t.setBlock(&j, &b, text, out)
	if !t.connected && j.load == 0 && j.lost == nil {
		return false
	}
	t.setAnchor(out, begin)
	j.index++
	j.count = j.index + len(blocks) - 1
	out = closeLine(append(out, text[begin:b.next]...), t.file.eol)
	j.request = string(out[begin:])
	if more := string(out[from:]); j.exchange == "" || len(j.exchange)+len(more) > exchangeMax {
		j.exchange = ""
	} else {
		j.exchange += more
	}
	t.announce(out, j, bytes.Clone(text[b.next:begin+len(rest)]), bytes.Clone(follow))
	return true
}

// disrupt ends a job of which nothing can be found in the file any more. It leaves a
// note, and the reply if there is one.
func (t *transition) disrupt() bool {
	if !t.quiet() {
		return false
	}
	const text = "disrupted: the request was removed from the file while it was at work"
	if t.phase != answered {
		t.fail(reasonLost, text)
	}
	j, l := &t.job, t.layout()
	at := l.above()
	if len(l.footers) == 0 && l.open >= 0 {
		at = l.open
	}
	out := t.appendNote(bytes.Clone(t.text[:at]), "The request of "+oneLine(j.agent)+" at "+j.asked+" was removed from the file while it was at work.")
	out = closeParagraph(out, t.file.eol)
	t.text = append(slices.Clip(out), l.strip(nil, at, len(t.text))...)
	j.rest, j.gap, j.edited = "", 0, false
	t.act(Log{t.File() + ": " + text})
	t.complete(len(out))
	return true
}
