// Package index finds texts by their words: an exact TF-IDF index in which adding
// or deleting a document costs as much as its own words.
//
// The score of a document is the cosine of its vector and the query's. A term
// that stands tf times in a text weighs (1 + ln tf) · (ln((1+N)/(1+df)) + 1)
// there, where N counts the documents and df those that have the term. So every
// term counts, a rare one counts more, and one that stands everywhere does not
// dominate. Words of the query that no document has make
// the query's vector longer; a score is 1 only where both vectors point the
// same way.
//
// Every score is as if all weights were computed again, although adding or
// deleting a document changes the weights of all others. That is
// affordable because the second factor above is a number for N, the same for
// all terms, less a number for the term, ln(1+df), which moves little where
// it would be expensive to follow. What is cached of a document's length (see
// norm) lets N move freely and is refreshed when a term's number has moved
// by more than drift. Bounds from cached lengths then choose candidates, and
// only the scores of the best candidates are computed, from exact weights.
//
// github.com/james-bowman/nlp, the field's package for such vectors, is the
// oracle of the nested module in oracle/ (make oracle): its pipeline must be
// fitted again for every document that is added, its weight is not a number
// when there is only one, and it is 20 times the size of this package.
package index

import (
	"fmt"
	"slices"
	"sync"
)

// Index holds documents by id. It is not safe for concurrent writes; methods
// that only read may run side by side with each other.
type Index struct {
	numbers map[string]uint32 // of the terms
	terms   []term            // by number
	free    []uint32          // numbers of terms that are not in use any more
	docs    [][]post          // by id: the terms, by number; nil where there is no document
	norms   []norm            // by id
	live    int               // documents, the N of the formula
	large   map[place]int     // counts of many and more

	known known
	split splitter
	found []uint32  // numbers of the terms of the text that is put
	pool  sync.Pool // of *scratch, for searches
}

// New returns an index without documents.
func New() *Index {
	x := &Index{numbers: map[string]uint32{}, known: known{}}
	x.split.emit = func(w word) { x.found = append(x.found, x.term(w)) }
	x.pool.New = func() any { return new(scratch) }
	return x
}

// Len is the number of documents.
func (x *Index) Len() int { return x.live }

// Put stores a text as the document id, in place of the one that had the id.
// The space that the index takes grows with the largest id, so ids should
// follow each other. It panics if id is below 0 or above MaxID.
func (x *Index) Put(id int, text string) {
	if id < 0 || id > MaxID {
		panic(fmt.Sprintf("index: document id %d is not within 0 and %d", id, MaxID))
	}
	x.Delete(id)
	x.found = x.found[:0]
	x.split.split(text)
	if missing := id + 1 - len(x.docs); missing > 0 {
		x.docs = append(x.docs, make([][]post, missing)...)
		x.norms = append(x.norms, make([]norm, missing)...)
	}
	x.docs[id] = x.document(uint32(id), x.found)
	x.live++
	for _, p := range x.docs[id] {
		x.terms[p.key()].insert(post(id)<<countBits | p.count())
		x.moved(p.key())
	}
	x.norms[id] = x.norm(uint32(id))
}

// Delete removes the document id and reports whether there was one.
func (x *Index) Delete(id int) bool {
	if id < 0 || id >= len(x.docs) || x.docs[id] == nil {
		return false
	}
	doc := x.docs[id]
	x.docs[id], x.norms[id] = nil, norm{}
	x.live--
	for _, p := range doc {
		x.terms[p.key()].remove(uint32(id))
		x.forgetCount(uint32(id), p)
		x.moved(p.key())
	}
	return true
}

// document counts terms, which it sorts. The result is never nil.
func (x *Index) document(id uint32, numbers []uint32) []post {
	slices.Sort(numbers)
	distinct := 0
	for i, n := range numbers {
		if i == 0 || n != numbers[i-1] {
			distinct++
		}
	}
	doc := make([]post, 0, distinct)
	for i := 0; i < len(numbers); {
		n, from := numbers[i], i
		for i < len(numbers) && numbers[i] == n {
			i++
		}
		doc = append(doc, post(n)<<countBits|x.keepCount(id, n, i-from))
	}
	return doc
}
