package repl

import (
	"fmt"
	"sync"
	"time"

	"zino/pkg/config"
	"zino/proto"
	"zino/services/repl/page"
)

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
	events           eventLog

	mu     sync.Mutex  // locked while the file is read and written
	state  *page.State // nil: the file was not opened yet
	known  known
	page   *Page // nil: gone
	given  []*given
	kept   map[string]string    // files that the transition under way has created, with their content
	evals  map[string]*evalCall // by key
	closed bool
}

// listed is what lists show of a log.
type listed struct {
	live      bool
	pending   bool // there is something to be done at a later time
	state     string
	title     string // what the page calls itself now
	url, kind string
	seen      time.Time // when the page last sent something
	busy      time.Time // since when it has not answered; zero: it answers
}

func newPageLog(s *Service, name, id, lang string) *pageLog {
	base := name + "-" + id
	l := &pageLog{
		s: s, base: base, name: name, id: id, lang: lang,
		file: logDir + "/" + base + ".md", bodies: logDir + "/" + base, evals: map[string]*evalCall{}, events: eventLog{epoch: random(4)},
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
	l.s.mu.Lock()
	kind := l.listed.kind
	l.s.mu.Unlock()
	cfg := &l.s.cfg
	o := page.Options{
		Name: l.name, ID: l.id, Epoch: random(4), Lang: l.lang, Footer: cfg.Footer,
		Timeout: seconds(cfg.Timeout), Cadence: seconds(cfg.Cadence), Quiet: seconds(cfg.Quiet),
		Debounce: l.s.debounce(), BodyMax: cfg.BodyMax, Kept: l.s.lastBody(l.bodies), Program: kind == "program",
	}
	o.Lang = normalLang(l.lang)
	if o.Lang != "js" && o.Footer == usualFooter {
		o.Footer = "" // the usual one speaks of JS; the default of the language is used
	}
	l.state = page.New(o)
	l.apply(page.Start{At: time.Now()})
}

// normalLang returns the name that package page has for a language.
func normalLang(lang string) string {
	switch lang {
	case "javascript", "mjs":
		return "js"
	case "python", "python3":
		return "py"
	}
	return lang
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// connect makes p the page of the log.
func (l *pageLog) connect(p *Page) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return unavailable()
	}
	l.s.seen(l, func(s *listed) { s.title, s.url, s.kind, s.live, s.busy = p.title, p.url, p.kind, true, time.Time{} })
	l.open()
	if l.page != nil { // the page before is about to disconnect
		l.apply(page.Gone{At: time.Now()})
	}
	l.page = p
	l.apply(page.Connected{At: time.Now(), Title: p.title, URL: p.url})
	l.touch()
	l.s.mu.Lock()
	p.ready = true
	l.s.mu.Unlock()
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
	l.s.seen(l, func(s *listed) { s.live, s.busy = false, time.Time{} })
	l.apply(page.Gone{At: time.Now()})
	l.touch()
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
	if l.alarm.changed() && !l.s.work.draining() {
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
	if l.closed || l.state == nil {
		return
	}
	stamp, err := l.s.dir.Stat(l.file)
	if err == nil && stamp == l.known.stamp && !l.known.young {
		return
	}
	v, err := l.s.dir.Read(l.file, l.state.From())
	if err != nil || v.Missing || !l.unchanged(&v) {
		l.alarm.pending()
	}
}

// close marks open requests as interrupted and ends the work on the file. A file that
// cannot be written is marked when the service starts again.
func (l *pageLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if l.state != nil {
		l.apply(page.Stopping{At: time.Now()})
		if l.fault != "" {
			l.s.log.Warn("a request may stay open in its file until the next start", "file", l.file, "error", l.fault)
		}
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
	l.given = append(l.given, &given{job: a.Job, agent: a.Agent, nonce: l.page.attached.Nonce})
	l.page.send(proto.TypeJob, proto.Job{Job: a.Job, Code: a.Code, Lang: l.page.lang, TimeoutMS: max(1, a.Timeout.Milliseconds()), Test: a.Test})
}

// done answers the callers of a request that has ended.
func (l *pageLog) done(d page.Done) {
	agent := ""
	if g := l.givenJob(d.Job); g != nil {
		agent, g.over, g.parts = g.agent, true, nil
		l.s.work.endJob()
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
	if text := fmt.Sprint(l.page != nil, status, shown.Title, shown.URL, shown.BusySince); text != l.announced {
		l.announced = text
		s.publish(l, proto.TypePage, shown)
		s.registry.changed()
	}
}

// describe returns the log as lists show it. s.mu is locked.
func (l *pageLog) describe() proto.Page {
	title := l.listed.title
	if page.Sanitize(title) == l.name {
		title = ""
	}
	busy := ""
	if !l.listed.busy.IsZero() {
		busy = l.listed.busy.Format(time.RFC3339)
	}
	return proto.Page{
		ID: l.id, Name: l.name, Title: title, File: l.file, URL: l.listed.url, Lang: l.lang, Kind: l.listed.kind,
		State: l.listed.state, BusySince: busy, LastSeen: l.listed.seen.Format(time.RFC3339),
	}
}
