package index

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"zino/pkg/zinotest"
)

func indexOf(texts ...string) *Index {
	x := New()
	for id, text := range texts {
		x.Put(id, text)
	}
	return x
}

func ids(hits []Hit) string {
	var s []string
	for _, h := range hits {
		s = append(s, fmt.Sprint(h.ID))
	}
	return strings.Join(s, " ")
}

func TestSearchOrder(t *testing.T) {
	for what, c := range map[string]struct {
		texts []string
		query string
		want  string // documents, best first
	}{
		"one memory":            {[]string{"the cat sat on the mat"}, "cat", "0"},
		"no common word":        {[]string{"the cat sat"}, "dog", ""},
		"no words":              {[]string{"the cat sat"}, "?!", ""},
		"nothing stored":        {nil, "cat", ""},
		"without words":         {[]string{"?!", "cat"}, "cat", "1"},
		"rare words decide":     {[]string{"user likes tea", "user likes coffee", "user likes water"}, "what coffee does the user like", "1 2 0"},
		"two memories":          {[]string{"the key is in the shed", "the car is in the garage"}, "the garage", "1 0"},
		"ties, latest first":    {[]string{"red fox", "red fox", "blue whale", "red fox"}, "fox", "3 1 0"},
		"case and accents":      {[]string{"ÜBER alles"}, "uber", "0"},
		"forms of a word":       {[]string{"prefers running", "walks"}, "running preferences", "0"},
		"digits":                {[]string{"room 404", "room 405"}, "405", "1"},
		"common word in all":    {[]string{"a x", "a y", "a z"}, "a", "2 1 0"},
		"count matters, softly": {[]string{"tea milk", "tea tea milk"}, "tea", "1 0"},
		"shorter is nearer":     {[]string{"tea with milk and sugar", "tea with milk"}, "tea", "1 0"},
		"within Japanese":       {[]string{"毎朝コーヒーを飲む", "犬が好き"}, "コーヒー", "0"},
	} {
		hits := indexOf(c.texts...).Search(Query{Text: c.query, K: 10})
		zinotest.Equal(t, what, ids(hits), c.want)
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
		"nearly the same":   {[]string{strings.Repeat("x ", 1e5) + "y"}, strings.Repeat("x ", 1e5+1) + "y", 1 - grain},
		"rarity of a word":  {[]string{"cat dog", "dog"}, "cat", (math.Log(1.5) + 1) / math.Hypot(math.Log(1.5)+1, 1)},
		"sublinear in text": {[]string{"cat cat cat dog"}, "cat", (1 + math.Log(3)) / math.Hypot(1+math.Log(3), 1)},
		"other words":       {[]string{"cat dog"}, "cat cat owl", (1 + math.Ln2) / math.Sqrt2 / math.Hypot(1+math.Ln2, 1+math.Ln2)},
		"a large count":     {[]string{strings.Repeat("cat ", 5000) + "dog"}, "dog", 1 / math.Hypot(1+math.Log(5000), 1)},
	} {
		hits := indexOf(c.texts...).Search(Query{Text: c.query, K: 1})
		if len(hits) != 1 || math.Abs(hits[0].Score-c.want) > 1e-12 || c.want < 1 && hits[0].Score == 1 {
			t.Errorf("%s: %v, want %v", what, hits, c.want)
		}
	}
}

func TestQueryLimits(t *testing.T) {
	x := indexOf("red fox", "fox", "red fox den", "blue whale")
	for _, c := range []struct {
		q    Query
		want string
	}{
		{Query{Text: "fox", K: 10}, "1 0 2"},
		{Query{Text: "fox", K: 2}, "1 0"},
		{Query{Text: "fox", K: 0}, ""},
		{Query{Text: "fox", K: -1}, ""},
		{Query{Text: "fox", K: math.MaxInt}, "1 0 2"},
		{Query{Text: "fox", K: 10, MinScore: 0.5}, "1 0"},
		{Query{Text: "fox", K: 10, MinScore: 1}, "1"},
		{Query{Text: "fox", K: 10, MinScore: 1.1}, ""},
		{Query{Text: "fox", K: 10, MinScore: -3}, "1 0 2"},
		{Query{Text: "fox", K: 10, MinScore: math.NaN()}, ""},
		{Query{Text: "fox", K: 1, Match: func(id int) bool { return id != 1 }}, "0"},
		{Query{Text: "fox", K: 9, Match: func(int) bool { return false }}, ""},
		{Query{Text: "whale", K: 9, Match: func(id int) bool { return id == 3 }}, "3"},
	} {
		if got := ids(x.Search(c.q)); got != c.want {
			t.Errorf("%+v: found %s, want %s", c.q, got, c.want)
		}
	}
}

