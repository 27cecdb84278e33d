package repl

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"zino/proto"
	"zino/services/repl/page"
)

// carryOut does what follows from an event once the file is written. mu is held.
func (t *transcript) carryOut(e page.Effect) {
	switch e := e.(type) {
	case page.Run:
		t.run(e)
	case page.Cancel:
		if t.realm != nil {
			t.realm.cancel(e.Job)
		}
	case page.Keep:
		if err := t.s.keep(e); err != nil {
			t.s.log.Warn("a long result cannot be kept", "file", e.File, "error", err)
		}
	case page.State:
		t.announce()
	case page.Log:
		t.s.log.Info(e.Text, "file", t.file)
	case page.Done, page.Unknown: // for the callers
	}
}

// run gives a job to the realm.
func (t *transcript) run(e page.Run) {
	if t.realm == nil {
		t.s.log.Error("a job without a realm", "file", t.file, "job", e.Job)
		return
	}
	t.s.work.add()
	t.remember(given{e.Job, e.Agent, t.realm.attached.Nonce})
	t.realm.job(e)
}

// done tells those who wait for a request what came of it.
func (t *transcript) done(e page.Done) {
	agent := ""
	if g, ok := t.holder(e.Job); ok {
		agent = g.agent
		t.s.work.end()
	}
	if w := t.evals[e.Key]; e.Key != "" && w != nil {
		delete(t.evals, e.Key)
		if w.cause != "" {
			e.Error = w.cause
		}
		w.answer <- evaluated(e, t.file)
		agent = w.agent
	}
	t.s.publish(t, "exchange", proto.Exchange{Page: t.base, Agent: agent, OK: e.OK, DurationMS: e.Duration.Milliseconds()})
}

// announce tells the registry and those who watch how the transcript stands.
func (t *transcript) announce() {
	state := t.page.State()
	s := t.s
	s.mu.Lock()
	t.status.state = state
	shown := t.describe()
	s.mu.Unlock()
	if word := fmt.Sprint(t.realm != nil, state, shown.URL); word != t.announced {
		t.announced = word
		s.publish(t, "page", shown)
		s.board.changed()
	}
}

// note notes whether a transcript may be forgotten.
func (s *Service) note(t *transcript, p *page.Page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.status.busy = !p.Wake().IsZero() || len(t.evals) > 0
}

// heard notes that a realm was heard of.
func (s *Service) heard(t *transcript, change func(*status)) {
	s.mu.Lock()
	t.status.seen = time.Now()
	change(&t.status)
	s.mu.Unlock()
	s.board.aged()
}

// keep stores a body that is too long for the log. What is there already is never
// overwritten.
func (s *Service) keep(e page.Keep) error {
	if err := errors.Join(s.dir.Make(logDir), s.dir.Make(path.Dir(e.File))); err != nil {
		return err
	}
	return s.dir.Create(e.File, []byte(e.Body))
}

// kept is the highest number of the bodies that are kept in a directory.
func (s *Service) kept(dir string) (highest int) {
	names, err := s.dir.Names(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("long results cannot be listed", "dir", dir, "error", err)
	}
	for _, name := range names {
		number, ok := strings.CutSuffix(name, ".txt")
		if n, err := strconv.Atoi(number); ok && err == nil {
			highest = max(highest, n)
		}
	}
	return highest
}

// debounce is how long a file has to be left alone before it is read.
func (s *Service) debounce() time.Duration {
	return time.Duration(s.cfg.DebounceMS) * time.Millisecond
}
