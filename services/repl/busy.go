package repl

import (
	"time"

	"zino/services/repl/page"
)

// Working reports whether the page has a job that is not answered.
func (p *Page) Working() bool {
	l := p.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.page != p {
		return false
	}
	for _, g := range l.given {
		if !g.over && equal(g.nonce, p.attached.Nonce) {
			return true
		}
	}
	return false
}

// Frozen notes that the page has not answered since a time, although it is connected.
func (p *Page) Frozen(since time.Time) { p.note(since, page.Frozen{At: time.Now(), Since: since}) }

// Thawed notes that the page answers again.
func (p *Page) Thawed() { p.note(time.Time{}, page.Thawed{At: time.Now()}) }

func (p *Page) note(busy time.Time, e page.Event) {
	l := p.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.page != p {
		return
	}
	l.s.mu.Lock()
	l.listed.busy = busy
	l.s.mu.Unlock()
	l.apply(e)
	l.announce()
}
