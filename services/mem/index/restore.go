package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"
)

// ErrStale is returned by Restore for a snapshot that is not damaged as far as
// it was read, but of another version of this package or with another stamp.
var ErrStale = errors.New("the index snapshot is of another version or of other texts; build the index anew")

// Restore reads what Snapshot wrote with the same stamp, up to the end of r. It
// takes memory in proportion to what it reads. An error means that the texts
// must be put again.
func Restore(r io.Reader, stamp []byte) (*Index, error) {
	body, err := readBody(r, stamp)
	if err != nil {
		return nil, err
	}
	x, d := New(), decoder{rest: body}
	x.restoreTerms(&d)
	x.restoreDocs(&d)
	if d.failed || len(d.rest) > 0 || !x.link() {
		return nil, damaged("what it holds is no index")
	}
	return x, nil
}

func damaged(why string) error {
	return fmt.Errorf("the index snapshot is damaged: %s; build the index anew", why)
}

// decoder reads the body of a snapshot. After a failure it gives zeros.
type decoder struct {
	rest   []byte
	failed bool
}

// number reads a number up to the largest that is possible.
func (d *decoder) number(largest int) int {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 || n > uint64(max(largest, 0)) {
		d.failed, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return int(n)
}

func (d *decoder) string() string {
	n := d.number(len(d.rest))
	s := string(d.rest[:min(n, len(d.rest))])
	d.rest = d.rest[len(s):]
	d.failed = d.failed || len(s) < n || s == "" || !utf8.ValidString(s)
	return s
}

func (x *Index) restoreTerms(d *decoder) {
	count := d.number(len(d.rest) / 2)
	x.terms = make([]term, 0, count)
	for range count {
		name := d.string()
		if _, double := x.numbers[name]; double || d.failed {
			d.failed = true
			return
		}
		x.numbers[name] = uint32(len(x.terms))
		x.terms = append(x.terms, term{name: name})
	}
}

func (x *Index) restoreDocs(d *decoder) {
	count := d.number(min(len(d.rest), MaxID+1))
	x.docs, x.norms = make([][]post, count), make([]norm, count)
	for id := range count {
		if terms := d.number(len(d.rest)/2 + 1); terms > 0 && !d.failed {
			x.docs[id] = x.restoreDoc(d, uint32(id), terms-1)
			x.live++
		}
	}
}

func (x *Index) restoreDoc(d *decoder, id uint32, terms int) []post {
	if d.failed = terms > len(x.terms); d.failed {
		return nil
	}
	doc, number := make([]post, 0, terms), 0
	for i := range terms {
		step := d.number(len(x.terms) - 1 - number)
		count := d.number(math.MaxInt32)
		if d.failed || i > 0 && step == 0 || count == 0 {
			d.failed = true
			return nil
		}
		number += step
		doc = append(doc, post(number)<<countBits|x.keepCount(id, uint32(number), count))
	}
	return doc
}

// link builds from the documents what the snapshot does not hold. It reports
// whether every term is in use.
func (x *Index) link() bool {
	df := make([]int, len(x.terms))
	for _, doc := range x.docs {
		for _, p := range doc {
			df[p.key()]++
		}
	}
	for i, n := range df {
		if n == 0 {
			return false
		}
		t := &x.terms[i]
		t.posts, t.log = make([]post, 0, n), logOf(1+n)
		t.cached = t.log
	}
	for id, doc := range x.docs {
		for _, p := range doc {
			t := &x.terms[p.key()]
			t.posts = append(t.posts, post(id)<<countBits|p.count())
		}
		x.norms[id] = x.norm(uint32(id))
	}
	return true
}
