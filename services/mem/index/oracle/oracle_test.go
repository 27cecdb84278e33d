// Package oracle ranks the texts of the index's quality test with the TF-IDF pipeline of
// github.com/james-bowman/nlp, the formula of the specification: `make oracle`.
package oracle

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/james-bowman/nlp"

	"zino/services/mem/index"
)

// tokeniser splits texts as the index does.
type tokeniser struct{}

func (tokeniser) ForEachIn(text string, f func(string)) {
	for _, term := range index.Words(text) {
		f(term)
	}
}

func (tokeniser) Tokenise(text string) []string { return index.Words(text) }

type query struct {
	Lang, Text string
	Relevant   map[string]int // grades by memory
}

// TestOracle prints the quality of both rankings. That of the index must be better.
func TestOracle(t *testing.T) {
	var set struct {
		Memories []struct{ ID, Text string }
		Queries  []query
	}
	b, err := os.ReadFile("../testdata/relevance.json")
	if err == nil {
		err = json.Unmarshal(b, &set)
	}
	if err != nil {
		t.Fatal(err)
	}
	x := index.New()
	var texts []string
	for id, m := range set.Memories {
		x.Put(id, m.Text)
		texts = append(texts, m.Text)
	}
	baseline := newPipeline(t, texts)

	figures := map[string][2]figure{} // by language
	for _, q := range set.Queries {
		var ours []int
		for _, h := range x.Search(index.Query{Text: q.Text, K: 10}) {
			ours = append(ours, h.ID)
		}
		for i, found := range [][]int{ours, baseline.search(t, q.Text)} {
			var grades []int
			for _, id := range found {
				grades = append(grades, q.Relevant[set.Memories[id].ID])
			}
			for _, lang := range []string{"all", q.Lang} {
				f := figures[lang]
				f[i].add(q, grades)
				figures[lang] = f
			}
		}
	}
	for _, lang := range slices.Sorted(maps.Keys(figures)) {
		f := figures[lang]
		ours, nlps := f[0].mean(), f[1].mean()
		t.Logf("%s, %.0f queries: nDCG@10 %.3f, recall@10 %.3f; cosine of nlp %.3f, %.3f", lang, f[0].n, ours[0], ours[1], nlps[0], nlps[1])
		if ours[0] < nlps[0] || ours[1] < nlps[1] {
			t.Errorf("%s: the index is not as good as TF-IDF with the cosine", lang)
		}
	}
}

// figure sums up the quality of rankings.
type figure struct{ n, ndcg, recall float64 }

func (f *figure) add(q query, grades []int) {
	best := slices.SortedFunc(maps.Values(q.Relevant), func(a, b int) int { return b - a })
	found := 0
	for _, g := range grades {
		if g > 0 {
			found++
		}
	}
	f.n++
	f.ndcg += gain(grades) / gain(best)
	f.recall += float64(found) / float64(min(10, len(best)))
}

func (f figure) mean() [2]float64 { return [2]float64{f.ndcg / f.n, f.recall / f.n} }

func gain(grades []int) (sum float64) {
	for i, g := range grades[:min(10, len(grades))] {
		sum += (math.Exp2(float64(g)) - 1) / math.Log2(float64(i+2))
	}
	return sum
}

// pipeline is TF-IDF fitted to some texts: the weight of a term is its count times
// ln((1+N)/(1+df)).
type pipeline struct {
	vectoriser *nlp.CountVectoriser
	tfidf      *nlp.TfidfTransformer
	docs       cells
}

// cells are the nonzero values of a matrix, by row and column.
type cells map[[2]int]float64

func newPipeline(t *testing.T, texts []string) *pipeline {
	p := &pipeline{vectoriser: nlp.NewCountVectoriser(), tfidf: nlp.NewTfidfTransformer()}
	p.vectoriser.Tokeniser = tokeniser{}
	counts, err := p.vectoriser.FitTransform(texts...)
	if err != nil {
		t.Fatal(err)
	}
	p.tfidf.Fit(counts)
	p.docs = p.weights(t, texts...)
	return p
}

func (p *pipeline) weights(t *testing.T, texts ...string) cells {
	counts, err := p.vectoriser.Transform(texts...)
	if err != nil {
		t.Fatal(err)
	}
	weighted, err := p.tfidf.Transform(counts)
	if err != nil {
		t.Fatal(err)
	}
	c := cells{}
	weighted.(interface {
		DoNonZero(func(row, column int, value float64))
	}).DoNonZero(func(row, column int, value float64) { c[[2]int{row, column}] = value })
	return c
}

// search returns the ten texts with the largest cosines, of equal ones the last first.
func (p *pipeline) search(t *testing.T, text string) []int {
	q := p.weights(t, text)
	cosines, squares := map[int]float64{}, map[int]float64{}
	for at, v := range p.docs {
		squares[at[1]] += v * v
		if f := q[[2]int{at[0], 0}]; f > 0 {
			cosines[at[1]] += v * f
		}
	}
	for id := range cosines {
		cosines[id] /= math.Sqrt(squares[id])
	}
	found := slices.SortedFunc(maps.Keys(cosines), func(a, b int) int {
		return cmp.Or(cmp.Compare(cosines[b], cosines[a]), cmp.Compare(b, a))
	})
	return found[:min(10, len(found))]
}
