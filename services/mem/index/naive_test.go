package index

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

// naive is the formula as it is written, computed from the texts for every search.
type naive map[int]naiveDoc

type naiveDoc struct {
	counts map[string]float64 // of stems and forms
	length float64
}

func (n naive) put(id int, text string) {
	doc := naiveDoc{counts: map[string]float64{}}
	i := 0
	Split(text, func(w Word) {
		times := 1.0
		if i++; i <= 10 {
			times = 2
		}
		doc.length += times
		doc.counts[w.Stem()] += times
		if w.Plain {
			doc.counts["="+string(w.Folded)] += times
		}
	})
	n[id] = doc
}

// naiveWord is a word of a query.
type naiveWord struct {
	word, stem string
	plain      bool
	q          float64
}

func naiveQuery(text string) (query []naiveWord) {
	lists := [][]string{strings.Fields(englishWords), strings.Fields(germanWords), strings.Fields(spanishWords), strings.Fields(frenchWords)}
	counts, distinct := make([]int, 4), make([]map[string]bool, 4)
	seen := map[string]bool{}
	Split(text, func(w Word) {
		word := string(w.Folded)
		for i, list := range lists {
			if slices.Contains(list, word) {
				counts[i]++
				if distinct[i] == nil {
					distinct[i] = map[string]bool{}
				}
				distinct[i][word] = true
			}
		}
		if !seen[word] {
			query = append(query, naiveWord{word, w.Stem(), w.Plain, 1})
		}
		seen[word] = true
	})
	list := lists[0]
	if i := slices.Index(counts, slices.Max(counts)); len(distinct[i]) >= 2 {
		list = lists[i]
	}
	all := true
	for _, w := range query {
		all = all && slices.Contains(list, w.word)
	}
	for i, w := range query {
		if !all && slices.Contains(list, w.word) {
			query[i].q = 0.2
		}
	}
	return query
}

// parts returns what each word of a query gives to each document that has it, not yet
// divided by full.
func (n naive) parts(query []naiveWord) (parts []map[int]float64, full float64) {
	N, sum, df := float64(len(n)), 0.0, map[string]float64{}
	for _, doc := range n {
		sum += doc.length
		for t := range doc.counts {
			df[t]++
		}
	}
	idf := func(t string) float64 { return math.Log(1 + (N-df[t]+0.5)/(df[t]+0.5)) }
	sat := func(t string, doc naiveDoc) float64 {
		tf := doc.counts[t]
		return tf / (tf + 0.9*(1-0.4+0.4*doc.length/(sum/N)))
	}
	for _, w := range query {
		s, f, p := w.stem, "="+w.word, 1.0
		if w.plain {
			full += w.q * (0.8*idf(s) + 0.2*idf(f))
		} else {
			full += w.q * idf(s)
		}
		if df[s] == 0 && w.plain && len(s) >= 5 {
			for l := len(s) - 1; l >= 4; l-- {
				if df[s[:l]] > 0 {
					s, p = s[:l], 0.8
					break
				}
			}
		}
		part := map[int]float64{}
		for id, doc := range n {
			if sum == 0 {
				break
			}
			if w.plain {
				part[id] = w.q * (0.8*p*idf(s)*sat(s, doc) + 0.2*idf(f)*sat(f, doc))
			} else {
				part[id] = w.q * idf(s) * sat(s, doc)
			}
		}
		parts = append(parts, part)
	}
	return parts, full
}

// scores returns the score of every document that has a word of the query.
func (n naive) scores(query string) map[int]float64 {
	parts, full := n.parts(naiveQuery(query))
	scores := map[int]float64{}
	for _, part := range parts {
		for id, p := range part {
			scores[id] += p / full
		}
	}
	maps.DeleteFunc(scores, func(_ int, score float64) bool { return score == 0 })
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
		if math.Abs(h.Score-scores[h.ID]) > 1e-12 || h.Score <= 0 || h.Score >= 1 || !eligible(h.ID) || found[h.ID] {
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
