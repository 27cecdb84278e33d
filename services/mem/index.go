package mem

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// index finds documents by the cosine of TF-IDF vectors: the weight of a word
// in a document is (1 + ln count) * idf, and idf is ln((1+N)/(1+df)) + 1, so
// that no word is ever worth nothing, a rare one is worth more, and one that
// stands everywhere does not dominate. It is not safe for concurrent use.
type index struct {
	terms map[string]int
	posts [][]post // by term: the documents that have it, in their order
	docs  []doc
	live  int // documents that can be found, the N of the formula
	gen   int // grows with every document: norms computed before are stale
}

// post is a document in the list of a term, or a term in a document.
type post struct {
	id    int32
	count int32
}

type doc struct {
	terms []post
	norm  float64
	gen   int // of the index when norm was computed
}

// hit is a document that was found.
type hit struct {
	doc   int
	score float64 // above 0 to 1, rounded to 4 digits
}

func newIndex() *index { return &index{terms: map[string]int{}} }

// add appends a document; its number is the count of those before it.
func (x *index) add(text string) {
	var d doc
	place := map[int]int{} // term to its place in d.terms
	for _, w := range words(text) {
		t, known := x.terms[w]
		if !known {
			t = len(x.posts)
			x.terms[w] = t
			x.posts = append(x.posts, nil)
		}
		if i, again := place[t]; again {
			d.terms[i].count++
			continue
		}
		place[t] = len(d.terms)
		d.terms = append(d.terms, post{int32(t), 1})
	}
	d.terms = slices.Clip(d.terms)
	for _, p := range d.terms {
		x.posts[p.id] = append(x.posts[p.id], post{int32(len(x.docs)), p.count})
	}
	x.docs = append(x.docs, d)
	x.live++
	x.gen++
}

// skip leaves a place empty: a document that cannot be found.
func (x *index) skip() { x.docs = append(x.docs, doc{}) }

func (x *index) idf(df int) float64 {
	return logOf(1+x.live) - logOf(1+df) + 1
}

// weight is the part of a word's weight that its count makes.
func weight(count int32) float64 { return 1 + logOf(int(count)) }

// logOf is the natural logarithm of n; most that are asked for are small.
func logOf(n int) float64 {
	if n < len(logs) {
		return logs[n]
	}
	return math.Log(float64(n))
}

var logs = func() (t [1024]float64) {
	for n := range t {
		t[n] = math.Log(float64(n))
	}
	return t
}()

// norm is the length of a document's vector.
func (x *index) norm(d *doc) float64 {
	if d.gen == x.gen {
		return d.norm
	}
	sum := 0.0
	for _, p := range d.terms {
		w := weight(p.count) * x.idf(len(x.posts[p.id]))
		sum += w * w
	}
	d.norm, d.gen = math.Sqrt(sum), x.gen
	return d.norm
}

// search returns the k best documents for a query, best first, of equal ones
// the latest first.
func (x *index) search(query string, k int) []hit {
	q := x.query(query)
	if k <= 0 || len(q.terms) == 0 {
		return nil
	}
	dots := make([]float64, len(x.docs))
	var found []int32
	for _, term := range q.terms {
		idf := x.idf(len(x.posts[term.id]))
		factor := weight(term.count) * idf * idf
		for _, p := range x.posts[term.id] {
			if dots[p.id] == 0 {
				found = append(found, p.id)
			}
			dots[p.id] += factor * weight(p.count)
		}
	}
	var best top
	for _, id := range found {
		d := &x.docs[id]
		best.offer(hit{int(id), score(dots[id]/(q.norm*x.norm(d)), q, d)}, k)
	}
	slices.SortFunc(best, compareHits)
	return best
}

// query is a query as a vector. Words that no document has make it longer:
// only a query of the same words as a document is its match.
type query struct {
	terms   []post
	norm    float64
	unknown bool // it has words that no document has
}

func (x *index) query(text string) query {
	counts := map[string]int32{}
	var order []string
	for _, w := range words(text) {
		if counts[w]++; counts[w] == 1 {
			order = append(order, w)
		}
	}
	var q query
	sum := 0.0
	for _, w := range order {
		df := 0
		if t, known := x.terms[w]; known {
			df = len(x.posts[t])
			q.terms = append(q.terms, post{int32(t), counts[w]})
		} else {
			q.unknown = true
		}
		v := weight(counts[w]) * x.idf(df)
		sum += v * v
	}
	q.norm = math.Sqrt(sum)
	return q
}

// score rounds a cosine to 4 digits, but never to 0, and to 1 only if the
// vectors point the same way.
func score(cosine float64, q query, d *doc) float64 {
	const last = 0.9999
	rounded := math.Round(cosine*1e4) / 1e4
	if rounded > last {
		if q.matches(d) {
			return 1
		}
		return last
	}
	return max(rounded, 1e-4)
}

// matches reports whether query and document have the same words in the same
// proportion.
func (q query) matches(d *doc) bool {
	if q.unknown || len(q.terms) != len(d.terms) {
		return false
	}
	a, b := slices.Clone(q.terms), slices.Clone(d.terms)
	byID := func(a, b post) int { return cmp.Compare(a.id, b.id) }
	slices.SortFunc(a, byID)
	slices.SortFunc(b, byID)
	ratio := weight(a[0].count) / weight(b[0].count)
	for i := range a {
		if a[i].id != b[i].id || math.Abs(weight(a[i].count)/weight(b[i].count)-ratio) > 1e-9 {
			return false
		}
	}
	return true
}

// compareHits orders hits best first.
func compareHits(a, b hit) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.doc, a.doc))
}

// top is a heap of the best hits with the worst of them in front.
type top []hit

func (t top) Len() int           { return len(t) }
func (t top) Less(i, j int) bool { return compareHits(t[i], t[j]) > 0 }
func (t top) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *top) Push(h any)        { *t = append(*t, h.(hit)) }
func (t *top) Pop() any {
	last := len(*t) - 1
	h := (*t)[last]
	*t = (*t)[:last]
	return h
}

// offer keeps h if it is among the k best so far.
func (t *top) offer(h hit, k int) {
	if len(*t) < k {
		heap.Push(t, h)
	} else if compareHits(h, (*t)[0]) < 0 {
		(*t)[0] = h
		heap.Fix(t, 0)
	}
}
