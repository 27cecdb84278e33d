package index

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/james-bowman/nlp"
)

var _ nlp.Tokeniser = Tokeniser{}

// newRaw returns an index whose weights are the counts themselves, as those of
// the oracle are.
func newRaw() *Index {
	x := New()
	x.raw, x.weights = true, new([many]float64)
	for n := range x.weights {
		x.weights[n] = float64(n)
	}
	return x
}

// TestOracle holds the scores of all documents, while some are added, against
// those that the pipeline of nlp gives when it is fitted to the same ones.
func TestOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	c := newCorpus(7)
	x := newRaw()
	var texts []string
	compared := 0
	for _, adds := range []int{1, 1, 3, 40, 300 + rng.IntN(300), 700 + rng.IntN(300), 1000 + rng.IntN(500)} {
		for range adds {
			text := c.text(1 + rng.IntN(14))
			if rng.IntN(150) == 0 {
				text = strings.Repeat(text+" ", 70) // counts that are kept apart
			}
			x.Put(len(texts), text)
			texts = append(texts, text)
		}
		query := c.text(9) + " unheardof"
		want := oracle(t, texts, query)
		hits := x.Search(Query{Text: query, K: len(texts)})
		for _, h := range hits {
			if math.Abs(h.Score-want[h.ID]) > 1e-12 {
				t.Fatalf("%d documents, %q: document %d has the score %v, want %v", len(texts), query, h.ID, h.Score, want[h.ID])
			}
			delete(want, h.ID)
			compared++
		}
		if len(want) > 0 {
			t.Errorf("%d documents, %q: %d were not found", len(texts), query, len(want))
		}
	}
	if len(texts) < 2000 || compared < 1000 {
		t.Errorf("%d documents, %d scores compared", len(texts), compared)
	}
}

// cells is what a matrix of the oracle holds, by row and column.
type cells map[[2]int]float64

// oracle gives the cosines above 0 of a query with texts. The oracle's idf is
// ln((1+N)/(1+df)), so its matrix and that of the counts make together the
// weights with the 1 that ours has more.
func oracle(t *testing.T, texts []string, query string) map[int]float64 {
	t.Helper()
	vectoriser := nlp.NewCountVectoriser()
	vectoriser.Tokeniser = Tokeniser{}
	vectoriser.Fit(append(texts, query)...)
	tfidf := nlp.NewTfidfTransformer()
	counted, err := vectoriser.Transform(texts...)
	if err != nil {
		t.Fatal(err)
	}
	tfidf.Fit(counted)
	weights := func(list ...string) cells {
		counts, err := vectoriser.Transform(list...)
		if err != nil {
			t.Fatal(err)
		}
		weighted, err := tfidf.Transform(counts)
		if err != nil {
			t.Fatal(err)
		}
		sum := cells{}
		sum.add(counts)
		sum.add(weighted)
		return sum
	}
	return cosines(weights(query), weights(texts...))
}

func (c cells) add(matrix any) {
	matrix.(interface {
		DoNonZero(func(row, column int, value float64))
	}).DoNonZero(func(row, column int, value float64) { c[[2]int{row, column}] += value })
}

// cosines is the cosine of the one column of query and each of docs.
func cosines(query, docs cells) map[int]float64 {
	dots, squares, length := map[int]float64{}, map[int]float64{}, 0.0
	for at, v := range docs {
		if q := query[[2]int{at[0], 0}]; q > 0 {
			dots[at[1]] += v * q
		}
		squares[at[1]] += v * v
	}
	for _, v := range query {
		length += v * v
	}
	for doc := range dots {
		dots[doc] /= math.Sqrt(length * squares[doc])
	}
	return dots
}
