package mem

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"zino/pkg/durable"
	"zino/services/mem/store"
)

const hardFile = "hard_memories.json"

// memories are the hard memories in a file: the embedded store.Store. Whatever
// is asked is answered from a catalog that is first brought up to date with
// the file, so that several processes may share it.
type memories struct {
	root     *os.Root
	entries  *durable.File
	problems *problems
	log      *slog.Logger
	now      func() time.Time
	changes  durable.Group[*change]
	work     sync.WaitGroup
	least    int // elements from which on a snapshot is worth its place

	turn   sync.Mutex // held to bring the catalog up to date; before the file's lock
	mark   durable.Mark
	saving bool // a snapshot is being written

	mu      sync.RWMutex // held for moments; after the file's lock
	catalog *catalog
	seen    durable.Version // the file when the catalog was brought up to date
	ready   bool            // the file has been read once
	closed  bool
}

var _ store.Store = (*memories)(nil)

// openMemories begins to read the memories of a directory.
func openMemories(root *os.Root, p *problems, noSync bool) *memories {
	m := &memories{root: root, problems: p, log: p.log, now: time.Now, least: snapshotLeast, catalog: newCatalog(nil)}
	m.entries = durable.New(root, hardFile, durable.Options{Framing: durable.Array, KeepOpen: true, NoSync: noSync, Report: p.reporter(root, ""), IsElement: isElement})
	m.work.Go(func() {
		if err := m.refresh(); err != nil && !errors.Is(err, errClosed) {
			m.log.Error(fileError("hard memories", filepath.Join(root.Name(), hardFile), err).Error()) // the histories can be served all the same
		}
		m.mu.Lock()
		m.ready = true
		many := m.catalog.elements >= snapshotLeast
		m.mu.Unlock()
		if many {
			debug.FreeOSMemory() // what the reading took is not needed again
		}
	})
	return m
}

var errClosed = errors.New("the memories were closed")

// Close waits for what is under way.
func (m *memories) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.work.Wait()
	m.turn.Lock()
	defer m.turn.Unlock()
	m.entries.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.catalog.file == nil {
		return nil
	}
	err := m.catalog.file.Close()
	m.catalog, m.mark, m.seen = newCatalog(nil), durable.Mark{}, durable.Version{}
	return err
}

// Len is the number of memories.
func (m *memories) Len(context.Context) (n int, err error) {
	err = m.reading(func(c *catalog) { n = c.index.Len() }, nil)
	return n, err
}

// Get reads a memory.
func (m *memories) Get(_ context.Context, id int) (found store.Memory, err error) {
	var r ref
	there := false
	err = m.reading(func(c *catalog) {
		if there = c.has(id); there {
			r = c.ref(id)
		}
	}, func() error {
		if !there {
			return store.ErrNotFound
		}
		found, err = r.memory()
		return err
	})
	return found, err
}

// reading has pick choose from the catalog, up to date and under its lock, and
// read read what was chosen, without it. Should the file turn out to have been
// changed under our feet, both are called again.
func (m *memories) reading(pick func(*catalog), read func() error) error {
	for try := 0; ; try++ {
		if err := m.refresh(); err != nil {
			return err
		}
		m.mu.RLock()
		pick(m.catalog)
		m.mu.RUnlock()
		if read == nil {
			return nil
		}
		if err := read(); !errors.Is(err, errMoved) || try == attempts {
			return err
		}
		m.forget()
	}
}

// attempts limits how often a file is read anew that others do not leave alone.
const attempts = 3

// forget has the file read anew.
func (m *memories) forget() {
	m.turn.Lock()
	defer m.turn.Unlock()
	m.mark = durable.Mark{}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = durable.Version{}
}

// memory reads what the catalog does not hold.
func (r ref) memory() (store.Memory, error) {
	line, err := r.read()
	if err != nil {
		return store.Memory{}, err
	}
	e, err := parseElement(line)
	if err != nil {
		return store.Memory{}, errMoved
	}
	found := store.Memory{ID: r.id, Messages: e.messages, Tag: e.tag, Channel: e.channel, Session: e.session}
	if e.created != noTime {
		found.Created = time.Unix(e.created, 0).UTC()
	}
	return found, nil
}

