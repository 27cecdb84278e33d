package repl

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"zino/pkg/config"
	"zino/proto"
	"zino/services/repl/page"
)

// givenMax is how many jobs are remembered. Answers to others are refused.
const givenMax = 32

// pageLog is the log file of a page and the work on it. It outlives the page: one
// that connects again with the same id and name continues it.
type pageLog struct {
	s                *Service
	base, name, id   string
	file, bodies     string // relative to the REPL's directory
	lang             string
	alarm            *alarm
	listed           listed // guarded by s.mu
	announced, fault string // the last status and the last error that were reported
	permanent        bool   // the error does not pass by waiting

	mu     sync.Mutex  // locked while the file is read and written
	state  *page.State // nil: the file was not opened yet
	known  known
	page   *Page // nil: gone
	given  []given
	evals  map[string]*evalCall // by key
	closed bool
}

// listed is what lists show of a log.
type listed struct {
	live      bool
	pending   bool // there is something to be done at a later time
	state     string
	url, kind string
	seen      time.Time // when the page last sent something
}

// given is a job that was given out.
type given struct {
	job, agent, nonce string
}

func newPageLog(s *Service, name, id, lang string) *pageLog {
	base := name + "-" + id
	l := &pageLog{
		s: s, base: base, name: name, id: id, lang: lang,
		file: logDir + "/" + base + ".md", bodies: logDir + "/" + base, evals: map[string]*evalCall{},
	}
	l.alarm = newAlarm(l.due, s.debounce())
	l.listed = listed{state: "idle", seen: time.Now()}
	return l
}

// usualFooter is the footer of pages that run JavaScript, unless it was configured.
var usualFooter = config.Default().Repl.Footer

// open reads the file, unless that was done. mu is locked.
func (l *pageLog) open() {
	if l.state != nil {
		return
	}
	cfg := &l.s.cfg
	o := page.Options{
		Name: l.name, ID: l.id, Epoch: random(4), Lang: l.lang, Footer: cfg.Footer,
		Timeout: seconds(cfg.Timeout), Cadence: seconds(cfg.Cadence), Quiet: seconds(cfg.Quiet),
		Debounce: l.s.debounce(), BodyMax: cfg.BodyMax, Kept: l.s.lastBody(l.bodies),
	}
	switch l.lang {
	case "javascript", "mjs":
		o.Lang = "js"
	case "python", "python3":
		o.Lang = "py"
	}
	if o.Lang != "js" && o.Footer == usualFooter {
		o.Footer = "" // the usual one speaks of JS; the default of the language is used
	}
	l.state = page.New(o)
	l.apply(page.Start{At: time.Now()})
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// lastBody returns the highest number of the overflow files in a directory.
func (s *Service) lastBody(dir string) (highest int) {
	names, err := s.dir.Names(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("cannot list long results", "dir", dir, "error", err)
	}
	for _, name := range names {
		number, ok := strings.CutSuffix(name, ".txt")
		if n, err := strconv.Atoi(number); ok && err == nil {
			highest = max(highest, n)
		}
	}
	return highest
}

// connect makes p the page of the log.
func (l *pageLog) connect(p *Page) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return unavailable()
	}
	l.s.seen(l, func(s *listed) { s.url, s.kind, s.live = p.url, p.kind, true })
	l.open()
	if l.page != nil { // the page before is about to disconnect
		l.apply(page.Gone{At: time.Now()})
	}
	l.page = p
	l.apply(page.Connected{At: time.Now()})
	l.announce()
	return nil
}

// disconnect removes p, if it still is the page of the log.
func (l *pageLog) disconnect(p *Page) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.page != p || l.closed {
		return
	}
	l.page = nil
	l.s.seen(l, func(s *listed) { s.live = false })
	l.apply(page.Gone{At: time.Now()})
	l.announce()
}

// due is called by the alarm: the file has changed and is at rest, or the state
// requested a Tick.
func (l *pageLog) due() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.state == nil {
		return
	}
	if l.alarm.changed() && !l.s.work.draining() && (l.page != nil || !l.state.Deadline().IsZero()) {
		v, err := l.s.dir.Read(l.file, l.state.From())
		if err != nil || v.Missing || !l.unchanged(&v) {
			l.apply(page.Changed{At: time.Now()})
		}
	}
	if at, now := l.state.Deadline(), time.Now(); !at.IsZero() && !now.Before(at) {
		l.apply(page.Tick{At: now})
	}
}

