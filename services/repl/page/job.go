package page

import (
	"fmt"
	"strings"
	"time"
)

// job is a block at work, and what is known of its chunk.
type job struct {
	id      string
	key     string // of the Eval
	agent   string
	line    string // the request's header as it stands in the file
	asked   string // the request's time
	code    string
	info    string
	timeout time.Duration

	n, k int    // how many blocks the chunk has; which one this is, from 1
	done string // the exchange from its header up to this block's end, "" if it is too long
	rest string // what follows the placeholder in the file and belongs to the chunk
	gap  int    // how much of that is a blank line of the service's

	// The region between anchor and rest.
	req   string // up to the announcement
	ann   string // the announcement, without line end
	shown string // the background
	ph    string // the placeholder, without line end
	eol   string

	accepted time.Time
	shownAt  time.Time // when the region was written last
	bgAt     time.Time // when background was first shown

	given   bool
	givenAt time.Time
	sent    time.Time // the first Started
	started time.Time // the last one
	outcome *outcome
	edited  bool      // what the file shows is not what was given out
	before  *exchange // the block was answered before, and this is put back
}

// outcome is how a job ended.
type outcome struct {
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
)

// why are the words that the registry has for reasons.
var why = map[string]string{
	reasonTimeout: " (timeout)", reasonGone: " (page closed or reloaded)",
	reasonAborted: " (interrupted)", reasonLost: " (disrupted)",
}

// pieces is what the service shows below the request while it is executing.
func (j *job) pieces() string { return j.ann + j.eol + j.shown + j.ph }

// deadline is when the job times out: from when it was sent, or accepted if it
// was not.
func (j *job) deadline() time.Time {
	if j.sent.IsZero() {
		return j.accepted.Add(j.timeout)
	}
	return j.sent.Add(j.timeout)
}

// took is how long a job has been running.
func (j *job) took(now time.Time) time.Duration {
	switch {
	case !j.started.IsZero():
		return now.Sub(j.started)
	case j.given:
		return now.Sub(j.givenAt)
	}
	return now.Sub(j.accepted)
}

// extend adds to what is remembered of the exchange, unless that is too much.
func (j *job) extend(text string) {
	if j.done == "" || len(j.done)+len(text) > doneMax {
		j.done = ""
		return
	}
	j.done += text
}

// doneMax is how much of an exchange is remembered, in bytes: enough for one
// result at its longest.
const doneMax = 512 << 10

// change makes the current job one that can be changed.
func (s *step) change() *job {
	j := *s.run
	s.run = &j
	return s.run
}

// begin makes a job of a block: it gets an id and is announced.
func (s *step) begin(j job) *job {
	s.serial++
	j.id = fmt.Sprintf("%s-%d", s.o.Epoch, s.serial)
	j.eol = s.eol
	j.ann = strings.TrimSuffix(string(s.lead(nil, "to "+oneLine(j.agent))), s.eol)
	j.accepted, j.given, j.outcome, j.edited = s.now, false, nil, false
	j.sent, j.started, j.bgAt = time.Time{}, time.Time{}, time.Time{}
	s.run = &j
	if j.before != nil {
		j.outcome = &outcome{ok: true}
		return &j
	}
	if len(j.code) > codeMax {
		s.conclude(outcome{body: fmt.Sprintf("not run: the block has %d bytes, and %d is the most", len(j.code), codeMax)})
	}
	s.display()
	s.give()
	return s.run
}

// codeMax is how long a block may be, in bytes.
const codeMax = 4 << 20

// give gives the job's code out, if the page is there to take it.
func (s *step) give() {
	if !s.live || s.run.given || s.run.outcome != nil {
		return
	}
	j := s.change()
	j.given, j.givenAt = true, s.now
	code := strings.ToValidUTF8(j.code, "\ufffd")
	s.effect(Run{Job: j.id, Agent: j.agent, Code: code, Lang: s.o.Lang, Info: j.info, Timeout: j.timeout})
}

// conclude ends the current job. Its reply is written as soon as the file allows.
func (s *step) conclude(r outcome) {
	j := s.change()
	r.at, r.took = s.now, max(0, j.took(s.now))
	if r.reason == reasonTimeout {
		r.took = j.timeout
	}
	j.outcome = &r
	if s.last = "completed (" + span(r.took) + ")"; !r.ok {
		s.last = fmt.Sprintf("failed after %s%s", millis(r), why[r.reason])
	}
	d := Done{Job: j.id, Key: j.key, OK: r.ok, JSON: r.json, Reason: r.reason, Background: s.bg.events(), Omitted: s.bg.omitted(), Duration: r.took}
	if d.Value = r.body; !r.ok {
		d.Value, d.Error = "", r.body
	}
	s.effect(d)
}

// millis is how long it took as the registry says it.
func millis(r outcome) string { return fmt.Sprintf("%dms", r.took.Milliseconds()) }

// fail ends the current job without an answer. One that may still come is awaited.
func (s *step) fail(reason, text string) {
	j := s.run
	if j.given && reason != reasonGone {
		s.effect(Cancel{j.id})
		s.late = lastOf(append(s.late[:len(s.late):len(s.late)], lateJob{j.id, j.agent, j.asked, j.sentAt()}), lateMax)
	}
	s.conclude(outcome{reason: reason, body: text})
}

func (j *job) sentAt() time.Time {
	if j.sent.IsZero() {
		return j.givenAt
	}
	return j.sent
}

// lateJob is a job whose answer may still come.
type lateJob struct {
	id, agent, asked string
	sent             time.Time
}

const lateMax = 16

// lastOf is the end of a list, so that it does not grow.
func lastOf[T any](list []T, n int) []T { return list[max(0, len(list)-n):] }