// refresh reads what the file has that the catalog has not. It takes no lock on
// the file if that looks as it did.
func (m *memories) refresh() error {
	m.mu.RLock()
	seen := m.seen
	m.mu.RUnlock()
	if m.entries.Unchanged(seen) {
		return nil
	}
	m.turn.Lock()
	defer m.turn.Unlock()
	if m.entries.Unchanged(m.seen) { // while we waited somebody else has read it
		return nil
	}
	return m.catchUp()
}

// catchUp reads as far as the file goes now. The reading, which takes seconds
// for a large file, does not hold its lock.
func (m *memories) catchUp() error {
	for try := 0; ; try++ {
		var p piece
		err := m.entries.View(func(t *durable.Tx) (err error) {
			p, err = m.piece(t)
			return err
		})
		if err == nil {
			err = m.takeIn(p)
		}
		if !errors.Is(err, durable.ErrLayout) || try == attempts {
			return err
		}
		if err := m.entries.View(func(t *durable.Tx) error { return m.recover(t, p) }); err != nil {
			return err
		}
	}
}

// recover puts right a file that a piece could not be read of, unless it is
// another one by now.
func (m *memories) recover(t *durable.Tx, p piece) error {
	now, err := t.Span(p.Next)
	if err != nil || now.All {
		return err
	}
	return t.Repair()
}

// catchUpLocked is catchUp with the file locked.
func (m *memories) catchUpLocked(t *durable.Tx) error {
	for try := 0; ; try++ {
		p, err := m.piece(t)
		if err == nil {
			err = m.takeIn(p)
		}
		if !errors.Is(err, durable.ErrLayout) || try == attempts {
			return err
		}
		if err := t.Repair(); err != nil {
			return err
		}
	}
}

// piece is what is to be read next.
type piece struct {
	durable.Span
	file *os.File
}

// piece finds what the catalog has not. What it opens takeIn closes.
func (m *memories) piece(t *durable.Tx) (p piece, err error) {
	if p.Span, err = t.Span(m.mark); err != nil {
		return p, err
	}
	if p.file = m.catalog.file; p.To > 0 && (p.All || p.file == nil) {
		p.file, err = t.Open()
	}
	return p, err
}

// takeIn reads a piece into the catalog, or a whole file into a new one that
// takes its place.
func (m *memories) takeIn(p piece) error {
	c := m.catalog
	if p.All {
		c = newCatalog(nil)
		if p.To > 0 {
			c = m.restore(p)
			p.From = c.end
		}
	}
	if err := m.walk(c, p); err != nil {
		m.mark = durable.Mark{} // c may have a part of the piece
		if p.file != m.catalog.file && p.file != nil {
			err = errors.Join(err, p.file.Close())
		}
		return err
	}
	return m.install(c, p)
}

// walk takes in the elements of a piece one by one: a search need not wait for
// all of them.
func (m *memories) walk(c *catalog, p piece) error {
	for _, line := range p.Salvaged {
		c.take(parse(line, -1))
	}
	if p.From >= p.To {
		return nil
	}
	return durable.Walk(p.file, p.Span, func(elem []byte, at int64) error {
		next := parse(elem, at)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.closed && !m.ready {
			return errClosed
		}
		c.take(next)
		c.end = at + int64(len(elem))
		return nil
	})
}

// install makes c, which has taken in a piece, the catalog.
func (m *memories) install(c *catalog, p piece) error {
	m.mark = p.Next
	m.mu.Lock()
	old := m.catalog.file
	c.file, c.end = p.file, p.To
	if p.To == 0 {
		c.file = nil
	}
	m.catalog, m.seen = c, p.Version
	m.mu.Unlock()
	m.problems.set("skipped "+hardFile, c.problem(), nil)
	m.save()
	if old == nil || old == c.file {
		return nil
	}
	return old.Close()
}

// isBlank reports whether a query has nothing to search for.
func isBlank(query string) bool { return strings.TrimSpace(query) == "" }
