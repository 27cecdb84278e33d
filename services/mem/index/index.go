// Package index ranks texts by the words of a query: an exact TF-IDF index in which
// adding or deleting a document takes time in proportion to its own words.
//
// The score of a document is the cosine of its vector and the query's. The weight
// of a term that occurs tf times in a text is
//
//	(1 + ln tf) · (ln((1+N)/(1+df)) + 1)
//
// where N is the number of documents and df the number of those that contain the
// term. Every term counts, a rare one more, and a term that occurs everywhere does
// not dominate. Words that occur only in the query make its vector longer: a score
// is 1 only if both vectors have the same direction.
//
// Scores are exact, although adding or deleting a document changes N and df and so
// the weights of all other documents. The second factor, the idf, is 1 + ln(1+N),
// which is the same for all terms, less ln(1+df), which changes slowly for the terms
// of many documents. The cached length of a document is a polynomial in the first
// part (see norm), and is refreshed when the second part of one of its terms has
// changed by more than drift. The cached lengths give bounds of the scores, which
// select candidates; the scores of the best candidates are computed from exact
// weights.
//
// The nested module in oracle/ (make oracle) compares the scores with those of
// github.com/james-bowman/nlp. That package is not used here because its pipeline
// must be fitted again for every added document, its weight of a single document is
// NaN, and it is 20 times the size of this one.
package index

import (
	"fmt"
	"slices"
	"sync"
)

// Index is a set of documents with ids. Put and Delete must not run concurrently
// with any other method; methods that only read may run concurrently.
type Index struct {
	numbers map[string]uint32 // terms to their numbers
	terms   []term            // by number
	free    []uint32          // numbers of deleted terms, for new ones
	docs    [][]posting       // by id: the terms, sorted by number; nil if there is no document
	norms   []norm            // by id
	live    int               // number of documents, the N of the formula
	large   map[docTerm]int   // counts that do not fit into a posting

	cache wordCache
	split splitter
	found []uint32  // scratch of Put: the numbers of the text's terms
	pool  sync.Pool // of *scratch
}

// New returns an index without documents.
func New() *Index {
	x := &Index{numbers: map[string]uint32{}, cache: wordCache{}}
	x.split.emit = func(w Word) { x.found = append(x.found, x.term(w)) }
	x.pool.New = func() any { return new(scratch) }
	return x
}

// Len is the number of documents.
func (x *Index) Len() int { return x.live }

// Put adds a text as document id, or replaces that document. The memory of the index
// grows with the largest id, so ids should be consecutive. Put panics if id is
// negative or above MaxID.
func (x *Index) Put(id int, text string) {
	if id < 0 || id > MaxID {
		panic(fmt.Sprintf("index: document id %d is not between 0 and %d", id, MaxID))
	}
	x.Delete(id)
	x.found = x.found[:0]
	x.split.split(text)
	if missing := id + 1 - len(x.docs); missing > 0 {
		x.docs = append(x.docs, make([][]posting, missing)...)
		x.norms = append(x.norms, make([]norm, missing)...)
	}
	x.docs[id] = x.document(uint32(id), x.found)
	x.live++
	for _, p := range x.docs[id] {
		x.terms[p.key()].insert(posting(id)<<countBits | p.count())
		x.moved(p.key())
	}
	x.norms[id] = x.norm(uint32(id))
}

// Delete removes a document and reports whether it existed.
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

// document sorts the numbers of a text's terms and returns them with their counts,
// never nil.
func (x *Index) document(id uint32, numbers []uint32) []posting {
	slices.Sort(numbers)
	distinct := 0
	for i, n := range numbers {
		if i == 0 || n != numbers[i-1] {
			distinct++
		}
	}
	doc := make([]posting, 0, distinct)
	for i := 0; i < len(numbers); {
		n, from := numbers[i], i
		for i < len(numbers) && numbers[i] == n {
			i++
		}
		doc = append(doc, posting(n)<<countBits|x.keepCount(id, n, i-from))
	}
	return doc
}
