package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	markdown "zino/pkg/text"
)

// Options describe the page. Zero values are the defaults.
type Options struct {
	Name string // from Sanitize
	ID   string // the short id, see IsShortID

	// Epoch is random. It distinguishes the job ids of this start from those of
	// earlier starts, whose results may still arrive.
	Epoch string

	Lang    string // of the code that runs here; js
	Program bool   // the page is a program, not a page of a browser
	Footer  string // one line that begins with "> "

	Timeout  time.Duration // of a job; 60 s
	Cadence  time.Duration // between updates of what is shown; 5 s
	Quiet    time.Duration // before text that does not run is taken as final; 2 s
	Debounce time.Duration // before a change that no Changed reported is parsed; 150 ms

	BodyMax int // bytes of a result in the file; 8 KiB
	Kept    int // the highest N of the overflow files N.txt so far

	title string // the sanitized present title of the page; "": unknown
}

func (o Options) withDefaults() Options {
	if o.Lang == "" {
		o.Lang = "js"
	}
	o.Program = o.Program || o.Lang != "js"
	if o.Footer == "" {
		o.Footer = "> Write code in a fenced " + o.language() + " block below to execute against this page."
	}
	o.Footer = "> " + strings.TrimPrefix(oneLine(strings.TrimSpace(o.Footer)), "> ")
	for _, d := range []struct {
		value *time.Duration
		usual time.Duration
	}{
		{&o.Timeout, 60 * time.Second},
		{&o.Cadence, 5 * time.Second},
		{&o.Quiet, 2 * time.Second},
		{&o.Debounce, 150 * time.Millisecond},
	} {
		if *d.value <= 0 {
			*d.value = d.usual
		}
	}
	if o.BodyMax <= 0 {
		o.BodyMax = 8 << 10
	}
	return o
}

// language returns the name of the language in sentences.
func (o *Options) language() string {
	switch o.Lang {
	case "js":
		return "JS"
	case "py":
		return "Python"
	}
	return o.Lang
}

// full returns the name with the id, which is unique among connected pages.
func (o *Options) full() string { return o.Name + "-" + o.ID }

// State is what is known of one page, its log file and its work. It is immutable:
// Apply returns the next State. Slices and maps in it are shared between states,
// so they are replaced and never changed in place.
type State struct {
	options   Options
	phase     phase
	connected bool
	loads     int       // how often the page has connected
	gone      time.Time // since when the page is not connected
	waiting   waiting   // a request that was parsed while the page is gone
	noted     time.Time // until when a request with a note that the page is gone may be run
	present   string    // the line that says what the page calls itself now
	said      string    // the last such line of the file; "": it says nothing that differs
	stopping  bool      // the service ends: nothing is accepted any more
	frozen    time.Time // since when the connected page has not answered; zero: it answers
	file      file
	job       job       // the block at work; meaningful while busy
	queue     []Eval    // requests of programs that are not in the file yet
	backlog   backlog   // background events that are not in the file for good
	flushed   time.Time // when a backlog was written without a reply

	jobs    int        // number of jobs so far, for their ids
	kept    int        // number of overflow files so far, for their names
	late    []lateJob  // jobs whose results may still arrive
	history []exchange // answered requests
	last    string     // how the last job ended, as the registry shows it; "" before the first

	deadline time.Time // when the next Tick is due; zero: never
}

// phase says where the work of a page stands.
type phase int

const (
	unread    phase = iota // the file was not read yet
	idle                   // no request runs; the footer is there, or will be after Quiet
	requested              // a block is announced in the file, and waits for the next load of the page
	executing              // the code of the block was given out, once and for all
	answered               // the result is known and not in the file yet
	restoring              // inside a transition only: puts back a reply that an older copy of the file lost
)

// busy reports whether a job runs.
func (s *State) busy() bool { return s.phase > idle }

// file is what is known of the log file.
type file struct {
	origin  origin
	anchor  anchor
	eol     string    // of the service's own lines
	sum     digest    // of the text behind the anchor
	rested  digest    // the sum when the caller last reported the file at rest
	changed time.Time // when another program last changed the text behind the anchor
	written time.Time // when the service last wrote
}

