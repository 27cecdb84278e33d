package mem

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func indexOf(texts ...string) *index {
	x := newIndex()
	for _, text := range texts {
		x.add(text)
	}
	return x
}

func TestSearchOrder(t *testing.T) {
	for what, c := range map[string]struct {
		texts []string
		query string
		want  string // documents, best first
	}{
		"one memory":            {[]string{"the cat sat on the mat"}, "cat", "0"},
		"nothing shared":        {[]string{"the cat sat"}, "dog", ""},
		"no words":              {[]string{"the cat sat"}, "?!", ""},
		"nothing stored":        {nil, "cat", ""},
		"rare words decide":     {[]string{"user likes tea", "user likes coffee", "user likes water"}, "what coffee does the user like", "1 2 0"},
		"two memories":          {[]string{"the key is in the shed", "the car is in the garage"}, "the garage", "1 0"},
		"ties, latest first":    {[]string{"red fox", "red fox", "blue whale", "red fox"}, "fox", "3 1 0"},
		"case":                  {[]string{"ÜBER alles"}, "über", "0"},
		"digits":                {[]string{"room 404", "room 405"}, "405", "1"},
		"common word in all":    {[]string{"a x", "a y", "a z"}, "a", "2 1 0"},
		"count matters, softly": {[]string{"tea milk", "tea tea milk"}, "tea", "1 0"},
		"shorter is nearer":     {[]string{"tea with milk and sugar", "tea with milk"}, "tea", "1 0"},
	} {
		var got []string
		for _, h := range indexOf(c.texts...).search(c.query, 10) {
			got = append(got, fmt.Sprint(h.doc))
			if h.score <= 0 || h.score > 1 || math.Round(h.score*1e4)/1e4 != h.score {
				t.Errorf("%s: score %v", what, h.score)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: found %v, want %s", what, got, c.want)
		}
	}
}

func TestScores(t *testing.T) {
	for what, c := range map[string]struct {
		texts []string
		query string
		want  float64 // of the best
	}{
		"the same text":     {[]string{"the cat sat"}, "The cat sat", 1},
		"the same words":    {[]string{"the cat sat"}, "sat the cat", 1},
		"in proportion":     {[]string{"cat dog"}, "cat cat dog dog", 1},
		"a word more":       {[]string{"cat"}, "cat dog", 1 / math.Sqrt(1+math.Pow(math.Log(2)+1, 2))},
		"a word less":       {[]string{"cat dog"}, "cat", 1 / math.Sqrt2},
		"another count":     {[]string{"cat dog"}, "cat cat dog", (2 + math.Ln2) / math.Sqrt2 / math.Sqrt(1+math.Pow(1+math.Ln2, 2))},
		"among others":      {[]string{"cat dog", "dog", "dog"}, "cat dog", 1},
		"nearly the same":   {[]string{strings.Repeat("x ", 5000) + "y"}, strings.Repeat("x ", 5001) + "y", 0.9999},
		"hardly related":    {[]string{numbered("a", 12_000) + "x"}, numbered("b", 12_000) + "x", 0.0001},
		"rarity of a word":  {[]string{"cat dog", "dog"}, "cat", (math.Log(1.5) + 1) / math.Hypot(math.Log(1.5)+1, 1)},
		"sublinear in text": {[]string{"cat cat cat dog"}, "cat", (1 + math.Log(3)) / math.Hypot(1+math.Log(3), 1)},
	} {
		hits := indexOf(c.texts...).search(c.query, 1)
		if len(hits) != 1 || math.Abs(hits[0].score-c.want) > 5.1e-5 {
			t.Errorf("%s: %v, want %.4f", what, hits, c.want)
		}
	}
}

func numbered(prefix string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%d ", prefix, i)
	}
	return b.String()
}

// TestIndexAgainstScan holds the index against a plain computation from the
// formulas, with documents added between the searches.
func TestIndexAgainstScan(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := newIndex()
	var texts []string
	for range 60 {
		for range 1 + rng.IntN(10) {
			if rng.IntN(10) == 0 {
				x.skip()
				texts = append(texts, "")
				continue
			}
			text := randomText(rng, 1+rng.IntN(30))
			x.add(text)
			texts = append(texts, text)
		}
		query := randomText(rng, 1+rng.IntN(5))
		k := 1 + rng.IntN(20)
		got, want := x.search(query, k), scan(texts, query)
		want = want[:min(k, len(want))]
		if !slices.Equal(got, want) {
			t.Fatalf("%d documents, %q:\n%v, want\n%v", len(texts), query, got, want)
		}
	}
}

// randomText has words of which a few are frequent.
func randomText(rng *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		fmt.Fprintf(&b, "w%d ", int(math.Exp(rng.Float64()*5)))
	}
	return b.String()
}

// scan computes every score anew, as the formulas say.
func scan(texts []string, query string) (hits []hit) {
	df, live := map[string]int{}, 0
	for _, text := range texts {
		for w := range counts(text) {
			df[w]++
		}
		if text != "" {
			live++
		}
	}
	vector := func(text string) (v map[string]float64, norm float64) {
		v = counts(text)
		for w, n := range v {
			v[w] = (1 + math.Log(n)) * (math.Log(float64(1+live)/float64(1+df[w])) + 1)
			norm += v[w] * v[w]
		}
		return v, math.Sqrt(norm)
	}
	q, qnorm := vector(query)
	for i, text := range texts {
		d, dnorm := vector(text)
		dot := 0.0
		for w, v := range q {
			dot += v * d[w]
		}
		if dot > 0 {
			hits = append(hits, hit{i, math.Round(dot/(qnorm*dnorm)*1e4) / 1e4})
		}
	}
	slices.SortFunc(hits, compareHits)
	return hits
}

func counts(text string) map[string]float64 {
	c := map[string]float64{}
	for _, w := range words(text) {
		c[w]++
	}
	return c
}
