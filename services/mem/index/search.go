package index

import (
	"cmp"
	"math"
	"slices"
)

// Query are the parameters of a search.
type Query struct {
	Text     string
	K        int     // maximum number of hits; with 0 or less there are none
	MinScore float64 // hits with a lower score are left out
	// Match, if set, selects the documents that may be hits. It may be called several
	// times for an id, and only for documents that share a word with the query.
	Match func(id int) bool
}

// Hit is a document that was found.
type Hit struct {
	ID    int
	Score float64 // above 0 to 1
}

// Search returns the best documents, best first, and among equal scores the largest id
// first. A query without words has no hits.
func (x *Index) Search(q Query) []Hit {
	v := x.vector(q.Text)
	if q.K <= 0 || len(v.parts) == 0 {
		return nil
	}
	s := search{x: x, q: q, vector: v, scratch: x.pool.Get().(*scratch)}
	s.begin()
	hits := s.rank(s.gather())
	x.pool.Put(s.scratch)
	return hits
}

// search is the state of a search. It goes through the posting lists of the query's
// terms, from the shortest to the longest, and adds the products of each term to the
// documents in its list. It stops when the remaining lists cannot change which
// documents are the best.
type search struct {
	x *Index
	q Query
	vector
	*scratch
	floor float64 // lower bound of the K-th best score
	read  int     // postings read since the floor was raised
}

// scratch are the buffers of a search, which are reused. Between searches all dots are
// 0.
type scratch struct {
	dots    []float64 // by id: the dot product with the terms so far
	reached []uint32  // the ids of the dots that are not 0
	order   []part    // the terms, those with the shortest lists first
	rests   []float64 // by index in order: upper bound of what the terms from there add
	best    top
	bounds  []bound
}

// bound is an upper bound of a document's score.
type bound struct {
	id    uint32
	score float64
}

// slack is added to bounds, for rounding errors.
const slack = 1e-9

func (s *search) begin() {
	if missing := len(s.x.docs) - len(s.dots); missing > 0 {
		s.dots = append(s.dots, make([]float64, missing)...)
	}
	s.order = append(s.order[:0], s.parts...)
	slices.SortFunc(s.order, func(a, b part) int { return s.df(a) - s.df(b) })
	s.limit()
	s.floor, s.read = max(s.q.MinScore, 0), 0
}

func (s *search) df(p part) int { return len(s.x.terms[p.number].postings) }

// limit computes rests. The vector of a document has length 1, so the bound is the
// length of this part of the query.
func (s *search) limit() {
	s.rests = slices.Grow(s.rests[:0], len(s.order))[:len(s.order)]
	sum := 0.0
	for i := len(s.order) - 1; i >= 0; i-- {
		sum += s.order[i].size * s.order[i].size
		s.rests[i] = math.Sqrt(sum)
	}
}

// gather collects the documents that can be hits in reached. It returns an upper bound
// of what the terms that it skipped add to their scores.
func (s *search) gather() (rest float64) {
	closed := false // documents that are not in reached cannot be hits
	for i, p := range s.order {
		if rest = s.rests[i]; s.read+s.df(p) >= len(s.reached) {
			s.raise()
			closed = rest+slack < s.floor
			if closed {
				s.prune(rest)
			}
			if closed && len(s.reached)*costOfScore <= s.df(p) {
				return rest
			}
		}
		if closed {
			s.deepen(p)
		} else {
			s.reach(p)
		}
	}
	s.raise()
	s.prune(0)
	return 0
}

// costOfScore is the number of postings that are read in the time of one exact score.
const costOfScore = 50

// reach adds the products of a term to all documents in its list.
func (s *search) reach(p part) {
	factor := p.size * p.idf
	s.read += s.df(p)
	for _, posting := range s.x.terms[p.number].postings {
		id := posting.key()
		if s.dots[id] == 0 {
			s.reached = append(s.reached, id)
		}
		s.dots[id] += factor * s.x.weight(id, p.number, posting.count())
	}
}

// deepen adds the products of a term to the documents in reached alone.
func (s *search) deepen(p part) {
	factor := p.size * p.idf
	s.read += s.df(p)
	for _, posting := range s.x.terms[p.number].postings {
		if id := posting.key(); s.dots[id] != 0 {
			s.dots[id] += factor * s.x.weight(id, p.number, posting.count())
		}
	}
}

// cosine returns the score of a document from the terms so far, with a relative error
// of up to drift.
func (s *search) cosine(id uint32) float64 {
	return s.dots[id] / math.Sqrt(s.x.norms[id].square(s.level))
}

// above reports whether cosine is above a score of at least 0, without computing a
// square root.
func (s *search) above(id uint32, score float64) bool {
	dot := s.dots[id]
	return dot > 0 && dot*dot > score*score*s.x.norms[id].square(s.level)
}

