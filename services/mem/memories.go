package mem

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"zino/pkg/durable"
	"zino/pkg/heap"
	"zino/services/mem/store"
)

const hardFile = "hard_memories.json"

// memories is the embedded store.Store, with the hard memories in one file. Every
// request first updates the catalog from the file, so that several processes may
// share it.
type memories struct {
	root     *os.Root
	entries  *durable.File
	problems *problems
	log      *slog.Logger
	now      func() time.Time
	changes  durable.Group[*change]
	work     sync.WaitGroup
	least    int // minimum number of elements for a snapshot

	turn   sync.Mutex // locked to update the catalog; acquired before the file's lock
	mark   durable.Mark
	saving bool // a snapshot is being written

	mu      sync.RWMutex // guards what follows; acquired after the file's lock
	catalog *catalog
	seen    durable.Version // of the file when the catalog was updated
	ready   bool            // the file has been read once
	closed  bool
}

var _ store.Store = (*memories)(nil)

// openMemories opens the memories of a directory and starts to read them in the
// background.
func openMemories(root *os.Root, p *problems, noSync bool) *memories {
	m := &memories{root: root, problems: p, log: p.log, now: time.Now, least: snapshotLeast, catalog: newCatalog(nil)}
	m.entries = durable.New(root, hardFile, durable.Options{Framing: durable.Array, KeepOpen: true, NoSync: noSync, Report: p.reporter(root, ""), IsElement: isElement})
	m.work.Go(func() {
		if err := m.refresh(); err != nil && !errors.Is(err, errClosed) {
			m.log.Error(fileError("hard memories", filepath.Join(root.Name(), hardFile), err).Error()) // not fatal: histories do not need the memories
		}
		m.mu.Lock()
		m.ready = true
		many := m.catalog.elements >= snapshotLeast
		m.mu.Unlock()
		if many {
			heap.Release() // reading needs more memory than serving
		}
	})
	return m
}

var errClosed = errors.New("the memories were closed")

// Close waits for the background work and closes the files.
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

// Len returns the number of memories that are not replaced.
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

// reading updates the catalog, calls pick with the catalog locked, and then read
// without the lock. If read returns errMoved, because another program has changed
// the file, reading tries again.
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

// attempts limits the retries while other programs change the file.
const attempts = 3

// forget makes the next refresh read the whole file.
func (m *memories) forget() {
	m.turn.Lock()
	defer m.turn.Unlock()
	m.mark = durable.Mark{}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = durable.Version{}
}

// memory reads the memory from the file.
func (r ref) memory() (store.Memory, error) {
	line, err := r.read()
	if err != nil {
		return store.Memory{}, err
	}
	e, err := parseElement(line)
	if err != nil {
		return store.Memory{}, errMoved
	}
	found := store.Memory{ID: r.id, Messages: e.messages, Tag: e.tag, Channel: e.channel, Session: e.session, ReplacedBy: e.replacedBy}
	if e.created != noTime {
		found.Created = time.Unix(e.created, 0).UTC()
	}
	return found, nil
}

// refresh updates the catalog from the file. It does not lock an unchanged file.
func (m *memories) refresh() error {
	m.mu.RLock()
	seen := m.seen
	m.mu.RUnlock()
	if m.entries.Unchanged(seen) {
		return nil
	}
	m.turn.Lock()
	defer m.turn.Unlock()
	if m.entries.Unchanged(m.seen) { // another request has updated the catalog
		return nil
	}
	return m.catchUp()
}

// catchUp reads up to the present end of the file. It reads without the file's
// lock, because a large file takes seconds.
func (m *memories) catchUp() error {
	for try := 0; ; try++ {
		var p piece
		err := m.entries.View(func(t *durable.Tx) (err error) {
			p, err = m.piece(t)
			return err
		})
		if err == nil {
			err = m.add(p)
		}
		if !errors.Is(err, durable.ErrLayout) || try == attempts {
			return err
		}
		if err := m.entries.View(func(t *durable.Tx) error { return m.repair(t, p) }); err != nil {
			return err
		}
	}
}

