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
	Score float64 // above 0 and below 1
}

// Search returns the best documents, best first, and among equal scores the largest id
// first. A query without words has no hits.
func (x *Index) Search(q Query) []Hit {
	if q.K <= 0 {
		return nil
	}
	s := x.begin(q.Text)
	defer s.end()
	s.q, s.floor = q, max(q.MinScore, 0)*s.full
	s.sort()
	return s.rank(s.gather())
}

// search is the state of a search. It goes through the posting lists of the query's
// terms, from the shortest to the longest, and adds what each term gives to the
// documents in its list. It stops when the remaining lists cannot change which
// documents are the best. Sums are not divided by full until the end.
type search struct {
	x *Index
	q Query
	*scratch
	full        float64 // what the words of the query would give if no count mattered
	base, slope float64 // sat is tf/(tf + base + slope·length)
	floor       float64 // lower bound of the K-th best sum
	read        int     // postings read since the floor was raised
}

// clause is a term of the query: the stem or the form of a word.
type clause struct {
	term   uint32
	word   int     // index of the word
	weight float64 // of the term: its sat times this is what it gives
	prefix bool    // the term stands in for the stem
	next   int     // 1 + the index of the next clause with the same term
	count  int     // of the term in the document that clausesOf was called for
}

// scratch are the buffers of a search, which are reused. Between searches all sums and
// firsts are 0.
type scratch struct {
	words   []QueryWord
	clauses []clause  // in the order of the words, the stem before the form
	firsts  []int32   // by term: 1 + the index of its first clause
	touched []int     // indexes of the clauses that a document has
	order   []int     // indexes of the clauses, those with the shortest lists first
	rests   []float64 // by index in order: upper bound of what the clauses from there give
	sums    []float64 // by id: the sum of the clauses so far
	reached []uint32  // the ids of the sums that are not 0
	best    top
	bounds  []bound
}

// bound is an upper bound of a document's sum.
type bound struct {
	id  uint32
	sum float64
}

// begin looks up the words of a query.
func (x *Index) begin(text string) search {
	s := search{x: x, scratch: x.pool.Get().(*scratch)}
	s.words, s.clauses, s.touched = ParseQuery(text), s.clauses[:0], s.touched[:0]
	if x.total == 0 {
		return s
	}
	s.firsts = resized(s.firsts, len(x.terms))
	s.base = x.formula.k1 * (1 - x.formula.b)
	s.slope = x.formula.k1 * x.formula.b * float64(x.live) / float64(x.total)
	for i, w := range s.words {
		if x.formula.literal {
			w = QueryWord{Stem: w.folded, Weight: 1}
		}
		stem, known := x.numbers[w.Stem]
		form, formKnown := x.numbers[w.Form]
		stemIDF, formIDF := x.idf(stem, known), x.idf(form, formKnown)
		s.full += w.Part(stemIDF, formIDF)
		if known {
			s.add(clause{term: stem, word: i, weight: w.Part(stemIDF, 0)})
		} else if stem, known = x.standIn(w); known {
			s.add(clause{term: stem, word: i, weight: w.Part(PrefixFactor*x.idf(stem, true), 0), prefix: true})
		}
		if formKnown {
			s.add(clause{term: form, word: i, weight: w.Part(0, formIDF)})
		}
	}
	return s
}

// resized returns a slice of at least n elements, the new ones 0.
func resized[T any](list []T, n int) []T {
	if missing := n - len(list); missing > 0 {
		list = append(list, make([]T, missing)...)
	}
	return list
}

// add adds a clause.
func (s *search) add(c clause) {
	c.next = int(s.firsts[c.term])
	s.clauses = append(s.clauses, c)
	s.firsts[c.term] = int32(len(s.clauses))
}

// idf returns the idf of a term. No document contains an unknown one.
func (x *Index) idf(number uint32, known bool) float64 {
	df := 0
	if known {
		df = len(x.terms[number].postings)
	}
	return x.formula.idf(x.live, df)
}

