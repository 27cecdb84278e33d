package page

import "time"

// Page is one page's log and what is going on in it. It is immutable.
type Page struct {
	o Options

	// The file.
	seen    bool // it has been read
	suspect bool // it may be an older copy: what is behind the anchor is compared with the past
	fresh   bool // suspect, and it was read for the first time
	anchor  anchor
	eol     string    // of the service's own lines
	sum     digest    // of what stands behind the anchor
	told    digest    // the same when it was last said to be at rest
	since   time.Time // when it changed last, but for what the service did
	written time.Time // when the service wrote last

	// The work.
	live   bool
	last   string // the state that the last job left, "" for none
	serial int    // of jobs
	kept   int    // of bodies
	run    *job   // nil: idle. Never changed in place, and replaced by step.change
	queue  []Eval // not in the file yet

	// Background.
	bg      backlog
	bgSince time.Time // when the backlog's first event came
	bgShown time.Time // when a backlog was written without a reply

	// Memory.
	late []lateJob  // jobs that may still be answered
	past []exchange // what was answered

	wake time.Time
}

// New is a page whose file was not seen yet.
func New(o Options) *Page {
	o = o.defaults()
	return &Page{o: o, eol: "\n", kept: o.Kept}
}

// File is the page's log, relative to the REPL's directory.
func (p *Page) File() string { return "debug/" + p.o.full() + ".md" }

// Name is the page's whole name: requests that address it, or the name without
// the id, are this page's.
func (p *Page) Name() string { return p.o.full() }

// From is where the tail that Apply must see begins.
func (p *Page) From() int64 { return p.anchor.end - int64(len(p.anchor.bytes)) }

// Settled is up to where the file is settled. Apply changes nothing before it, as
// long as the file's beginning stays where it is.
func (p *Page) Settled() int64 { return p.anchor.end }

// Wake is when the next Tick is due; the zero time if none is.
func (p *Page) Wake() time.Time { return p.wake }

// Live reports whether the page's realm is connected.
func (p *Page) Live() bool { return p.live }

// State is the state that the registry shows: idle, requested, executing,
// completed (17ms), failed after 60000ms (timeout), late or gone.
func (p *Page) State() string {
	switch {
	case p.run != nil && p.run.outcome == nil && p.run.given:
		return "executing"
	case p.run != nil && p.run.outcome == nil:
		return "requested"
	case !p.live:
		return "gone"
	case p.last == "":
		return "idle"
	}
	return p.last
}

// Apply is what an event makes of the page and of its file. The page itself stays
// as it is. See the package comment for how it is used.
func (p *Page) Apply(v View, e Event) (next *Page, edit Edit, effects []Effect) {
	state := *p
	s := &step{Page: &state, view: v, event: e, now: e.at()}
	s.wake = time.Time{}
	s.take()
	if v.Held {
		s.wakeAt(s.now.Add(s.o.Quiet))
	} else {
		s.settle()
	}
	if s.edit.Need != Nothing {
		return p, Edit{Need: s.edit.Need, From: s.edit.From}, nil
	}
	s.timers()
	if after := s.State(); after != p.State() {
		s.effect(State{after})
	}
	return s.Page, s.edit, s.effects
}
