package repl

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
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
	late chan struct{} // has an element after a page has sent something
}

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

// write writes the registry if its text has changed.
func (g *registry) write() {
	s := g.s
	s.mu.Lock()
	entries := make([]page.Entry, 0, len(s.logs))
	for _, l := range s.logs {
		if l.listed.kind != "" { // else its page has not connected since the start
			entries = append(entries, page.Entry{Name: l.base, URL: l.listed.url, Last: l.listed.seen, State: l.listed.state, Live: l.listed.live})
		}
	}
	s.mu.Unlock()
	text := page.Registry(entries)
	err := g.replace(text)
	if errors.Is(err, tail.ErrChanged) {
		err = g.replace(text)
	}
	fault := ""
	if err != nil {
		fault = err.Error()
		s.log.Warn("cannot write the registry", "file", registryFile, "error", err)
	}
	s.setFault(registryFile, fault)
}

func (g *registry) replace(text []byte) error {
	v, err := g.s.dir.Read(registryFile, 0)
	if err != nil || bytes.Equal(v.Bytes, text) && !v.Missing {
		return err
	}
	if !v.Missing && replfile.IsForeign(v.Bytes) {
		if err := g.keep(v.Bytes); err != nil {
			return fmt.Errorf("zino repl has not written this file, and cannot keep its text: %w", err)
		}
	}
	_, err = g.s.dir.Replace(registryFile, v, 0, text)
	return err
}

// keep writes the text of a file that the registry replaces, and that zino repl has not
// written, to another file.
func (g *registry) keep(text []byte) error {
	const most = 100
	for i := 1; ; i++ {
		name := fmt.Sprintf("%s.kept-%d", registryFile, i)
		err := g.s.dir.Create(name, string(text))
		if errors.Is(err, fs.ErrExist) && i < most {
			continue
		}
		if err == nil {
			g.s.log.Warn("zino repl has not written this file: its text is kept", "file", registryFile, "kept", name)
		}
		return err
	}
}
