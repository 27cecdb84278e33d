package index

import "cmp"

// compareHits orders hits best first.
func compareHits(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.ID, a.ID))
}

// top holds the best hits. When there are as many as are wanted it is a heap
// with the worst of them in front.
type top []Hit

// offer keeps h if it is among the k best so far.
func (t *top) offer(h Hit, k int) {
	switch {
	case len(*t) < k:
		if *t = append(*t, h); len(*t) == k {
			for i := k/2 - 1; i >= 0; i-- {
				t.sink(i)
			}
		}
	case compareHits(h, (*t)[0]) < 0:
		(*t)[0] = h
		t.sink(0)
	}
}

// sink moves the hit at i below those that are worse.
func (t top) sink(i int) {
	for {
		worst := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(t); child++ {
			if compareHits(t[child], t[worst]) > 0 {
				worst = child
			}
		}
		if worst == i {
			return
		}
		t[i], t[worst] = t[worst], t[i]
		i = worst
	}
}
