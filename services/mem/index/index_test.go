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

// TestScores compares scores with the formula written out.
func TestScores(t *testing.T) {
	ln := math.Log
	sat := func(tf, length, average float64) float64 { return tf / (tf + 0.9*(0.6+0.4*length/average)) }
	one, two := ln(1+0.5/1.5), ln(2) // the idf of a term in one of one or two documents
	for what, c := range map[string]struct {
		texts []string
		query string
		want  float64 // of the best
	}{
		"the same text":      {[]string{"red cat sat"}, "Red cat sat", sat(2, 6, 6)},
		"a word more":        {[]string{"cat"}, "cat dog", one * sat(2, 2, 2) / (one + ln(4))},
		"an unknown number":  {[]string{"cat"}, "cat 77", one * sat(2, 2, 2) / (one + ln(4))},
		"another document":   {[]string{"cat", "dog dog"}, "cat", sat(2, 2, 3)},
		"without words":      {[]string{"cat", "?!"}, "cat", sat(2, 2, 1)},
		"a function word":    {[]string{"the cat", "dog"}, "the cat", sat(2, 4, 3)},
		"only the function":  {[]string{"the cat", "dog"}, "the dog", sat(2, 2, 3) / 1.2},
		"the eleventh word":  {[]string{"0 1 2 3 4 5 6 7 8 9 10"}, "10", sat(1, 21, 21)},
		"the tenth word":     {[]string{"0 1 2 3 4 5 6 7 8 9 10"}, "9", sat(2, 21, 21)},
		"another form":       {[]string{"cats", "dog"}, "cat", 0.8 * two * sat(2, 2, 2) / (0.8*two + 0.2*ln(6))},
		"two forms":          {[]string{"cats cat", "dog"}, "cat", 0.8*sat(4, 4, 3) + 0.2*sat(2, 4, 3)},
		"two words, a stem":  {[]string{"cats", "dog"}, "cat cats", (1.6*two + 0.2*two) * sat(2, 2, 2) / (1.8*two + 0.2*ln(6))},
		"no form":            {[]string{"x86 4k", "dog"}, "x86", sat(2, 4, 3)},
		"a prefix":           {[]string{"photo", "dog"}, "photograph", 0.64 * two * sat(2, 2, 2) / ln(6)},
		"a prefix of five":   {[]string{"photo", "phot"}, "photograph", 0.64 * two * sat(2, 2, 2) / ln(6)},
		"a large count":      {[]string{strings.Repeat("cat ", 5000) + "dog"}, "cat", sat(5010, 5011, 5011)},
		"forms, large count": {[]string{strings.Repeat("cat cats ", 60) + "dog"}, "cat", 0.8*sat(130, 131, 131) + 0.2*sat(65, 131, 131)},
	} {
		hits := indexOf(c.texts...).Search(Query{Text: c.query, K: 1})
		if len(hits) != 1 || math.Abs(hits[0].Score-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", what, hits, c.want)
		}
	}
}

// TestPrefixLimits checks which words no prefix stands in for.
func TestPrefixLimits(t *testing.T) {
	x := indexOf("pho", "phot4", "abcd", "東京")
	for _, query := range []string{"phone", "phot", "phot4x", "abcé5", "=abcd5", "abc"} {
		if hits := x.Search(Query{Text: query, K: 1}); len(hits) > 0 {
			t.Errorf("%q: found %v", query, hits)
		}
	}
	long := strings.Repeat("a", 1<<20)
	x.Put(4, long)
	if got := ids(x.Search(Query{Text: long + "a abcdxx", K: 9})); got != "4 2" {
		t.Errorf("found %s", got)
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
		{Query{Text: "fox", K: 10, MinScore: 0.68}, "1 0"},
		{Query{Text: "fox", K: 10, MinScore: 0.7}, "1"},
		{Query{Text: "fox", K: 10, MinScore: 1}, ""},
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
	if len(x.terms) > 21 || len(x.numbers) > 21 || len(x.large) > 10 || len(x.stems) > 3 || len(x.docs) != 10 {
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
