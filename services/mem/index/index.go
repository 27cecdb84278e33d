// Package index ranks texts by the words of a query: an exact index in which adding or
// deleting a document takes time in proportion to its own words.
//
// The formula is BM25 with four additions, each measured on questions and memories of
// assistants: function words weigh less, the form of an English word counts beside its
// stem, the first words of a document count twice, and a prefix stands in for a stem
// that no document has. With N documents, df of which have term t, which occurs tf
// times in document d of length L, whose mean is avg:
//
//	idf(t)    = ln(1 + (N-df+0.5)/(df+0.5))
//	sat(t,d)  = tf / (tf + k1·(1 - b + b·L/avg))
//	part(w,d) = q(w) · (0.8·p(w)·idf(stem)·sat(stem,d) + 0.2·idf(form)·sat(form,d))
//	score(d)  = Σ part(w,d) / Σ full(w)
//
// The sums go over the words w of the query. q is their weight, p is 1, or 0.8 for a
// prefix that stands in. Words that are not plain English letters have no form: their
// part is q·idf·sat. full is the part with every sat 1 and the stem itself.
//
// A score is the part of the query that the document covers, words weighed by their
// rarity; 1 would be every word, many times. Scores are above 0 and below 1. An
// identical short text has about 0.7.
//
// A document keeps its words with their counts and its length, a term the documents
// that contain it. Nothing that depends on other documents is kept, so nothing has to be
// refreshed when one is added or deleted.
//
// The nested module in oracle/ (make oracle) compares the ranking with that of plain
// TF-IDF by github.com/james-bowman/nlp, which is no dependency of Zino.
package index

import (
	"fmt"
	"slices"
	"sync"
)

// Index is a set of documents with ids. Put and Delete must not run concurrently
// with any other method; methods that only read may run concurrently.
type Index struct {
	formula formula
	numbers map[string]uint32 // terms to their numbers
	terms   []term            // by number
	free    []uint32          // numbers of deleted terms, for new ones
	stems   map[int]int       // number of terms that are not forms, by their length in bytes
	docs    [][]posting       // by id: the words, sorted by number; nil if there is no document
	lengths []uint32          // by id
	live    int               // number of documents, the N of the formula
	total   int               // sum of the lengths
	large   map[docTerm]int   // counts that do not fit into a posting

	split splitter
	found []uint32  // scratch of Put: the numbers of the text's words
	name  []byte    // scratch of word
	pool  sync.Pool // of *scratch
}

// New returns an index without documents.
func New() *Index { return newIndex(standard) }

func newIndex(f formula) *Index {
	x := &Index{formula: f, numbers: map[string]uint32{}, stems: map[int]int{}}
	x.split.emit = func(w Word) {
		n, twice := x.word(w), len(x.found) < 2*f.first
		x.found = append(x.found, n)
		if twice {
			x.found = append(x.found, n)
		}
	}
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
		x.lengths = append(x.lengths, make([]uint32, missing)...)
	}
	x.docs[id], x.lengths[id] = x.document(uint32(id), x.found), uint32(len(x.found))
	x.live++
	x.total += len(x.found)
	for _, p := range x.docs[id] {
		x.link(uint32(id), p)
	}
}

// link adds a word of a document to the lists of its form and its stem.
func (x *Index) link(id uint32, p posting) {
	n, count := p.key(), x.count(id, p.key(), p)
	x.terms[n].insert(posting(id)<<countBits|p.count(), count)
	if stem := x.terms[n].stem; stem != n {
		t := &x.terms[stem]
		if at, there := t.find(id); there { // with another form
			count += x.count(id, stem, t.postings[at])
		}
		t.insert(posting(id)<<countBits|x.keepCount(id, stem, count), count)
	}
}

// Delete removes a document and reports whether it existed.
func (x *Index) Delete(id int) bool {
	if id < 0 || id >= len(x.docs) || x.docs[id] == nil {
		return false
	}
	for _, p := range x.docs[id] {
		stem := x.terms[p.key()].stem
		x.unlink(uint32(id), p.key())
		x.unlink(uint32(id), stem)
	}
	x.total -= int(x.lengths[id])
	x.docs[id], x.lengths[id] = nil, 0
	x.live--
	return true
}

// unlink removes a document from the list of a term, if it is there, and a term without
// documents from the index.
func (x *Index) unlink(id, number uint32) {
	t := &x.terms[number]
	at, there := t.find(id)
	if !there {
		return // the form of a word that has none, or another form of the same stem
	}
	if t.postings[at].count() == countMax {
		delete(x.large, docTerm{id, number})
	}
	if t.remove(at); len(t.postings) == 0 {
		x.forget(number)
	}
}

// document sorts the numbers of a text's words and returns them with their counts,
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