// origin says how the text behind the anchor may relate to what the service knows.
type origin int

const (
	current   origin = iota // it continues what the service has written
	suspect                 // it may be an older copy of the file: compare it with the history
	firstRead               // suspect, and the file was read for the first time
)

func (t *transition) suspect() { t.file.origin = max(t.file.origin, suspect) }

type digest [sha256.Size]byte

// markdownFence is the state of a parser of fenced blocks.
type markdownFence = markdown.Fence

// New returns the state of a page whose file was not read yet.
func New(o Options) *State {
	o = o.withDefaults()
	return &State{options: o, kept: o.Kept, file: file{eol: "\n"}}
}

// File returns the path of the log file, relative to the REPL's directory.
func (s *State) File() string { return logPath(s.options.full()) }

// logPath returns the path of the log file of a page, whose name has its id.
func logPath(full string) string { return "debug/" + full + ".md" }

// From returns where the tail that Apply must see begins.
func (s *State) From() int64 { return s.file.anchor.end - int64(len(s.file.anchor.bytes)) }

// Settled returns the end of the settled part of the file. Apply changes nothing
// before it, as long as the beginning of the file stays where it is.
func (s *State) Settled() int64 { return s.file.anchor.end }

// Deadline returns when the next Tick is due, or the zero time.
func (s *State) Deadline() time.Time { return s.deadline }

// Status returns what the registry shows: idle, requested, executing,
// completed (17ms), failed after 60000ms (timeout), late or gone.
func (s *State) Status() string {
	switch {
	case s.phase == executing:
		return "executing"
	case s.phase == requested:
		return "requested"
	case !s.connected:
		return "gone"
	case s.last == "":
		return "idle"
	}
	return s.last
}

// Apply returns the state after an event, the edit of the file and the actions that
// follow from it. See the package comment for its use.
func (s *State) Apply(v View, e Event) (next *State, edit Edit, actions []Action) {
	state := *s
	state.deadline = time.Time{}
	t := &transition{State: &state, view: v, event: e, now: e.at()}
	t.consume()
	if v.Unavailable {
		t.tickAt(t.now.Add(t.options.Quiet))
	} else {
		t.settle()
	}
	if t.edit.Need != Nothing {
		return s, Edit{Need: t.edit.Need, From: t.edit.From}, nil
	}
	if t.phase == requested || t.phase == executing {
		t.tickAt(t.job.deadline())
	}
	for _, e := range t.queue {
		t.tickAt(e.At.Add(e.Timeout))
	}
	if !t.busy() {
		t.job = job{} // the exchange may be long
	}
	if status := t.Status(); status != s.Status() {
		t.act(Status{status})
	}
	return t.State, t.edit, t.actions
}

// transition is one application of an event. The State in it is the next one.
type transition struct {
	*State
	view  View
	event Event
	now   time.Time

	text     []byte // the file from view.Offset on, as it is to be
	restored string // the header of the exchange that was put back last

	edit    Edit
	actions []Action
}

func (t *transition) act(a Action) { t.actions = append(t.actions, a) }

// tickAt requests a Tick.
func (t *transition) tickAt(at time.Time) {
	if at.Before(t.now) {
		at = t.now
	}
	if t.deadline.IsZero() || at.Before(t.deadline) {
		t.deadline = at
	}
}

// due reports whether a time has come. If not, it requests a Tick.
func (t *transition) due(at time.Time) bool {
	if t.now.Before(at) {
		t.tickAt(at)
		return false
	}
	return true
}

// ready reports whether the text was complete when it was read: the caller reported
// so, or the text has not changed for the debounce time.
func (t *transition) ready() bool {
	return t.file.rested == t.file.sum || t.due(t.file.changed.Add(t.options.Debounce))
}

// quiet reports whether the text has not changed for so long that it is final.
func (t *transition) quiet() bool { return t.due(t.file.changed.Add(t.options.Quiet)) }