// repair repairs the file after ErrLayout, unless it was replaced since p was read.
func (m *memories) repair(t *durable.Tx, p piece) error {
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
			err = m.add(p)
		}
		if !errors.Is(err, durable.ErrLayout) || try == attempts {
			return err
		}
		if err := t.Repair(); err != nil {
			return err
		}
	}
}

// piece is a part of the file that is not in the catalog yet.
type piece struct {
	durable.Span
	file *os.File
}

// piece returns the part of the file that is not in the catalog. add closes the
// file that it opens.
func (m *memories) piece(t *durable.Tx) (p piece, err error) {
	if p.Span, err = t.Span(m.mark); err != nil {
		return p, err
	}
	if p.file = m.catalog.file; p.To > 0 && (p.All || p.file == nil) {
		p.file, err = t.Open()
	}
	return p, err
}

// add reads a piece into the catalog, or a whole file into a new catalog that
// replaces the present one.
func (m *memories) add(p piece) error {
	c := m.catalog
	if p.All {
		c = newCatalog(nil)
		if p.To > 0 {
			c = m.restore(p)
			p.From = c.end
		}
	}
	if err := m.walk(c, p); err != nil {
		m.mark = durable.Mark{} // c may contain a part of the piece
		if p.file != m.catalog.file && p.file != nil {
			err = errors.Join(err, p.file.Close())
		}
		return err
	}
	return m.install(c, p)
}

// walk adds the elements of a piece. It locks the catalog for each of them, so that
// a search does not wait for the whole piece.
func (m *memories) walk(c *catalog, p piece) error {
	for _, line := range p.Salvaged {
		c.add(parse(line, -1))
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
		c.add(next)
		c.end = at + int64(len(elem))
		return nil
	})
}

// install makes c the catalog after piece p was added to it.
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

func isBlank(query string) bool { return strings.TrimSpace(query) == "" }

// change is a requested change and its result.
type change struct {
	kind kind
	entry
	store.Change      // of an update
	replaces     *int // of a memory: the one that it replaces
	id           int  // the memory to update or delete, or the id of the stored one
	err          error
}

// Put stores a memory.
func (m *memories) Put(_ context.Context, v store.Memory) (int, error) { return m.put(v, nil) }

// Replace stores a memory that replaces another.
func (m *memories) Replace(_ context.Context, old int, v store.Memory) (int, error) {
	return m.put(v, &old)
}

// Find finds a duplicate.
func (m *memories) Find(_ context.Context, v store.Memory) (id int, err error) {
	e, err := newEntry(v.Messages, v.Tag)
	if err != nil {
		return 0, err
	}
	e.replacedBy = v.ReplacedBy
	print, known := e.fingerprint(), false
	err = m.reading(func(c *catalog) {
		var first int32
		first, known = c.first[print]
		id = int(first)
	}, nil)
	if err == nil && !known {
		err = store.ErrNotFound
	}
	return id, err
}

func (m *memories) put(v store.Memory, replaces *int) (int, error) {
	e, err := newEntry(v.Messages, v.Tag)
	if err != nil {
		return 0, err
	}
	e.channel, e.session, e.created = v.Channel, v.Session, v.Created.Unix()
	if v.Created.IsZero() {
		e.created = m.now().Unix()
	}
	e.replacedBy = v.ReplacedBy
	c := &change{kind: isMemory, entry: e, replaces: replaces}
	err = m.do(c)
	return c.id, err
}

// Update changes a memory.
func (m *memories) Update(_ context.Context, id int, what store.Change) error {
	if _, err := newEntry(what.Messages, ""); err != nil {
		return err
	}
	return m.do(&change{kind: isUpdate, id: id, Change: what})
}

// Delete deletes a memory.
func (m *memories) Delete(_ context.Context, id int) error {
	return m.do(&change{kind: isDeletion, id: id})
}

// do stores a change; concurrent changes share a commit.
func (m *memories) do(c *change) error {
	err := m.changes.Do(c, m.commit)
	if err == nil {
		err = c.err
	}
	return err
}

