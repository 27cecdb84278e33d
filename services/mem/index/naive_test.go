package index

import (
	"cmp"
	"math"
	"slices"
	"testing"
)

// naive is the reference implementation: it computes all weights for every search.
type naive map[int]map[string]float64 // the counts of the documents' terms

func (n naive) put(id int, text string) { n[id] = counts(text) }

func counts(text string) map[string]float64 {
	c := map[string]float64{}
	for _, w := range Words(text) {
		c[w]++
	}
	return c
}

// scores returns the score of every document that has a word of the query.
func (n naive) scores(query string) map[int]float64 {
	df := map[string]float64{}
	for _, doc := range n {
		for w := range doc {
			df[w]++
		}
	}
	vector := func(counts map[string]float64) (v map[string]float64, length float64) {
		v = map[string]float64{}
		for w, tf := range counts {
			v[w] = (1 + math.Log(tf)) * (math.Log(float64(1+len(n))/(1+df[w])) + 1)
			length += v[w] * v[w]
		}
		return v, math.Sqrt(length)
	}
	q, qlen := vector(counts(query))
	scores := map[int]float64{}
	for id, doc := range n {
		v, vlen := vector(doc)
		dot := 0.0
		for w, f := range q {
			dot += f * v[w]
		}
		if dot > 0 {
			scores[id] = dot / qlen / vlen
		}
	}
	return scores
}

// check compares the hits of a search with the scores of all documents.
func check(t *testing.T, hits []Hit, scores map[int]float64, q Query) {
	t.Helper()
	eligible := func(id int) bool {
		return scores[id] >= q.MinScore && (q.Match == nil || q.Match(id))
	}
	found := map[int]bool{}
	for _, h := range hits {
		if math.Abs(h.Score-scores[h.ID]) > 1e-12 || h.Score <= 0 || h.Score > 1 || !eligible(h.ID) || found[h.ID] {
			t.Errorf("%+v: hit %+v, whose score is %v", q, h, scores[h.ID])
		}
		found[h.ID] = true
	}
	if !slices.IsSortedFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.ID, a.ID))
	}) {
		t.Errorf("%+v: the hits are not in order: %v", q, hits)
	}
	want := 0
	for id, score := range scores {
		if !eligible(id) {
			continue
		}
		want++
		if last := len(hits) - 1; last >= 0 && !found[id] && score > hits[last].Score+1e-12 {
			t.Errorf("%+v: document %d was not found, its score is %v above the last hit", q, id, score-hits[last].Score)
		}
	}
	if want = min(want, q.K); len(hits) != want {
		t.Errorf("%+v: %d hits, want %d", q, len(hits), want)
	}
}