// observe notes whether the text behind the anchor has changed.
func (t *transition) observe(text []byte) {
	if sum := digest(sha256.Sum256(text)); sum != t.file.sum || t.file.changed.IsZero() {
		t.file.sum, t.file.changed = sum, t.now
	}
	switch t.event.(type) {
	case Changed, Start, Stopping:
		t.file.rested = t.file.sum
	}
}

// settle computes the text of the file and the edit that leads there.
func (t *transition) settle() {
	t.text = t.view.Tail
	if t.view.Missing || t.view.Offset == 0 && isBlank(bytes.TrimPrefix(t.text, []byte(bom))) {
		if !t.createFile() {
			return
		}
	}
	if t.view.Offset == 0 && isUTF16(t.text) {
		t.refuseUTF16()
		return
	}
	if !t.locateTail() {
		return
	}
	for more := true; more; {
		if t.busy() {
			more = t.advanceJob()
		} else {
			more = t.advanceIdle()
		}
	}
	// The edit is the difference between the old and the new text.
	old := t.view.Tail
	n := samePrefix(old, t.text)
	if n == len(old) && n == len(t.text) && !t.view.Missing {
		return
	}
	t.edit = Edit{Changed: true, From: t.view.Offset + int64(n), Text: t.text[n:]}
	t.file.written = t.now
	sum := digest(sha256.Sum256(t.text[t.start():]))
	if t.file.rested == t.file.sum {
		t.file.rested = sum
	}
	t.file.sum = sum
}

// refuseUTF16 answers programs whose requests cannot be written because the file is
// in UTF-16. The file is left alone.
func (t *transition) refuseUTF16() {
	for _, e := range t.queue {
		t.act(Done{Key: e.Key, Error: "not run: the page's file is in UTF-16, and is left alone"})
	}
	t.queue = nil
}

// createFile gives a file that is missing or empty its title. It reports whether
// the text can be parsed now.
func (t *transition) createFile() bool {
	_, start := t.event.(Start)
	first := t.phase == unread || start
	if t.view.Missing && !first && !t.connected && !t.busy() {
		return false // deleted after use
	}
	t.observe(t.text)
	if !first && !t.quiet() {
		return false
	}
	if t.phase == unread {
		t.phase = idle
	}
	t.file.origin = current
	if t.view.Missing {
		t.file.eol = "\n"
	}
	eol := t.file.eol
	t.text = fmt.Appendf(closeLine(bytes.Clone(t.text), eol), "# %s%s%s",
		t.options.full(), eol, strings.ReplaceAll(t.options.guide(), "\n", eol))
	if !t.busy() {
		t.settleAt(t.text, nil)
		return true
	}
	// Write the exchange at work again.
	if !t.view.Missing {
		t.text = t.appendNote(t.text, "The file was emptied while a request was at work. What stood in it before is not known here.")
	}
	t.text = closeParagraph(t.text, eol)
	j := &t.job
	if j.exchange == "" {
		j.exchange = string(t.appendCode([]byte(j.header+eol), j.code))
	}
	t.setAnchor(t.text, len(t.text))
	j.request, j.rest, j.gap = j.exchange, "", 0
	t.text = t.appendShown(append(t.text, j.exchange...))
	return true
}

