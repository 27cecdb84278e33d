package mem

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"

	"zino/services/mem/index"
	"zino/services/mem/store"
)

// step is the smallest difference of scores that is told.
const step = 1e-4

// hit is a memory that was found, before it is read.
type hit struct {
	ref
	score float64
	words []store.Share
}

// Search finds the memories nearest to a query.
func (m *memories) Search(_ context.Context, q store.Query) (results []store.Result, err error) {
	if q.K <= 0 || isBlank(q.Text) {
		return nil, nil
	}
	var hits []hit
	err = m.reading(func(c *catalog) { hits = c.search(q) }, func() error {
		results, err = read(hits, q.Room)
		return err
	})
	return results, err
}

// read reads the memories that were found. In a reply the messages of each are
// surrounded by its id, its tag, its score and words.
func read(hits []hit, room int) (results []store.Result, err error) {
	size := 0
	for _, h := range hits {
		r := store.Result{Score: h.score, Words: h.words}
		if r.Memory, err = h.memory(); err != nil {
			return nil, err
		}
		size += len(r.Messages) + len(r.Tag) + around
		for _, w := range r.Words {
			size += len(w.Word) + around
		}
		if room > 0 && size > room {
			return nil, store.ErrTooLarge
		}
		results = append(results, r)
	}
	return results, nil
}

// around is what the keys and numbers of a result take in a reply, in bytes.
const around = 64

func (c *catalog) search(q store.Query) (hits []hit) {
	for _, h := range c.index.Search(index.Query{Text: q.Text, K: q.K, MinScore: q.MinScore - step/2, Match: c.match(q.Filter)}) {
		f := hit{ref: c.ref(h.ID), score: rounded(h.Score)}
		if f.score < q.MinScore {
			continue
		}
		if q.Explain {
			f.words = shares(c.index.Explain(q.Text, h.ID), f.score)
		}
		hits = append(hits, f)
	}
	// Of those that are equal once they are rounded the most recent is the first.
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.id, a.id)) })
	return hits
}

// rounded is a score as it is told: 1 only if it is, and never 0.
func rounded(score float64) float64 {
	steps := math.Round(score / step)
	if score < 1 {
		steps = min(steps, 1/step-1)
	}
	return max(steps, 1) / (1 / step)
}

// shares rounds what words add to a score so that the sum is the score.
func shares(list []index.Explanation, score float64) []store.Share {
	sum := 0.0
	for _, e := range list {
		sum += e.Weight
	}
	words := make([]store.Share, len(list))
	exact, told := 0.0, 0.0
	for i, e := range list {
		exact += e.Weight / sum * score / step
		until := math.Round(exact)
		words[i] = store.Share{Word: e.Word, Share: (until - told) / (1 / step)}
		told = until
	}
	return words
}

// page is how many memories Scan reads at a time.
const page = 64

// Scan walks memories from the newest on.
func (m *memories) Scan(ctx context.Context, f store.Filter) iter.Seq2[store.Memory, error] {
	return func(yield func(store.Memory, error) bool) {
		for {
			list, err := m.page(f)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(store.Memory{}, err)
				return
			}
			for _, v := range list {
				if !yield(v, nil) {
					return
				}
				f.Before = &v.ID
			}
			if len(list) < page {
				return
			}
		}
	}
}

// page reads the next memories that pass a filter.
func (m *memories) page(f store.Filter) (list []store.Memory, err error) {
	var refs []ref
	err = m.reading(func(c *catalog) { refs = c.newest(f, page) }, func() error {
		list = list[:0]
		for _, r := range refs {
			v, err := r.memory()
			if err != nil {
				return err
			}
			list = append(list, v)
		}
		return nil
	})
	return list, err
}

// newest returns the n newest memories that pass a filter, the newest first.
func (c *catalog) newest(f store.Filter, n int) (refs []ref) {
	last := len(c.docs)
	if f.Before != nil {
		last = min(last, *f.Before)
	}
	match := c.match(f)
	for id := last - 1; id >= 0 && len(refs) < n; id-- {
		if match(id) {
			refs = append(refs, c.ref(id))
		}
	}
	return refs
}