// matches reports whether Match accepts a document. It excludes other documents.
func (s *search) matches(id uint32) bool {
	if s.q.Match == nil || s.q.Match(int(id)) {
		return true
	}
	s.dots[id] = math.Inf(-1)
	return false
}

// raise raises the floor to the K-th best score from the terms so far.
func (s *search) raise() {
	s.best, s.read = s.best[:0], 0
	if len(s.reached) < s.q.K {
		return
	}
	floor := s.floor / (1 - drift)
	for _, id := range s.reached {
		if !s.above(id, floor) || !s.matches(id) {
			continue
		}
		s.best.offer(Hit{int(id), s.cosine(id) * (1 - drift)}, s.q.K)
		if len(s.best) == s.q.K {
			s.floor = max(s.floor, s.best[0].Score)
			floor = s.floor / (1 - drift)
		}
	}
}

// prune removes the documents that cannot be hits. rest is the upper bound of what the
// remaining terms add.
func (s *search) prune(rest float64) {
	least := (s.floor - rest - slack) / (1 + drift)
	if least <= 0 {
		return
	}
	kept := s.reached[:0]
	for _, id := range s.reached {
		if s.above(id, least) {
			kept = append(kept, id)
		} else {
			s.dots[id] = 0
		}
	}
	s.reached = kept
}

// rank computes the exact scores of the documents in reached, in the order of their
// bounds, until the bounds of the others are below the K-th best score.
func (s *search) rank(rest float64) []Hit {
	s.bounds = s.bounds[:0]
	for _, id := range s.reached {
		if s.dots[id] > 0 && s.matches(id) {
			s.bounds = append(s.bounds, bound{id, s.cosine(id)*(1+drift) + rest + slack})
		}
		s.dots[id] = 0
	}
	s.reached = s.reached[:0]
	if len(s.bounds) > s.q.K {
		slices.SortFunc(s.bounds, func(a, b bound) int { return cmp.Compare(b.score, a.score) })
	}
	s.best = s.best[:0]
	for _, b := range s.bounds {
		if len(s.best) == s.q.K && b.score < s.best[0].Score {
			break
		}
		if h := (Hit{int(b.id), s.x.score(&s.vector, b.id)}); h.Score >= s.q.MinScore {
			s.best.offer(h, s.q.K)
		}
	}
	hits := slices.Clone(s.best)
	slices.SortFunc(hits, compareHits)
	return hits
}

// compareHits orders hits best first.
func compareHits(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.ID, a.ID))
}

// top contains the k best hits. With k hits it is a heap with the worst hit first.
type top []Hit

// offer adds h if it is among the k best so far.
func (t *top) offer(h Hit, k int) {
	switch {
	case len(*t) < k:
		if *t = append(*t, h); len(*t) == k {
			for i := k/2 - 1; i >= 0; i-- {
				t.siftDown(i)
			}
		}
	case compareHits(h, (*t)[0]) < 0:
		(*t)[0] = h
		t.siftDown(0)
	}
}

// siftDown restores the order of the heap below i.
func (t top) siftDown(i int) {
	for {
		worst := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(t); child++ {
			if compareHits(t[child], t[worst]) > 0 {
				worst = child
			}
		}
		if worst == i {
			return
		}
		t[i], t[worst] = t[worst], t[i]
		i = worst
	}
}

// Explanation is the share of one word of a query in a score.
type Explanation struct {
	Word   string  // as in the query, where it occurs first
	Weight float64 // above 0; the sum of all is the score
}

// Explain returns the shares of the query's words in the score of a document, largest
// first. The result is empty if the document does not exist or shares no word with the
// query.
func (x *Index) Explain(text string, id int) []Explanation {
	if id < 0 || id >= len(x.docs) {
		return nil
	}
	weights := x.shares(text, uint32(id))
	var list []Explanation
	Split(text, func(w Word) {
		n, known, _ := x.lookup(w)
		if share := weights[n]; known && share > 0 {
			list = append(list, Explanation{text[w.From:w.To], share})
			delete(weights, n)
		}
	})
	slices.SortStableFunc(list, func(a, b Explanation) int { return cmp.Compare(b.Weight, a.Weight) })
	return list
}

// shares returns what each term of a query adds to the score of a document.
func (x *Index) shares(text string, id uint32) map[uint32]float64 {
	v := x.vector(text)
	sum, shares := 0.0, map[uint32]float64{}
	for _, p := range x.docs[id] {
		number := p.key()
		size := x.weight(id, number, p.count()) * (v.level - x.terms[number].log)
		sum += size * size
		if i, there := v.find(number); there {
			shares[number] = v.parts[i].size * size
		}
	}
	for number := range shares {
		shares[number] /= math.Sqrt(sum)
	}
	return shares
}

func (v *vector) find(number uint32) (int, bool) {
	return slices.BinarySearchFunc(v.parts, number, func(p part, n uint32) int { return cmp.Compare(p.number, n) })
}