// consume updates the state with the event. It does not look at the file.
func (t *transition) consume() {
	if !t.connected && t.gone.IsZero() {
		t.gone = t.now
	}
	switch e := t.event.(type) {
	case Connected:
		t.connected, t.frozen, t.gone = true, time.Time{}, time.Time{}
		t.loads++
		t.name(e.Title, e.URL)
	case Frozen:
		t.frozen = e.Since
	case Thawed:
		t.frozen = time.Time{}
	case Stopping:
		t.stopping = true
		t.dequeue(func(Eval) bool { return true }, func(q Eval) Done {
			return Done{Key: q.Key, Error: "interrupted: the service is stopping; the code was not run", Reason: reasonStopped}
		})
		switch t.phase {
		case requested:
			t.fail(reasonStopped, notRunText)
		case executing:
			t.fail(reasonStopped, interruptedText)
		}
	case Gone:
		t.connected, t.frozen, t.gone = false, time.Time{}, t.now
		switch {
		case t.phase != executing:
		case t.reloadFollows():
			t.conclude(result{ok: true, body: "reloaded"})
		default:
			t.fail(reasonGone, "page closed or reloaded: the request was not answered")
		}
	case Started:
		if t.phase != executing || t.job.id != e.Job {
			t.act(Unknown{e.Job})
			break
		}
		if t.job.started = t.now; t.job.sent.IsZero() {
			t.job.sent = t.now
		}
	case Result:
		t.consumeResult(e)
	case Background:
		for _, c := range e.Events {
			t.capture(c)
		}
	case Eval:
		e.Agent = t.options.agent(e.Agent)
		if e.Timeout <= 0 {
			e.Timeout = t.options.Timeout
		}
		switch {
		case isBlank([]byte(e.Code)):
			t.act(Done{Key: e.Key, Error: "there is no code to run"})
		case len(t.queue) >= queueMax:
			t.act(Done{Key: e.Key, Error: fmt.Sprintf("%d requests wait for this page already", queueMax), Reason: reasonBusy})
		default:
			t.queue = append(t.queue[:len(t.queue):len(t.queue)], e)
		}
	case Abort:
		t.dequeue(func(q Eval) bool { return q.Key == e.Key }, func(q Eval) Done {
			return Done{Key: q.Key, Error: "aborted", Reason: reasonAborted}
		})
		if t.job.key == e.Key && e.Key != "" && (t.phase == requested || t.phase == executing) {
			t.fail(reasonAborted, "interrupted: who asked for it does not wait for the answer any more; the code may still be at work")
		}
	}

	// End what has waited too long.
	if (t.phase == requested || t.phase == executing) && !t.now.Before(t.job.deadline()) {
		_, limit := t.job.limit()
		text := "timeout: the page did not answer within " + span(limit) + t.frozenSince("; ") + "; the code may still be at work"
		if t.phase == requested {
			text = "timeout: the page was not loaded again within " + span(limit) + "; the code was not run"
		}
		t.fail(reasonTimeout, text)
	}
	t.dequeue(func(q Eval) bool { return !t.now.Before(q.At.Add(q.Timeout)) }, func(q Eval) Done {
		return Done{Key: q.Key, Error: "timeout: the request did not get its turn within " + span(q.Timeout), Reason: reasonTimeout}
	})
}

// frozenSince says since when a frozen page has not answered, behind a separator.
func (t *transition) frozenSince(separator string) string {
	if t.frozen.IsZero() {
		return ""
	}
	return separator + "page busy or frozen since " + t.frozen.In(t.now.Location()).Format(time.TimeOnly)
}

// queueMax is the number of requests of programs that may wait.
const queueMax = 16

// dequeue removes the requests that match and answers them.
func (t *transition) dequeue(match func(Eval) bool, answer func(Eval) Done) {
	var queue []Eval
	for _, e := range t.queue {
		if match(e) {
			t.act(answer(e))
		} else {
			queue = append(queue, e)
		}
	}
	t.queue = queue
}

func (t *transition) consumeResult(e Result) {
	r := result{ok: e.OK, json: e.JSON && json.Valid([]byte(e.Value)), body: e.Value}
	if !e.OK {
		r.json, r.body = false, e.Error
	}
	if t.phase == executing && t.job.id == e.Job {
		t.frozen = time.Time{}
		t.conclude(r)
		return
	}
	for i, l := range t.late {
		if l.id != e.Job {
			continue
		}
		t.late = append(t.late[:i:i], t.late[i+1:]...)
		kind, level := "result", "info"
		if !r.ok {
			kind, level = "error", "error"
		}
		t.capture(Captured{Type: "late " + kind, Level: level, Message: fmt.Sprintf(
			"late %s of the request of %s at %s, %s after it was sent:\n%s", kind, l.agent, l.asked, span(t.now.Sub(l.sent)), r.body)})
		t.last = "late"
		return
	}
	t.act(Unknown{e.Job})
}
