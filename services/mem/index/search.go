package index

import (
	"cmp"
	"math"
	"slices"
)

// Query is what to search for.
type Query struct {
	Text     string
	K        int     // the most hits; 0 or less: nothing is found
	MinScore float64 // results with a lower score are left out
	// Match, if set, selects the documents that may be hits. It may be called more
	// than once for an id, and is not called for those that cannot be hits.
	Match func(id int) bool
}

// Hit is a document that was found.
type Hit struct {
	ID    int
	Score float64 // above 0 to 1
}

// Search returns the best documents, best first, of those with equal scores
// the one with the largest id first. A query without words finds nothing.
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

// search is a search under way. It walks the lists of the query's terms, from
// the shortest to the longest, adds up what each gives to the documents in
// it, and stops as soon as the long lists cannot change which the best are.
type search struct {
	x *Index
	q Query
	vector
	*scratch
	floor float64 // the K-th best document has this score or a better one
	read  int     // posts since the floor was raised
}

// scratch is what a search needs in memory. All of dots is 0 between searches.
type scratch struct {
	dots    []float64 // by id: the score as far as it is known, times the length of the document
	reached []uint32  // documents whose dots are not 0
	order   []part
	rests   []float64 // by place in order: what the terms from there on can at most add to a score
	best    top
	bounds  []bound
}

// bound is the best score that a document can have.
type bound struct {
	id    uint32
	score float64
}

// slack is added where a bound is compared: for rounding.
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

func (s *search) df(p part) int { return len(s.x.terms[p.number].posts) }

// limit finds the rests: the length of that part of the query, because the
// vector of a document has the length 1.
func (s *search) limit() {
	s.rests = slices.Grow(s.rests[:0], len(s.order))[:len(s.order)]
	sum := 0.0
	for i := len(s.order) - 1; i >= 0; i-- {
		sum += s.order[i].size * s.order[i].size
		s.rests[i] = math.Sqrt(sum)
	}
}

// gather leaves the documents that can be hits in reached. It returns what
// the terms that it did not need can at most add to their scores.
func (s *search) gather() (rest float64) {
	closed := false // no document can be a hit that was not reached
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

// costOfScore is how many posts can be read in the time that one exact score
// takes.
const costOfScore = 50

// reach adds a term's part to the documents that have it.
func (s *search) reach(p part) {
	factor := p.size * p.idf
	s.read += s.df(p)
	for _, post := range s.x.terms[p.number].posts {
		id := post.key()
		if s.dots[id] == 0 {
			s.reached = append(s.reached, id)
		}
		s.dots[id] += factor * s.x.weight(id, p.number, post.count())
	}
}

// deepen does so for documents that were reached before.
func (s *search) deepen(p part) {
	factor := p.size * p.idf
	s.read += s.df(p)
	for _, post := range s.x.terms[p.number].posts {
		if id := post.key(); s.dots[id] != 0 {
			s.dots[id] += factor * s.x.weight(id, p.number, post.count())
		}
	}
}

// cosine is the part of a document's score that is known, within 1-drift and
// 1+drift of it.
func (s *search) cosine(id uint32) float64 {
	return s.dots[id] / math.Sqrt(s.x.norms[id].square(s.level))
}

// above reports whether cosine is above a score, which is not below 0. It is
// cheaper.
func (s *search) above(id uint32, score float64) bool {
	dot := s.dots[id]
	return dot > 0 && dot*dot > score*score*s.x.norms[id].square(s.level)
}

// matches reports whether a document may be a hit. It removes one that may not.
func (s *search) matches(id uint32) bool {
	if s.q.Match == nil || s.q.Match(int(id)) {
		return true
	}
	s.dots[id] = math.Inf(-1)
	return false
}

// raise raises the floor to the K-th best known score.
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

// prune drops the documents that cannot be hits. Terms that are not added yet
// add rest at most.
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

// rank computes the scores of the documents that were reached, those with the
// best bounds first, until no other can be among the best.
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

// top holds the best hits. When there are as many as are wanted it is a heap
// with the worst of them in front.
type top []Hit

// offer keeps h if it is among the k best so far.
func (t *top) offer(h Hit, k int) {
	switch {
	case len(*t) < k:
		if *t = append(*t, h); len(*t) == k {
			for i := k/2 - 1; i >= 0; i-- {
				t.sink(i)
			}
		}
	case compareHits(h, (*t)[0]) < 0:
		(*t)[0] = h
		t.sink(0)
	}
}

// sink moves the hit at i below those that are worse.
func (t top) sink(i int) {
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

// Explanation is what one word of a query adds to a score.
type Explanation struct {
	Word   string  // as it stands in the query, where it stands first
	Weight float64 // above 0; the sum of all is the score
}

// Explain returns which words of a query make the score of the document id, those
// that add most first. The result is empty if there is no such document, or if it
// shares no word with the query.
func (x *Index) Explain(text string, id int) []Explanation {
	if id < 0 || id >= len(x.docs) {
		return nil
	}
	weights := x.shares(text, uint32(id))
	var list []Explanation
	split(text, func(w word) {
		n, known, _ := x.lookup(w)
		if share := weights[n]; known && share > 0 {
			list = append(list, Explanation{text[w.from:w.to], share})
			delete(weights, n)
		}
	})
	slices.SortStableFunc(list, func(a, b Explanation) int { return cmp.Compare(b.Weight, a.Weight) })
	return list
}

// shares is what each term of a query adds to the score of a document.
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
