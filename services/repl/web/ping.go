package web

import (
	"context"
	"sync"
	"time"
)

const (
	pingEvery  = time.Second // while a job is out
	pingsUnmet = 3           // intervals without a packet of the page until it counts as busy
)

// pinger finds out whether a page with a job is busy: in an endless loop, in a dialog,
// or frozen by the browser. Pings are packets, because the browser itself answers the
// ping frames of the WebSocket protocol.
type pinger struct {
	job chan struct{} // has an element after a job was sent

	mu    sync.Mutex
	every time.Duration
	asked time.Time // when the first ping without an answer was sent; zero: none
	busy  bool      // that was reported
}

// run pings the page while a job is out, until ctx ends. A ping that cannot be sent is
// the end of the connection, which the reader notices.
func (g *pinger) run(ctx context.Context, p *page) {
	for {
		select {
		case <-g.job:
		case <-ctx.Done():
			return
		}
		for p.Working() {
			select {
			case <-time.After(g.interval()):
			case <-ctx.Done():
				return
			}
			if !p.Working() {
				break
			}
			g.ask(p, time.Now())
			if write(ctx, p.conn, "ping", struct{}{}) != nil {
				return
			}
		}
	}
}

func (g *pinger) interval() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.every
}

// ask notes that a ping is sent, and reports to the service that the page is busy.
func (g *pinger) ask(p *page, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.asked.IsZero():
		g.asked = now
	case !g.busy && now.Sub(g.asked) >= pingsUnmet*g.every:
		g.busy = true
		p.Frozen(g.asked)
	}
}

// answered notes a packet of the page.
func (g *pinger) answered(p *page) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy {
		p.Thawed()
	}
	g.asked, g.busy = time.Time{}, false
}
