package index

import (
	"cmp"
	"container/heap"
)

// compareHits orders hits best first.
func compareHits(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.ID, a.ID))
}

// top is a heap of the best hits with the worst of them in front.
type top []Hit

func (t top) Len() int           { return len(t) }
func (t top) Less(i, j int) bool { return compareHits(t[i], t[j]) > 0 }
func (t top) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *top) Push(h any)        { *t = append(*t, h.(Hit)) }
func (t *top) Pop() any {
	last := len(*t) - 1
	h := (*t)[last]
	*t = (*t)[:last]
	return h
}

// offer keeps h if it is among the k best so far.
func (t *top) offer(h Hit, k int) {
	if len(*t) < k {
		heap.Push(t, h)
	} else if compareHits(h, (*t)[0]) < 0 {
		(*t)[0] = h
		heap.Fix(t, 0)
	}
}
