// Package oracle compares the index with the TF-IDF vectors of
// github.com/james-bowman/nlp: `make oracle`.
package oracle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/james-bowman/nlp"

	"zino/services/mem/index"
)

var _ nlp.Tokeniser = index.Tokeniser{}

// TestOracle compares the scores of all documents with the cosines that the
// pipeline of nlp computes when it is fitted to the same documents. No word occurs
// twice in a text: nlp weighs a count itself, the index its logarithm plus 1,
// and the two agree on counts of 1 only.
func TestOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	x := index.New()
	var texts []string
	compared := 0
	for _, adds := range []int{1, 1, 3, 40, 400, 800, 1200} {
		for range adds {
			text := randomText(rng, 1+rng.IntN(14))
			x.Put(len(texts), text)
			texts = append(texts, text)
		}
		query := randomText(rng, 9) + " unheardof"
		want := cosines(t, texts, query)
		for _, h := range x.Search(index.Query{Text: query, K: len(texts)}) {
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
	t.Logf("%d scores compared over %d documents", compared, len(texts))
	if compared < 1000 {
		t.Errorf("only %d scores compared", compared)
	}
}

// randomText returns up to n different words; words with low numbers are common.
func randomText(rng *rand.Rand, n int) string {
	seen := map[int]bool{}
	var words []string
	for range n {
		w := int(2000 * math.Pow(rng.Float64(), 4))
		if !seen[w] {
			seen[w] = true
			words = append(words, fmt.Sprintf("w%d", w))
		}
	}
	return strings.Join(words, " ")
}

// cells are the nonzero values of a matrix, by row and column.
type cells map[[2]int]float64

// cosines returns the cosines above 0 of query and each text. The idf of nlp is
// ln((1+N)/(1+df)), that of the index has 1 more: the sum of nlp's weighted
// matrix and its count matrix has the weights of the index.
func cosines(t *testing.T, texts []string, query string) map[int]float64 {
	t.Helper()
	vectoriser := nlp.NewCountVectoriser()
	vectoriser.Tokeniser = index.Tokeniser{}
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
	q, docs := weights(query), weights(texts...)

	dots, squares, length := map[int]float64{}, map[int]float64{}, 0.0
	for at, v := range docs {
		if f := q[[2]int{at[0], 0}]; f > 0 {
			dots[at[1]] += v * f
		}
		squares[at[1]] += v * v
	}
	for _, v := range q {
		length += v * v
	}
	for doc := range dots {
		dots[doc] /= math.Sqrt(length * squares[doc])
	}
	return dots
}

func (c cells) add(matrix any) {
	matrix.(interface {
		DoNonZero(func(row, column int, value float64))
	}).DoNonZero(func(row, column int, value float64) { c[[2]int{row, column}] += value })
}
