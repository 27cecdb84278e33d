package index

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestTop(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		all := make([]Hit, rng.IntN(40))
		for id := range all {
			all[id] = Hit{id, float64(rng.IntN(10))} // many are equal
		}
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		k := 1 + rng.IntN(20)
		var best top
		for _, h := range all {
			best.offer(h, k)
		}
		slices.SortFunc(all, compareHits)
		want := all[:min(k, len(all))]
		if len(best) == k && best[0] != want[k-1] {
			t.Fatalf("the worst of the best %d of %v is %v", k, all, best[0])
		}
		if slices.SortFunc(best, compareHits); !slices.Equal(best, want) {
			t.Fatalf("the best %d of %v are %v", k, all, best)
		}
	}
}