// poll checks whether the file has changed without a notification. As long as its
// stamp is the same, and old enough to be trusted, it is not read.
func (l *pageLog) poll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.page == nil { // the state learns of changes when the page is back
		return
	}
	stamp, err := l.s.dir.Stat(l.file)
	if err == nil && stamp == l.known.stamp && !l.known.young {
		return
	}
	v, err := l.s.dir.Read(l.file, l.state.From())
	if err != nil || v.Missing || !l.unchanged(&v) {
		l.alarm.touch()
	}
}

// close ends the work on the file. What is executing is marked as interrupted when
// the service starts again.
func (l *pageLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	l.alarm.stop()
	for _, c := range l.evals {
		c.answer <- evalAnswer{err: unavailable()}
	}
}

// apply makes an event's transition: it changes the file, then the state, and then
// carries out the actions. mu is locked.
func (l *pageLog) apply(e page.Event) []page.Action {
	actions := l.transition(e)
	for _, action := range actions {
		switch a := action.(type) {
		case page.Run:
			l.run(a)
		case page.Cancel:
			if l.page != nil {
				l.page.cancel(a.Job)
			}
		case page.Keep:
			// A file that exists is never overwritten.
			err := errors.Join(l.s.dir.Make(logDir), l.s.dir.Make(path.Dir(a.File)))
			if err == nil {
				err = l.s.dir.Create(a.File, []byte(a.Body))
			}
			if err != nil {
				l.s.log.Warn("cannot keep a long result", "file", a.File, "error", err)
			}
		case page.Status:
			l.announce()
		case page.Log:
			l.s.log.Info(a.Text, "file", l.file)
		}
	}
	l.alarm.setDeadline(l.state.Deadline())
	for _, action := range actions { // last: a caller that gets its answer may look at everything else
		if done, ok := action.(page.Done); ok {
			l.done(done)
		}
	}
	l.s.mu.Lock()
	l.listed.pending = !l.state.Deadline().IsZero() || len(l.evals) > 0
	l.s.mu.Unlock()
	return actions
}

// run gives a job to the page.
func (l *pageLog) run(a page.Run) {
	if l.page == nil {
		l.s.log.Error("a job was given out while no page is connected", "file", l.file, "job", a.Job)
		return
	}
	l.s.work.add()
	if len(l.given) == givenMax {
		l.given = append(l.given[:0], l.given[1:]...)
	}
	l.given = append(l.given, given{a.Job, a.Agent, l.page.attached.Nonce})
	l.page.send(proto.TypeJob, proto.Job{Job: a.Job, Code: a.Code, Lang: l.page.lang, TimeoutMS: max(1, a.Timeout.Milliseconds())})
}

// givenJob returns a job that was given out.
func (l *pageLog) givenJob(job string) (given, bool) {
	for _, g := range l.given {
		if g.job == job {
			return g, true
		}
	}
	return given{}, false
}

// done answers the callers of a request that has ended.
func (l *pageLog) done(d page.Done) {
	agent := ""
	if g, ok := l.givenJob(d.Job); ok {
		agent = g.agent
		l.s.work.end()
	}
	if c := l.evals[d.Key]; d.Key != "" && c != nil {
		delete(l.evals, d.Key)
		if c.cause != "" {
			d.Error = c.cause
		}
		c.answer <- evaluated(d, l.file)
		agent = c.agent
	}
	l.s.publish(l, proto.TypeExchange, proto.Exchange{Page: l.base, Agent: agent, OK: d.OK, DurationMS: d.Duration.Milliseconds()})
}

// announce reports the status of the page to the registry and to watchers.
func (l *pageLog) announce() {
	s, status := l.s, l.state.Status()
	s.mu.Lock()
	l.listed.state = status
	shown := l.describe()
	s.mu.Unlock()
	if text := fmt.Sprint(l.page != nil, status, shown.URL); text != l.announced {
		l.announced = text
		s.publish(l, proto.TypePage, shown)
		s.registry.changed()
	}
}

// describe returns the log as lists show it. s.mu is locked.
func (l *pageLog) describe() proto.Page {
	return proto.Page{
		ID: l.id, Name: l.name, File: l.file, URL: l.listed.url, Lang: l.lang, Kind: l.listed.kind,
		State: l.listed.state, LastSeen: l.listed.seen.Format(time.RFC3339),
	}
}
