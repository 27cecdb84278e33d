package index

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"zino/pkg/zinotest"
)

// relevanceSet contains memories of an assistant about its host and users, and
// queries with the relevance of each memory: 3 for the answer, 2 for a part of it,
// 1 for the same subject.
type relevanceSet struct {
	Memories []struct{ ID, Text string }
	Queries  []struct {
		Lang     string // en, de, ja
		Text     string
		Relevant map[string]int
	}
}

func loadRelevance(t *testing.T) (set relevanceSet) {
	t.Helper()
	b, err := os.ReadFile("testdata/relevance.json")
	zinotest.Must(t, err)
	zinotest.Must(t, json.Unmarshal(b, &set))
	if len(set.Memories) < 60 || len(set.Queries) < 25 {
		t.Fatalf("%d memories, %d queries", len(set.Memories), len(set.Queries))
	}
	return set
}

func relevanceTexts(t *testing.T) (texts []string) {
	for _, m := range loadRelevance(t).Memories {
		texts = append(texts, m.Text)
	}
	return texts
}

// TestQuality compares the ranking with that of plain TF-IDF.
func TestQuality(t *testing.T) {
	set := loadRelevance(t)
	texts := relevanceTexts(t)
	x := indexOf(texts...)
	ours := func(query string) (found []int) {
		for _, h := range x.Search(Query{Text: query, K: 10}) {
			found = append(found, h.ID)
		}
		return found
	}
	plain := plainSearch(texts)
	means := map[string][2]float64{} // by language
	count := map[string]float64{}
	for _, q := range set.Queries {
		for _, lang := range []string{"all", q.Lang} {
			count[lang]++
			mean := means[lang]
			for i, search := range []func(string) []int{ours, plain} {
				var gains []int
				for _, id := range search(q.Text) {
					gains = append(gains, q.Relevant[set.Memories[id].ID])
				}
				mean[i] += (ndcg(gains, q.Relevant) - mean[i]) / count[lang]
			}
			means[lang] = mean
		}
	}
	for lang, mean := range means {
		t.Logf("nDCG@10 of %3.0f queries (%s): %.3f, plain TF-IDF %.3f", count[lang], lang, mean[0], mean[1])
		if mean[0] <= mean[1] || mean[0] < 0.9 {
			t.Errorf("%s: nDCG@10 is %.3f, that of plain TF-IDF %.3f", lang, mean[0], mean[1])
		}
	}
}

// ndcg is the discounted gain of a ranking, divided by the best possible one.
func ndcg(found []int, relevant map[string]int) float64 {
	var best []int
	for _, grade := range relevant {
		best = append(best, grade)
	}
	slices.SortFunc(best, func(a, b int) int { return b - a })
	return gain(found) / gain(best)
}

func gain(grades []int) (sum float64) {
	for i, g := range grades[:min(10, len(grades))] {
		sum += (math.Exp2(float64(g)) - 1) / math.Log2(float64(i+2))
	}
	return sum
}

// plainSearch is plain TF-IDF: lower-case words without stemming, and the counts
// as weights.
func plainSearch(texts []string) func(query string) []int {
	words := func(text string) map[string]float64 {
		m := map[string]float64{}
		for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			m[w]++
		}
		return m
	}
	df := map[string]float64{}
	var docs []map[string]float64
	for _, text := range texts {
		docs = append(docs, words(text))
		for w := range docs[len(docs)-1] {
			df[w]++
		}
	}
	idf := func(w string) float64 { return math.Log(float64(1+len(docs))/(1+df[w])) + 1 }
	return func(query string) []int {
		q := words(query)
		scores := map[int]float64{}
		for id, doc := range docs {
			dot, square := 0.0, 0.0
			for w, tf := range doc {
				dot += q[w] * tf * idf(w) * idf(w)
				square += tf * idf(w) * tf * idf(w)
			}
			if dot > 0 {
				scores[id] = dot / math.Sqrt(square)
			}
		}
		var found []int
		for id := range scores {
			found = append(found, id)
		}
		slices.SortFunc(found, func(a, b int) int {
			return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(b, a))
		})
		return found[:min(10, len(found))]
	}
}
