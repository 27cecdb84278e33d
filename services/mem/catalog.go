package mem

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"time"

	"zino/services/mem/index"
	"zino/services/mem/store"
)

// catalog is all that is known of the memories in a file but their texts: of
// each the place where it stands, and an index of their words.
type catalog struct {
	file  *os.File // nil if there is none
	end   int64    // what stands before it has been taken in
	index *index.Index
	docs  []doc // by id
	names names
	first map[fingerprint]int32 // the first memory with this fingerprint
	twins int                   // memories that were not the first
	held  map[int][]byte        // elements that stand in no file, by id

	elements int // that were taken in
	saved    int // of these are in the snapshot
	skipped  int // that are no memories
	reason   string
}

// doc is what is known of a memory.
type doc struct {
	at       int64 // where its element stands in the file
	size     uint32
	sum      uint32 // of the element: another program may have written there
	created  int64
	tag      uint32 // numbers of names
	channel  uint32
	print    fingerprint
	occupied bool // it is a memory: the place of a deleted one stays empty
}

// names numbers the tags and channels, of which many memories share few.
type names struct {
	numbers map[string]uint32
	list    []string
}

func (n *names) number(name string) uint32 {
	i, known := n.numbers[name]
	if !known {
		i = uint32(len(n.list))
		n.numbers[name] = i
		n.list = append(n.list, name)
	}
	return i
}

func newCatalog(file *os.File) *catalog {
	return &catalog{
		file: file, index: index.New(), names: names{numbers: map[string]uint32{}},
		first: map[fingerprint]int32{}, held: map[int][]byte{},
	}
}

// parsed is an element on its way into the catalog.
type parsed struct {
	element
	place doc
	none  error  // why it is no memory
	line  []byte // if it stands in no file
}

// parse reads an element that stands at a place in the file, or in none if
// that is below 0.
func parse(line []byte, at int64) parsed {
	p := parsed{place: doc{at: at, size: uint32(len(line)), sum: crc32.Checksum(line, castagnoli)}}
	if at < 0 {
		p.line = line
	}
	if p.element, p.none = parseElement(line); p.none == nil && p.kind != isDeletion {
		p.place.print, p.place.created, p.place.occupied = p.fingerprint(), p.created, true
	}
	if string(line) == "null" { // the way in which other programs delete
		p.none = errEmpty
	}
	return p
}

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errEmpty   = errors.New("an empty place")
)

// take takes in the next element. What is no memory keeps its place and
// cannot be found.
func (c *catalog) take(p parsed) {
	c.elements++
	switch {
	case p.none == nil && p.kind != isMemory:
		if !c.has(p.id) {
			c.skip(fmt.Sprintf("element %d changes memory %d, which is not there", c.elements-1, p.id))
			return
		}
		c.remove(p.id)
		if p.kind == isUpdate {
			c.put(p.id, p)
		}
		return
	case p.none == nil:
		c.docs = append(c.docs, doc{})
		c.put(len(c.docs)-1, p)
		return
	case p.none != errEmpty:
		c.skip(fmt.Sprintf("entry %d is left out: %v", len(c.docs), p.none))
	}
	if p.kind == isMemory {
		c.docs = append(c.docs, doc{})
	}
}

func (c *catalog) skip(reason string) {
	if c.skipped++; c.skipped == 1 {
		c.reason = reason
	}
}

// problem is what a person should know of the elements that were left out.
func (c *catalog) problem() string {
	switch c.skipped {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("%s: %s: repair or delete it", hardFile, c.reason)
	}
	return fmt.Sprintf("%s: %s: repair or delete it (and %d more)", hardFile, c.reason, c.skipped-1)
}

func (c *catalog) has(id int) bool { return id >= 0 && id < len(c.docs) && c.docs[id].occupied }

func (c *catalog) put(id int, p parsed) {
	d := p.place
	d.tag, d.channel = c.names.number(p.tag), c.names.number(p.channel)
	c.docs[id] = d
	if p.line != nil {
		c.held[id] = p.line
	}
	c.index.Put(id, p.text)
	c.number(id)
}

// remove leaves the place of a memory empty.
func (c *catalog) remove(id int) {
	print := c.docs[id].print
	c.docs[id] = doc{}
	delete(c.held, id)
	c.index.Delete(id)
	if int(c.first[print]) != id {
		c.twins--
		return
	}
	delete(c.first, print)
	if c.twins == 0 {
		return
	}
	for i := range c.docs {
		if c.docs[i].occupied && c.docs[i].print == print {
			c.first[print] = int32(i)
			c.twins--
			return
		}
	}
}

// match returns a function that tells which memories pass a filter.
func (c *catalog) match(f store.Filter) func(id int) bool {
	tag, tagKnown := c.names.numbers[f.Tag]
	channel, channelKnown := c.names.numbers[f.Channel]
	return func(id int) bool {
		d := &c.docs[id]
		created := time.Unix(d.created, 0)
		switch {
		case !d.occupied, f.Before != nil && id >= *f.Before:
			return false
		case f.Tag != "" && (!tagKnown || d.tag != tag), f.Channel != "" && (!channelKnown || d.channel != channel):
			return false
		case f.Since.IsZero() && f.Until.IsZero():
			return true
		}
		return d.created != noTime && !created.Before(f.Since) && (f.Until.IsZero() || created.Before(f.Until))
	}
}

// ref is where a memory can be read, also after the catalog has gone on.
type ref struct {
	id   int
	doc  doc
	file *os.File
	held []byte
}

func (c *catalog) ref(id int) ref { return ref{id, c.docs[id], c.file, c.held[id]} }

// errMoved says that the file is not what the catalog knows.
var errMoved = errors.New("the file was changed by another program while it was read")

// read returns the element of a memory.
func (r ref) read() ([]byte, error) {
	if r.held != nil {
		return r.held, nil
	}
	line := make([]byte, r.doc.size)
	n, err := r.file.ReadAt(line, r.doc.at)
	if errors.Is(err, os.ErrClosed) || n == len(line) && crc32.Checksum(line, castagnoli) != r.doc.sum {
		return nil, errMoved
	}
	if n < len(line) {
		return nil, errors.Join(errMoved, err)
	}
	return line, nil
}
