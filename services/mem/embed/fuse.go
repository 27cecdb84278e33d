package embed

import (
	"cmp"
	"slices"
)

// Depth is the number of leading ids of each ranking that Fuse takes.
const Depth = 100

// Fused is an id with its score, above 0 to 1.
type Fused struct {
	ID    int
	Score float64
}

// Fuse merges two rankings of ids by their ranks, since scores of two methods do not
// compare: 30.5·(1/(60+r₁) + 1/(60+r₂)), ranks from 1, where a missing rank gives 0.
// The score is 1 for an id that is the first of both. Equal scores: larger id first.
func Fuse(a, b []int) []Fused {
	scores := map[int]float64{}
	for _, ranking := range [][]int{a, b} {
		for i, id := range ranking[:min(len(ranking), Depth)] {
			scores[id] += 30.5 / float64(60+i+1)
		}
	}
	list := make([]Fused, 0, len(scores))
	for id, score := range scores {
		list = append(list, Fused{id, score})
	}
	slices.SortFunc(list, func(a, b Fused) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.ID, a.ID)) })
	return list
}
