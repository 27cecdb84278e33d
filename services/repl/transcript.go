package repl

import (
	"hash/maphash"
	"sync"
	"time"

	"zino/pkg/config"
	"zino/proto"
	"zino/services/repl/page"
	"zino/services/repl/tail"
)

// transcript is a realm's file and what is going on in it. It outlives the realm:
// one that comes back with the same id and name goes on with it.
type transcript struct {
	s                *Service
	base, name, id   string
	file, bodies     string
	lang             string
	alarm            *alarm
	status           status // guarded by s.mu
	announced, fault string // the last state and the last trouble that were told
	useless          bool   // that trouble does not pass

	mu     sync.Mutex // is held while the file is read and written
	page   *page.Page // nil: nobody has come for it yet
	known  known
	realm  *Realm // nil: gone
	given  []given
	evals  map[string]*waiting
	closed bool
}

// status is what lists show of a transcript.
type status struct {
	live      bool
	busy      bool // there is something to be done at a later time
	state     string
	url, kind string
	seen      time.Time // when the realm was heard of last
}

// known is the end of the file as the page knows it.
type known struct {
	stamp tail.Stamp
	sum   uint64 // of what stands behind the place that reading begins at
	young bool   // the stamp does not tell all
}

// given is a job that was given out.
type given struct {
	job, agent, nonce string
}

// givenMax is how many jobs are remembered: answers to others have no chance.
const givenMax = 32

var seed = maphash.MakeSeed()

func newTranscript(s *Service, name, id, lang string) *transcript {
	base := name + "-" + id
	t := &transcript{
		s: s, base: base, name: name, id: id, lang: lang,
		file: logName(base), bodies: logDir + "/" + base, evals: map[string]*waiting{},
	}
	t.alarm = newAlarm(t.due, s.debounce())
	t.status = status{state: "idle", seen: time.Now()}
	return t
}

// open makes the page, unless it is there. mu is held.
func (t *transcript) open() {
	if t.page == nil {
		t.page = page.New(t.options())
		t.apply(page.Start{At: time.Now()})
	}
}

// options are the page's.
func (t *transcript) options() page.Options {
	cfg := &t.s.cfg
	o := page.Options{
		Name: t.name, ID: t.id, Epoch: random(4), Lang: canonical(t.lang), Footer: cfg.Footer,
		Timeout: seconds(cfg.Timeout), Cadence: seconds(cfg.Cadence), Quiet: seconds(cfg.Quiet),
		Debounce: t.s.debounce(), BodyMax: cfg.BodyMax, Kept: t.s.kept(t.bodies),
	}
	if o.Lang != "js" && o.Footer == usualFooter {
		o.Footer = "" // the usual one speaks of JS: the page words it for its language
	}
	return o
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// canonical is a language as the page calls it.
func canonical(lang string) string {
	switch lang {
	case "javascript", "mjs":
		return "js"
	case "python", "python3":
		return "py"
	}
	return lang
}

// connect makes r the realm of the transcript.
func (t *transcript) connect(r *Realm) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return unavailable()
	}
	t.s.heard(t, func(s *status) { s.url, s.kind, s.live = r.url, r.kind, true })
	t.open()
	if t.realm != nil { // its end is under way
		t.apply(page.Gone{At: time.Now()})
	}
	t.realm = r
	t.apply(page.Connected{At: time.Now()})
	t.announce()
	return nil
}

// disconnect takes the realm away, if it still is the transcript's.
func (t *transcript) disconnect(r *Realm) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.realm != r || t.closed {
		return
	}
	t.realm = nil
	t.s.heard(t, func(s *status) { s.live = false })
	t.apply(page.Gone{At: time.Now()})
	t.announce()
}

// started notes that a job was sent.
func (t *transcript) started(r *Realm, job string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.realm == r && !t.closed {
		t.apply(page.Started{At: time.Now(), Job: job})
	}
}

// due is called when the alarm goes off: the file has changed and is at rest, or
// the page asked for a tick.
func (t *transcript) due() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.page == nil {
		return
	}
	if t.alarm.changed() && !t.s.work.draining() && (t.realm != nil || !t.page.Wake().IsZero()) {
		t.look()
	}
	if wake, now := t.page.Wake(), time.Now(); !wake.IsZero() && !now.Before(wake) {
		t.apply(page.Tick{At: now})
	}
}

// touch tells that the file may have changed. While the realm is gone nothing is
// done about it: the page is told when it is back.
func (t *transcript) touch() { t.alarm.touch() }

// close ends the work on the file. What is executing is marked as interrupted when
// the service starts again.
func (t *transcript) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.closed = true
	t.alarm.stop()
	for _, w := range t.evals {
		w.fail(unavailable())
	}
}

// remember notes whom a job was given to.
func (t *transcript) remember(g given) {
	if len(t.given) == givenMax {
		t.given = append(t.given[:0], t.given[1:]...)
	}
	t.given = append(t.given, g)
}

// holder is what is known of a job that was given out.
func (t *transcript) holder(job string) (given, bool) {
	for _, g := range t.given {
		if g.job == job {
			return g, true
		}
	}
	return given{}, false
}

// describe is the transcript as lists show it. s.mu is held.
func (t *transcript) describe() proto.Page {
	return proto.Page{
		ID: t.id, Name: t.name, File: t.file, URL: t.status.url, Lang: t.lang, Kind: t.status.kind,
		State: t.status.state, LastSeen: t.status.seen.Format(time.RFC3339),
	}
}

// usualFooter is the footer of pages that run JavaScript, unless it was configured.
var usualFooter = config.Default().Repl.Footer
