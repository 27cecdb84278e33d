package repl

import (
	"bytes"
	"errors"
	"time"

	"zino/pkg/replfile"
	"zino/services/repl/page"
	"zino/services/repl/tail"
)

// registryFile lists the pages. It is written, never read.
const registryFile = replfile.Name

// gatherFor is how long changes of state are gathered before the registry is
// written: many pages may change at a time.
const gatherFor = 50 * time.Millisecond

// registry writes debug.md: soon after a change of state, and otherwise, for the
// times in it, once in a cadence.
type registry struct {
	s    *Service
	soon chan struct{} // has an element after a change of state
	late chan struct{} // has one after realms were heard of
}

func newRegistry(s *Service) *registry {
	return &registry{s: s, soon: make(chan struct{}, 1), late: make(chan struct{}, 1)}
}

// changed tells of a change of state, aged of times only.
func (g *registry) changed() { signal(g.soon) }
func (g *registry) aged()    { signal(g.late) }

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run writes until the service is closed.
func (g *registry) run() {
	g.write()
	written := time.Now()
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	var due time.Time // zero: nothing is to be written
	for {
		next := time.Time{}
		select {
		case <-g.s.closed:
			timer.Stop()
			return
		case <-g.soon:
			next = time.Now().Add(gatherFor)
		case <-g.late:
			next = written.Add(seconds(g.s.cfg.Cadence))
		case <-timer.C:
			g.write()
			written, due = time.Now(), time.Time{}
			continue
		}
		if due.IsZero() || next.Before(due) {
			due = next
			timer.Reset(time.Until(due))
		}
	}
}

// write writes the registry if it says something new.
func (g *registry) write() {
	text := page.Registry(g.entries())
	err := g.replace(text)
	if errors.Is(err, tail.ErrChanged) {
		err = g.replace(text)
	}
	fault := ""
	if err != nil {
		fault = err.Error()
		g.s.log.Warn("the registry cannot be written", "file", registryFile, "error", err)
	}
	g.s.setFault(registryFile, fault)
}

func (g *registry) replace(text []byte) error {
	v, err := g.s.dir.Read(registryFile, 0)
	if err != nil || bytes.Equal(v.Bytes, text) && !v.Missing {
		return err
	}
	_, err = g.s.dir.Replace(registryFile, v, 0, text)
	return err
}

// entries are the pages that were connected since the service started.
func (g *registry) entries() []page.Entry {
	s := g.s
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]page.Entry, 0, len(s.transcripts))
	for _, t := range s.transcripts {
		if t.status.kind != "" { // else nobody has come for it yet
			list = append(list, page.Entry{Name: t.base, URL: t.status.url, Last: t.status.seen, State: t.status.state, Live: t.status.live})
		}
	}
	return list
}
