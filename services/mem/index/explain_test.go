package index

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestExplain(t *testing.T) {
	x := indexOf("The user prefers dark roast coffee", "the user has a dark car", "東京に住む", "?!")
	for _, c := range []struct {
		query string
		id    int
		want  []string
	}{
		{"Which COFFEE does the user prefer?", 0, []string{"COFFEE", "prefer", "user", "the"}},
		{"preferences preferred", 0, []string{"preferences", "preferred"}},
		{"dark Dark car's", 1, []string{"car", "dark"}},
		{"東京タワー", 2, []string{"東京"}},
		{"Roaster coffeemaker", 0, []string{"Roaster roast", "coffeemaker coffe"}},
		{"Cafe\u0301", 0, nil},
		{"coffee", 1, nil},
		{"coffee", 3, nil},
		{"coffee", 4, nil},
		{"coffee", -1, nil},
		{"", 0, nil},
	} {
		var words []string
		for _, e := range x.Explain(c.query, c.id) {
			words = append(words, strings.TrimSpace(e.Word+" "+e.As))
		}
		if !slices.Equal(words, c.want) {
			t.Errorf("%q, document %d: %q, want %q", c.query, c.id, words, c.want)
		}
	}
}

// TestExplainSum checks that the sum of the words' weights is the score.
func TestExplainSum(t *testing.T) {
	c := newCorpus(4)
	x := indexOf(c.texts(200, 30)...)
	explained := 0
	for range 50 {
		query := c.text(8)
		for _, h := range x.Search(Query{Text: query, K: 3}) {
			list, sum := x.Explain(query, h.ID), 0.0
			for i, e := range list {
				sum += e.Weight
				if e.Weight <= 0 || i > 0 && e.Weight > list[i-1].Weight {
					t.Errorf("%q, document %d: the weights %v", query, h.ID, list)
				}
			}
			if math.Abs(sum-h.Score) > 1e-12 {
				t.Errorf("%q, document %d: the weights of %v are %v, the score is %v", query, h.ID, list, sum, h.Score)
			}
			explained++
		}
	}
	if explained < 100 {
		t.Errorf("only %d scores", explained)
	}
}

func ExampleIndex_Explain() {
	x := New()
	x.Put(0, "The user prefers dark roast coffee.")
	x.Put(1, "The user's car is dark blue.")
	for _, e := range x.Explain("coffee preferences", 0) {
		fmt.Printf("%s %.2f\n", e.Word, e.Weight)
	}
	// Output:
	// coffee 0.30
	// preferences 0.24
}