// commit stores several changes and sets their errors.
func (m *memories) commit(list []*change) error {
	m.turn.Lock()
	defer m.turn.Unlock()
	if err := m.catchUp(); err != nil {
		return err
	}
	return m.entries.Update(context.Background(), true, func(t *durable.Tx) error {
		if err := m.catchUpLocked(t); err != nil {
			return err
		}
		for len(list) > 0 {
			n := together(list)
			if err := m.write(t, list[:n]); err != nil {
				for _, c := range list {
					c.err = err
				}
				return nil // the changes before are stored
			}
			list = list[n:]
		}
		return nil
	})
}

// together returns the number of leading changes that can be written at once:
// consecutive new memories, or one update, replacement or deletion, which needs all
// changes before it in the catalog.
func together(list []*change) int {
	n := 0
	for n < len(list) && list[n].kind == isMemory && list[n].replaces == nil {
		n++
	}
	return max(n, 1)
}

// write appends changes to the file and reads them back into the catalog, as it
// does with changes of other processes.
func (m *memories) write(t *durable.Tx, list []*change) error {
	var lines [][]byte
	switch {
	case list[0].replaces != nil:
		lines = m.replace(list[0])
	case list[0].kind == isMemory:
		lines = m.number(list)
	default:
		lines = m.revise(list[0])
	}
	if len(lines) == 0 {
		return nil
	}
	if err := t.Append(lines); err != nil {
		return err
	}
	return m.catchUpLocked(t)
}

// number assigns ids to new memories and returns the lines to append. A duplicate
// of a stored memory, or of one in the list, gets its id and no line.
func (m *memories) number(list []*change) (lines [][]byte) {
	added := map[fingerprint]int{}
	for _, c := range list {
		key := c.fingerprint()
		if first, known := m.catalog.first[key]; known {
			c.id = int(first)
			continue
		}
		id, known := added[key]
		if !known {
			id = len(m.catalog.docs) + len(lines)
			added[key] = id
			lines = append(lines, c.line())
		}
		c.id = id
	}
	return lines
}

// replace returns the lines of a new memory and of an update that marks the memory it
// replaces, in this order: after a torn write both are found, and a repeated request
// completes the change.
func (m *memories) replace(c *change) (lines [][]byte) {
	old, err := store.Current(func(id int) (store.Memory, error) {
		if !m.catalog.has(id) {
			return store.Memory{}, store.ErrNotFound
		}
		return m.catalog.ref(id).memory()
	}, *c.replaces)
	if err != nil {
		c.err = err
		return nil
	}
	lines = m.number([]*change{c})
	if c.id == old.ID { // the request is repeated, or changes nothing
		return lines
	}
	line, err := m.catalog.ref(old.ID).read()
	if err != nil {
		c.err = err
		return nil
	}
	e, err := newEntry(old.Messages, old.Tag)
	if err != nil {
		c.err = err
		return nil
	}
	e.replacedBy = &c.id
	return append(lines, e.updateLine(old.ID, clean(line), m.now().Truncate(time.Second)))
}

// revise returns the line of an update or a deletion, or nil if nothing changes.
func (m *memories) revise(c *change) [][]byte {
	if !m.catalog.has(c.id) {
		c.err = store.ErrNotFound
		return nil
	}
	if c.kind == isDeletion {
		return [][]byte{deletionLine(c.id, m.now())}
	}
	line, err := m.updated(c)
	if err != nil {
		c.err = err
	}
	if line == nil {
		return nil
	}
	return [][]byte{line}
}

// updated returns the line of an update, or nil if nothing changes.
func (m *memories) updated(c *change) ([]byte, error) {
	old, err := m.catalog.ref(c.id).read()
	if err != nil {
		return nil, err
	}
	former, err := parseElement(old)
	if err != nil {
		return nil, errors.Join(errMoved, err)
	}
	messages, tag := former.messages, former.tag
	if c.Messages != nil {
		messages = c.Messages
	}
	if c.Tag != nil {
		tag = *c.Tag
	}
	e, err := newEntry(messages, tag)
	if err != nil {
		return nil, err
	}
	e.replacedBy = former.replacedBy
	if first, known := m.catalog.first[e.fingerprint()]; known && int(first) != c.id {
		return nil, &store.DuplicateError{ID: int(first)}
	}
	if tag == former.tag && bytes.Equal(e.messages, former.messages) {
		return nil, nil
	}
	return e.updateLine(c.id, clean(old), m.now().Truncate(time.Second)), nil
}
