package mem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"os"
	"slices"
	"time"

	"zino/services/mem/index"
	"zino/services/mem/store"
)

// catalog describes the memories of a file without their texts: the offset of each
// element, and an index of the words.
type catalog struct {
	file       *os.File // nil: the file does not exist
	end        int64    // all elements before this offset have been added
	index      *index.Index
	docs       []doc // by id
	names      names
	first      map[fingerprint]int32 // the first memory with this fingerprint
	duplicates int                   // memories whose fingerprint an earlier one has
	salvaged   map[int][]byte        // elements of a damaged file that cannot be repaired, by id

	elements int    // number of elements added
	saved    int    // number of elements in the snapshot
	skipped  int    // number of elements that are not memories
	reason   string // why the first of them was skipped
}

type doc struct {
	at       int64 // offset of the element in the file
	size     uint32
	sum      uint32 // checksum of the element, to detect changes by other programs
	created  int64
	tag      uint32 // index into names.list, as is channel
	channel  uint32
	print    fingerprint
	occupied bool // false for the id of a deleted or skipped memory
}

// names interns the tags and channels, which many memories share.
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
		first: map[fingerprint]int32{}, salvaged: map[int][]byte{},
	}
}

// parsed is the result of parse.
type parsed struct {
	element
	place doc
	err   error  // why it is not a memory
	line  []byte // the element, if it was salvaged and is not in the file
}

// parse parses an element at an offset in the file, or a salvaged one if at is
// negative.
func parse(line []byte, at int64) parsed {
	p := parsed{place: doc{at: at, size: uint32(len(line)), sum: crc32.Checksum(line, castagnoli)}}
	if at < 0 {
		p.line = line
	}
	if p.element, p.err = parseElement(line); p.err == nil && p.kind != isDeletion {
		p.place.print, p.place.created, p.place.occupied = p.fingerprint(), p.created, true
	}
	if string(line) == "null" { // other programs delete an element this way
		p.err = errEmpty
	}
	return p
}

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errEmpty   = errors.New("an empty place")
)

// add adds the next element. An element that is not a memory uses up an id, but
// cannot be found.
func (c *catalog) add(p parsed) {
	c.elements++
	switch {
	case p.err == nil && p.kind != isMemory:
		if !c.has(p.id) {
			c.skip(fmt.Sprintf("element %d changes memory %d, which is not there", c.elements-1, p.id))
			return
		}
		c.remove(p.id)
		if p.kind == isUpdate {
			c.put(p.id, p)
		}
		return
	case p.err == nil:
		c.docs = append(c.docs, doc{})
		c.put(len(c.docs)-1, p)
		return
	case p.err != errEmpty:
		c.skip(fmt.Sprintf("entry %d is skipped: %v", len(c.docs), p.err))
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

// problem describes the elements that were skipped.
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
		c.salvaged[id] = p.line
	}
	if p.replacedBy == nil {
		c.index.Put(id, p.text)
	}
	c.number(id)
}

// remove removes a memory. Its id is not used again.
func (c *catalog) remove(id int) {
	print := c.docs[id].print
	c.docs[id] = doc{}
	delete(c.salvaged, id)
	c.index.Delete(id)
	if int(c.first[print]) != id {
		c.duplicates--
		return
	}
	delete(c.first, print)
	if c.duplicates == 0 {
		return
	}
	for i := range c.docs {
		if c.docs[i].occupied && c.docs[i].print == print {
			c.first[print] = int32(i)
			c.duplicates--
			return
		}
	}
}

// match returns a function that reports whether a memory passes a filter.
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

// ref is a reference to a stored memory, which stays readable when the catalog
// changes.
type ref struct {
	id   int
	doc  doc
	file *os.File
	line []byte // the element, if it was salvaged
}

func (c *catalog) ref(id int) ref { return ref{id, c.docs[id], c.file, c.salvaged[id]} }

// errMoved is returned if the file no longer matches the catalog.
var errMoved = errors.New("the file was changed by another program while it was read")