// TestMatchCalls checks that Search calls Match at most once per document.
func TestMatchCalls(t *testing.T) {
	x := New()
	const docs = 500
	for id := range docs {
		x.Put(id, strings.Repeat("a b c ", 1+id%7)+strings.Repeat("d ", id%11)+fmt.Sprint(id))
	}
	for _, found := range []int{0, 3} {
		asked := 0
		hits := x.Search(Query{Text: "a b c d", K: 3, Match: func(int) bool { asked++; return found > 0 }})
		if len(hits) != found || asked == 0 || asked > docs {
			t.Errorf("found %v, %d calls of Match for %d documents", hits, asked, docs)
		}
	}
}

func TestPutDelete(t *testing.T) {
	x := New()
	if x.Delete(0) || x.Delete(-1) || x.Delete(7) {
		t.Error("deleted a document that does not exist")
	}
	x.Put(5, "red fox")
	x.Put(2, "red whale")
	x.Put(5, "blue fox")
	if got := ids(x.Search(Query{Text: "red", K: 9})); x.Len() != 2 || got != "2" {
		t.Errorf("%d documents, found %s, want 2", x.Len(), got)
	}
	if !x.Delete(2) || x.Delete(2) || x.Delete(3) || x.Len() != 1 {
		t.Errorf("%d documents after a deletion", x.Len())
	}
	if hits := x.Search(Query{Text: "fox whale", K: 9}); ids(hits) != "5" || hits[0].Score >= 1 {
		t.Errorf("found %v", hits)
	}
	x.Delete(5)
	if hits := x.Search(Query{Text: "fox", K: 9}); len(hits) > 0 || x.Len() != 0 || len(x.numbers) != 0 {
		t.Errorf("found %v in an empty index, %d documents, %d terms", hits, x.Len(), len(x.numbers))
	}
}

func TestPutRefusesIDs(t *testing.T) {
	for _, id := range []int{-1, MaxID + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("document %d was put", id)
				}
			}()
			New().Put(id, "fox")
		}()
	}
}

// TestChurn checks that deleted documents use no memory.
func TestChurn(t *testing.T) {
	x := New()
	for i := range 5000 {
		id := i % 10
		x.Put(id, strings.Repeat(fmt.Sprintf("fox%d ", i), 70)+fmt.Sprintf("den%d often", i))
		if i%3 == 0 {
			x.Delete(id)
		}
	}
	if len(x.terms) > 21 || len(x.numbers) > 21 || len(x.large) > 10 || len(x.docs) != 10 {
		t.Errorf("%d term slots, %d terms, %d large counts, %d ids", len(x.terms), len(x.numbers), len(x.large), len(x.docs))
	}
	for id := 10; id < 1000; id++ {
		x.Put(id, "often")
	}
	for id := 10; id < 1000; id++ {
		x.Delete(id)
	}
	if n := cap(x.terms[x.numbers["often"]].postings); n > 50 {
		t.Errorf("capacity of %d postings for %d documents", n, x.Len())
	}
	if hits := x.Search(Query{Text: "fox4993 fox4994 fox4995 fox4996 often", K: 20}); len(hits) != x.Len() {
		t.Errorf("%d documents, found %v", x.Len(), hits)
	}
}

// TestManyWords indexes more words than the word cache holds; a full cache is
// cleared.
func TestManyWords(t *testing.T) {
	x := New()
	const words = cacheMax + 2000
	for id := range words / 1000 {
		var b strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&b, "w%d ", id*1000+i)
		}
		x.Put(id, b.String())
	}
	if len(x.cache) == 0 || len(x.cache) > cacheMax {
		t.Errorf("%d words are cached", len(x.cache))
	}
	for id := range words / 1000 {
		if got := ids(x.Search(Query{Text: fmt.Sprintf("w%d w%d", id*1000, id*1000+999), K: 2})); got != fmt.Sprint(id) {
			t.Errorf("found %s, want %d", got, id)
		}
	}
}

// TestConcurrentReads runs searches, explanations and snapshots concurrently, for
// the race detector.
func TestConcurrentReads(t *testing.T) {
	c := newCorpus(1)
	x := indexOf(c.texts(300, 20)...)
	queries := c.texts(20, 4)
	want, file := make([][]Hit, len(queries)), snapshot(t, x, "")
	for i, q := range queries {
		want[i] = x.Search(Query{Text: q, K: 5})
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i, q := range queries {
				if got := x.Search(Query{Text: q, K: 5}); !slices.Equal(got, want[i]) {
					t.Errorf("%q: %v, want %v", q, got, want[i])
				}
				if len(want[i]) > 0 && x.Explain(q, want[i][0].ID) == nil {
					t.Errorf("%q: no explanation", q)
				}
			}
			if !bytes.Equal(snapshot(t, x, ""), file) {
				t.Error("the snapshot has changed")
			}
		})
	}
	wg.Wait()
}

// TestPanicInMatch checks that the index is usable after a panic in Match.
func TestPanicInMatch(t *testing.T) {
	x := indexOf("red fox", "blue fox")
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Search did not panic")
			}
		}()
		x.Search(Query{Text: "fox", K: 1, Match: func(int) bool { panic("no") }})
	}()
	if hits := x.Search(Query{Text: "fox", K: 9}); ids(hits) != "1 0" {
		t.Errorf("found %v", hits)
	}
}
