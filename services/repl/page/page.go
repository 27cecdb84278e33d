package page

import "time"

// Page is one page's log and what is going on in it. It is immutable.
type Page struct {
	o Options
}

// New is a page whose file was not seen yet.
func New(o Options) *Page {
	return &Page{o: o.defaults()}
}

// File is the page's log, relative to the REPL's directory.
func (p *Page) File() string { return "debug/" + p.o.full() + ".md" }

// Name is the page's whole name: with it requests address it, and no other.
func (p *Page) Name() string { return p.o.full() }

// fromNow is a moment, or nothing if there is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
