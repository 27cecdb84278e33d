package mem

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"zino/pkg/durable"
	"zino/pkg/wire"
	"zino/proto"
)

const hardFile = "hard_memories.json"

// memories are the hard memories: the entries of a file, and an index of them
// that is brought up to date before it is used.
type memories struct {
	entries  *durable.Array
	problems *problems
	replyMax int // bytes of the results in a reply
	stores   durable.Group[*storing]

	mu       sync.Mutex // guards what follows; taken with the file locked, never the other way round
	mark     durable.Mark
	index    *index
	messages [][]byte            // by id: the list as it is sent, nil for an empty place
	ids      map[fingerprint]int // the first memory with these messages and this tag
	skipped  []string            // what is wrong with the entries that were left out
}

// storing is a memory on its way to the file.
type storing struct {
	entry
	id int
}

func newMemories(root *os.Root, p *problems, noSync bool) *memories {
	m := &memories{problems: p, replyMax: frameRoom}
	m.entries = durable.NewArray(root, hardFile, durable.Options{NoSync: noSync, Report: p.reporter(root, ""), IsElement: isEntry})
	m.reset()
	return m
}

func (s *Service) searchHard(_ context.Context, req proto.SearchHard) (proto.HardMemories, error) {
	k := 3
	if req.TopK != nil {
		k = *req.TopK
	}
	results, err := s.memories.search(req.Query, k)
	return proto.HardMemories{Results: results}, err
}

func (s *Service) storeHard(_ context.Context, req proto.StoreHard) (proto.Stored, error) {
	texts, parsed, err := parseMessages(req.Messages)
	if err != nil {
		return proto.Stored{}, invalid(err)
	}
	st := &storing{entry: newEntry(texts, parsed, req.Tag)}
	err = s.memories.stores.Do(st, s.memories.commit)
	if err != nil {
		return proto.Stored{}, fileError("hard memories", hardFile, err)
	}
	return proto.Stored{ID: st.id}, nil
}

// search brings the index up to date and asks it.
func (m *memories) search(query string, k int) ([]proto.HardMemory, error) {
	results := []proto.HardMemory{}
	if k <= 0 || strings.TrimSpace(query) == "" {
		return results, nil
	}
	if err := m.refresh(); err != nil {
		return results, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	size := 0
	for _, h := range m.index.search(query, k) {
		text := m.messages[h.doc]
		// The messages are surrounded by {"messages":…,"score":0.1234}.
		if size += len(text) + 32; size > m.replyMax {
			return nil, &proto.Error{Code: proto.CodeTooLarge, Message: "the memories found are larger than one reply can be (its limit is 16 MiB): ask for fewer with top_k"}
		}
		results = append(results, proto.HardMemory{Messages: text, Score: h.score})
	}
	return results, nil
}

// refresh reads what the file has that the index has not.
func (m *memories) refresh() error {
	if err := m.entries.View(m.readNew); err != nil {
		return fileError("hard memories", hardFile, err)
	}
	return nil
}

// commit stores several memories with one write. What is there already, or
// stands twice among them, is not stored again.
func (m *memories) commit(list []*storing) error {
	return m.entries.Update(func(t *durable.Tx) error {
		if err := m.readNew(t); err != nil {
			return err
		}
		if err := t.Append(m.number(list)); err != nil {
			return err
		}
		// What was appended is read back like anybody else's: one way in.
		return m.readNew(t)
	})
}

// number gives ids to memories that are to be stored, and returns the lines of
// those that are new.
func (m *memories) number(list []*storing) (lines [][]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	added := map[fingerprint]int{}
	for _, st := range list {
		key := st.fingerprint()
		id, known := m.ids[key]
		if !known {
			id, known = added[key]
		}
		if !known {
			id = len(m.messages) + len(lines)
			added[key] = id
			lines = append(lines, st.line(time.Now()))
		}
		st.id = id
	}
	return lines
}

// readNew takes in the entries that were appended since the last time, or all
// of them if the file is another one.
func (m *memories) readNew(t *durable.Tx) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	lines, mark, all, err := t.Since(m.mark)
	if err != nil {
		return err
	}
	if all {
		m.reset()
	}
	m.mark = mark
	for _, line := range lines {
		m.take(line)
	}
	m.problems.set("skipped "+hardFile, some(m.skipped), nil)
	return nil
}

// some is the first of several lines, with the number of the others.
func some(lines []string) string {
	switch len(lines) {
	case 0:
		return ""
	case 1:
		return lines[0]
	}
	return fmt.Sprintf("%s (and %d more)", lines[0], len(lines)-1)
}

func (m *memories) reset() {
	m.index, m.messages, m.ids, m.skipped = newIndex(), nil, map[fingerprint]int{}, nil
}

// take gives a line of the file the next id. What is no memory keeps its place
// and cannot be found; null is the place of a deleted one.
func (m *memories) take(line []byte) {
	id := len(m.messages)
	e, err := parseEntry(clean(line))
	if err != nil {
		m.index.skip()
		m.messages = append(m.messages, nil)
		if string(line) != "null" {
			m.skipped = append(m.skipped, fmt.Sprintf("%s: entry %d is left out: %v: mend or delete it", hardFile, id, err))
		}
		return
	}
	m.index.add(e.text)
	m.messages = append(m.messages, e.messages)
	key := e.fingerprint()
	if _, known := m.ids[key]; !known {
		m.ids[key] = id
	}
}

func (m *memories) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.index.live
}

// entry is a hard memory.
type entry struct {
	messages []byte // the list of messages
	tag      string
	text     string // what is searched: the contents, then the tag
}

// fingerprint tells memories apart: two with the same messages and the same
// tag are one, in whatever order their keys stand.
type fingerprint [16]byte

func newEntry(texts [][]byte, parsed []message, tag string) entry {
	var text strings.Builder
	for _, m := range parsed {
		text.WriteString(m.Content)
		text.WriteByte(' ')
	}
	text.WriteString(tag)
	return entry{messages: listOf(texts), tag: tag, text: text.String()}
}

// parseEntry reads a line of the file. It may have more keys.
func parseEntry(line []byte) (entry, error) {
	var stored struct {
		Messages json.RawMessage `json:"messages"`
		Tag      string          `json:"tag,omitzero"`
	}
	if err := wire.Decode(line, &stored); err != nil {
		return entry{}, err
	}
	texts, parsed, err := parseMessages(stored.Messages)
	return newEntry(texts, parsed, stored.Tag), err
}

func isEntry(line []byte) bool {
	_, err := parseEntry(line)
	return err == nil
}

// line is the entry as it is stored.
func (e entry) line(now time.Time) []byte {
	b := append([]byte(`{"messages":`), e.messages...)
	b = wire.AppendString(append(b, `,"tag":`...), e.tag)
	b = append(b, `,"time":"`...)
	return append(now.UTC().AppendFormat(b, time.RFC3339), `"}`...)
}

func (e entry) fingerprint() fingerprint {
	h := sha256.New()
	fmt.Fprintf(h, "%q", e.tag)
	dec := json.NewDecoder(bytes.NewReader(e.messages))
	dec.UseNumber()
	var value any
	err := dec.Decode(&value)
	if err == nil {
		err = json.NewEncoder(h).Encode(value) // keys come sorted
	}
	if err != nil { // deeper than Go decodes: then the text itself
		h.Write(e.messages)
	}
	return fingerprint(h.Sum(nil)[:16])
}