// standIn returns the longest term that is a prefix of the stem of w, and long enough.
func (x *Index) standIn(w QueryWord) (number uint32, known bool) {
	for prefix := range w.Prefixes() {
		if x.stems[len(prefix)] == 0 { // do not hash all prefixes of a word of a megabyte
			continue
		}
		if number, known = x.numbers[prefix]; known {
			return number, true
		}
	}
	return 0, false
}

// end resets the buffers for the next search.
func (s *search) end() {
	for _, c := range s.clauses {
		s.firsts[c.term] = 0
	}
	for _, id := range s.reached {
		s.sums[id] = 0
	}
	s.words, s.reached = nil, s.reached[:0]
	s.x.pool.Put(s.scratch)
}

// sort puts the clauses in the order in which their lists are read.
func (s *search) sort() {
	s.sums = resized(s.sums, len(s.x.docs))
	s.order = s.order[:0]
	for i := range s.clauses {
		s.order = append(s.order, i)
	}
	slices.SortFunc(s.order, func(a, b int) int { return s.df(a) - s.df(b) })
	s.rests = slices.Grow(s.rests[:0], len(s.order))[:len(s.order)]
	rest := 0.0
	for i, c := range slices.Backward(s.order) {
		most := float64(s.x.terms[s.clauses[c].term].most)
		rest += s.clauses[c].weight * most / (most + s.base)
		s.rests[i] = rest
	}
}

func (s *search) df(clause int) int { return len(s.x.terms[s.clauses[clause].term].postings) }

// slack is a bound of the rounding errors of a sum, as a part of full.
const slack = 1e-9

// gather collects the documents that can be hits in reached. It returns an upper bound
// of what the clauses that it skipped add to their sums.
func (s *search) gather() (rest float64) {
	closed := false // documents that are not in reached cannot be hits
	for i, c := range s.order {
		if rest = s.rests[i]; s.read+s.df(c) >= len(s.reached) {
			s.raise()
			if closed = rest+slack*s.full < s.floor; closed {
				s.prune(rest)
				if len(s.reached)*costOfScore <= s.df(c) {
					return rest
				}
			}
		}
		s.walk(s.clauses[c], closed)
	}
	s.raise()
	s.prune(0)
	return 0
}

// costOfScore is the number of postings that are read in the time of one exact score.
const costOfScore = 50

// walk adds what a clause gives to the documents in its list, if closed only to those
// in reached.
func (s *search) walk(c clause, closed bool) {
	postings, sums, lengths := s.x.terms[c.term].postings, s.sums, s.x.lengths // locals are faster
	s.read += len(postings)
	for _, p := range postings {
		id := p.key()
		if sums[id] == 0 {
			if closed {
				continue
			}
			s.reached = append(s.reached, id)
		}
		sums[id] += s.part(c.weight, s.x.count(id, c.term, p), lengths[id])
	}
}

// part returns what a clause of a weight gives to a document that has its term count
// times. The conversions keep a compiler from fusing operations, which would change the
// last bit of the sum on some platforms.
func (s *search) part(weight float64, count int, length uint32) float64 {
	tf := float64(count)
	return float64(weight * (tf / (tf + s.base + float64(s.slope*float64(length)))))
}

// matches reports whether Match accepts a document. It excludes other documents.
func (s *search) matches(id uint32) bool {
	if s.q.Match == nil || s.q.Match(int(id)) {
		return true
	}
	s.sums[id] = math.Inf(-1)
	return false
}

// raise raises the floor to the K-th best of the sums so far.
func (s *search) raise() {
	s.best, s.read = s.best[:0], 0
	if len(s.reached) < s.q.K {
		return
	}
	for _, id := range s.reached {
		if s.sums[id] <= s.floor || !s.matches(id) {
			continue
		}
		s.best.offer(Hit{int(id), s.sums[id]}, s.q.K)
		if len(s.best) == s.q.K {
			s.floor = max(s.floor, s.best[0].Score)
		}
	}
}