// read returns the element of a memory.
func (r ref) read() ([]byte, error) {
	if r.line != nil {
		return r.line, nil
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

// step is the precision of the reported scores.
const step = 1e-4

// hit is a search result whose memory has not been read yet.
type hit struct {
	ref
	score float64
	words []store.Share
}

// Search finds the memories nearest to a query.
func (m *memories) Search(_ context.Context, q store.Query) (results []store.Result, err error) {
	if q.K <= 0 || isBlank(q.Text) {
		return nil, nil
	}
	var hits []hit
	err = m.reading(func(c *catalog) { hits = c.search(q) }, func() error {
		results, err = read(hits, q.Room)
		return err
	})
	return results, err
}

// read reads the memories of the hits. With room > 0 it returns store.ErrTooLarge
// if they need more bytes in a reply.
func read(hits []hit, room int) (results []store.Result, err error) {
	size := 0
	for _, h := range hits {
		r := store.Result{Score: h.score, Words: h.words}
		if r.Memory, err = h.memory(); err != nil {
			return nil, err
		}
		size += len(r.Messages) + len(r.Tag) + around
		for _, w := range r.Words {
			size += len(w.Word) + around
		}
		if room > 0 && size > room {
			return nil, store.ErrTooLarge
		}
		results = append(results, r)
	}
	return results, nil
}

// around is an upper bound of the bytes of the keys and numbers of a result.
const around = 64

func (c *catalog) search(q store.Query) (hits []hit) {
	for _, h := range c.index.Search(index.Query{Text: q.Text, K: q.K, MinScore: q.MinScore - step/2, Match: c.match(q.Filter)}) {
		f := hit{ref: c.ref(h.ID), score: rounded(h.Score)}
		if f.score < q.MinScore {
			continue
		}
		if q.Explain {
			f.words = shares(c.index.Explain(q.Text, h.ID), f.score)
		}
		hits = append(hits, f)
	}
	// Rounding can make scores equal: the most recent memory comes first.
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.id, a.id)) })
	return hits
}

// rounded rounds a score to a multiple of step, above 0 and below 1.
func rounded(score float64) float64 {
	return min(max(math.Round(score/step), 1), 1/step-1) / (1 / step)
}

// shares rounds the words' shares of a score such that their sum is the score, and
// leaves out those that become 0.
func shares(list []index.Explanation, score float64) []store.Share {
	sum := 0.0
	for _, e := range list {
		sum += e.Weight
	}
	var words []store.Share
	exact, sofar := 0.0, 0.0
	for _, e := range list {
		exact += e.Weight / sum * score / step
		if until := math.Round(exact); until > sofar {
			words = append(words, store.Share{Word: e.Word, Share: (until - sofar) / (1 / step), As: e.As})
			sofar = until
		}
	}
	return words
}

// page is the number of memories that Scan reads at a time.
const page = 64

// Scan iterates over the memories, the newest first.
func (m *memories) Scan(ctx context.Context, f store.Filter) iter.Seq2[store.Memory, error] {
	return func(yield func(store.Memory, error) bool) {
		for {
			list, err := m.page(f)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(store.Memory{}, err)
				return
			}
			for _, v := range list {
				if !yield(v, nil) {
					return
				}
				f.Before = &v.ID
			}
			if len(list) < page {
				return
			}
		}
	}
}

// page reads the next memories that pass a filter.
func (m *memories) page(f store.Filter) (list []store.Memory, err error) {
	var refs []ref
	err = m.reading(func(c *catalog) { refs = c.newest(f, page) }, func() error {
		list = list[:0]
		for _, r := range refs {
			v, err := r.memory()
			if err != nil {
				return err
			}
			list = append(list, v)
		}
		return nil
	})
	return list, err
}

// newest returns the n newest memories that pass a filter, the newest first.
func (c *catalog) newest(f store.Filter, n int) (refs []ref) {
	last := len(c.docs)
	if f.Before != nil {
		last = min(last, *f.Before)
	}
	match := c.match(f)
	for id := last - 1; id >= 0 && len(refs) < n; id-- {
		if match(id) {
			refs = append(refs, c.ref(id))
		}
	}
	return refs
}
