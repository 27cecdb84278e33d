package mem

import (
	"bytes"
	"context"
	"errors"
	"time"

	"zino/pkg/durable"
	"zino/services/mem/store"
)

// change is something that is to be stored, with what became of it.
type change struct {
	kind kind
	entry
	store.Change     // of an update
	id           int // of an update or a deletion; of a memory, when it is stored
	err          error
}

// Put stores a memory.
func (m *memories) Put(_ context.Context, v store.Memory) (int, error) {
	e, err := newEntry(v.Messages, v.Tag)
	if err != nil {
		return 0, err
	}
	e.channel, e.session, e.created = v.Channel, v.Session, v.Created.Unix()
	if v.Created.IsZero() {
		e.created = m.now().Unix()
	}
	c := &change{kind: isMemory, entry: e}
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

// do stores a change, together with those of others who come at the same time.
func (m *memories) do(c *change) error {
	err := m.changes.Do(c, m.commit)
	if err == nil {
		err = c.err
	}
	return err
}

// commit stores several changes. Each of them learns of its own errors.
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
				return nil // those before are stored
			}
			list = list[n:]
		}
		return nil
	})
}

// together is how many changes from the first on can be written at once: new
// memories. What changes one must see what came before.
func together(list []*change) int {
	n := 0
	for n < len(list) && list[n].kind == isMemory {
		n++
	}
	return max(n, 1)
}

// write appends what changes say. What was appended is read back like anybody
// else's: one way in.
func (m *memories) write(t *durable.Tx, list []*change) error {
	var lines [][]byte
	if list[0].kind == isMemory {
		lines = m.number(list)
	} else {
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

// number gives ids to memories that are to be stored, and returns the lines of
// those that are new. What is there already, or stands twice among them, is
// not stored again.
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

// revise returns the line of a change of a memory, none if there is nothing to
// change.
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

// updated is the line of an update.
func (m *memories) updated(c *change) ([]byte, error) {
	old, err := m.catalog.ref(c.id).read()
	if err != nil {
		return nil, err
	}
	was, err := parseElement(old)
	if err != nil {
		return nil, errors.Join(errMoved, err)
	}
	messages, tag := was.messages, was.tag
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
	if first, known := m.catalog.first[e.fingerprint()]; known && int(first) != c.id {
		return nil, &store.DuplicateError{ID: int(first)}
	}
	if tag == was.tag && bytes.Equal(e.messages, was.messages) {
		return nil, nil
	}
	return e.updateLine(c.id, clean(old), m.now().Truncate(time.Second)), nil
}