// prune removes the documents that cannot be hits. rest is the upper bound of what the
// remaining clauses add.
func (s *search) prune(rest float64) {
	least := s.floor - rest - slack*s.full
	if least <= 0 {
		return
	}
	kept := s.reached[:0]
	for _, id := range s.reached {
		if s.sums[id] > least {
			kept = append(kept, id)
		} else {
			s.sums[id] = 0
		}
	}
	s.reached = kept
}

// rank computes the exact scores of the documents in reached, in the order of their
// bounds, until the bounds of the others are below the K-th best score.
func (s *search) rank(rest float64) []Hit {
	s.bounds = s.bounds[:0]
	for _, id := range s.reached {
		if s.sums[id] > 0 && s.matches(id) {
			s.bounds = append(s.bounds, bound{id, s.sums[id] + rest + slack*s.full})
		}
	}
	if len(s.bounds) > s.q.K {
		slices.SortFunc(s.bounds, func(a, b bound) int { return cmp.Compare(b.sum, a.sum) })
	}
	s.best = s.best[:0]
	for _, b := range s.bounds {
		if len(s.best) == s.q.K && b.sum < s.best[0].Score*s.full {
			break
		}
		if h := (Hit{int(b.id), s.score(b.id)}); h.Score >= s.q.MinScore {
			s.best.offer(h, s.q.K)
		}
	}
	hits := slices.Clone(s.best)
	slices.SortFunc(hits, compareHits)
	return hits
}

// score returns the exact score of a document that has a word of the query. The sum is
// computed in the order of the query, so that it depends on nothing else.
func (s *search) score(id uint32) float64 {
	sum := 0.0
	for _, c := range s.clausesOf(id) {
		sum += s.part(s.clauses[c].weight, s.clauses[c].count, s.x.lengths[id])
	}
	return min(Round(sum/s.full), 1-grain)
}

// clausesOf sets the counts of the clauses in a document and returns the indexes of those
// that it has.
func (s *search) clausesOf(id uint32) []int {
	for _, c := range s.touched {
		s.clauses[c].count = 0
	}
	s.touched = s.touched[:0]
	for _, p := range s.x.docs[id] {
		word := p.key()
		count := s.x.count(id, word, p)
		s.touch(word, count)
		if stem := s.x.terms[word].stem; stem != word {
			s.touch(stem, count)
		}
	}
	slices.Sort(s.touched)
	return s.touched
}

// touch adds the count of a word to the clauses with a term.
func (s *search) touch(term uint32, count int) {
	for c := int(s.firsts[term]) - 1; c >= 0; c = s.clauses[c].next - 1 {
		if s.clauses[c].count == 0 {
			s.touched = append(s.touched, c)
		}
		s.clauses[c].count += count
	}
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
	As     string  // the term that stands in for its stem, if one does
	Weight float64 // above 0; the sum of all is the score
}

// Explain returns the shares of the query's words in the score of a document, largest
// first. The result is empty if the document does not exist or shares no word with the
// query.
func (x *Index) Explain(text string, id int) []Explanation {
	if id < 0 || id >= len(x.docs) {
		return nil
	}
	s := x.begin(text)
	defer s.end()
	var list []Explanation
	last := -1
	for _, i := range s.clausesOf(uint32(id)) {
		c := s.clauses[i]
		if c.word != last {
			list = append(list, Explanation{Word: s.words[c.word].Text})
			last = c.word
		}
		e := &list[len(list)-1]
		e.Weight += s.part(c.weight, c.count, x.lengths[id]) / s.full
		if c.prefix {
			e.As = x.terms[c.term].name
		}
	}
	slices.SortStableFunc(list, func(a, b Explanation) int { return cmp.Compare(b.Weight, a.Weight) })
	return list
}
