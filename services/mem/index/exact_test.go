package index

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// pair is an index and what it must agree with.
type pair struct {
	*Index
	naive naive
	texts map[int]string
	rng   *rand.Rand
	c     *corpus
	ids   int // the next new one
}

func newPair(seed uint64) *pair {
	c := newCorpus(seed)
	return &pair{Index: New(), naive: naive{}, texts: map[int]string{}, rng: c.rng, c: c}
}

func (p *pair) put(id int, text string) {
	p.Put(id, text)
	p.naive.put(id, text)
	p.texts[id] = text
}

// step changes something: mostly it adds.
func (p *pair) step() {
	switch p.rng.IntN(10) {
	case 0: // an id that is there, or was
		p.put(p.rng.IntN(p.ids+1), p.text())
	case 1:
		id := p.rng.IntN(p.ids + 2)
		_, there := p.naive[id]
		if p.Delete(id) != there {
			panic(fmt.Sprint("deleted ", id, there))
		}
		delete(p.naive, id)
		delete(p.texts, id)
	case 2: // a hole, and a text that is there already
		p.ids += p.rng.IntN(3)
		p.put(p.ids, p.texts[p.rng.IntN(p.ids+1)])
		p.ids++
	default:
		p.put(p.ids, p.text())
		p.ids++
	}
}

func (p *pair) text() string {
	switch p.rng.IntN(30) {
	case 0:
		return "?!"
	case 1:
		return strings.Repeat(p.c.text(1)+" ", 50+p.rng.IntN(30)) + p.c.text(5)
	}
	return p.c.text(1 + p.rng.IntN(40))
}

func (p *pair) search(t *testing.T) {
	t.Helper()
	q := Query{Text: p.c.text(1 + p.rng.IntN(8)), K: 1 + p.rng.IntN(12)}
	switch p.rng.IntN(4) {
	case 0:
		q.MinScore = p.rng.Float64() / 2
	case 1:
		q.K = 1 << 40
	case 2:
		q.Match = func(id int) bool { return id%3 == 0 }
	}
	check(t, p.Search(q), p.naive.scores(q.Text), q)
}

// bounds holds what is cached of the documents against what it stands for.
func (p *pair) bounds(t *testing.T) {
	t.Helper()
	level := p.level()
	for id, doc := range p.docs {
		exact := 0.0
		for _, post := range doc {
			exact += math.Pow(p.weight(uint32(id), post.key(), post.count())*(level-p.terms[post.key()].log), 2)
		}
		cached := math.Sqrt(p.norms[id].square(level))
		if math.Abs(cached-math.Sqrt(exact)) > drift*math.Sqrt(exact)*(1+1e-9) {
			t.Errorf("document %d of %d: length %v, cached as %v", id, p.Len(), math.Sqrt(exact), cached)
		}
	}
}

// TestExact makes random changes and searches between them.
func TestExact(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			p := newPair(seed)
			for range 60 {
				for range 1 + p.rng.IntN(8) {
					p.step()
				}
				if p.Len() != len(p.naive) {
					t.Fatalf("%d documents, want %d", p.Len(), len(p.naive))
				}
				p.search(t)
				p.bounds(t)
			}
		})
	}
}

// TestExactMany does so with as many documents as it takes for a search to
// leave out the long lists.
func TestExactMany(t *testing.T) {
	p := newPair(9)
	for range 6 {
		for range 500 {
			p.step()
		}
		for range 4 {
			p.search(t)
		}
		p.bounds(t)
	}
	for id := range p.ids { // and back to a few
		if id%20 != 0 {
			p.Delete(id)
			delete(p.naive, id)
		}
	}
	p.bounds(t)
	for range 10 {
		p.search(t)
	}
}

// TestCloseScores has documents whose scores differ by less than what the
// cached lengths are off by, so that ranking by those would be wrong.
func TestCloseScores(t *testing.T) {
	p := newPair(5)
	for id := range 400 {
		p.put(id, fmt.Sprintf("needle rare%d mid%d mid%d often%d", id, id%40, id%37, id%5))
	}
	wrong := 0
	for round := range 30 {
		for i := range 10 { // moves the weights of some terms, a little each
			p.put(400+round*10+i, fmt.Sprintf("mid%d mid%d often%d other%d", round, i, round%3, round))
		}
		q := Query{Text: "needle", K: 5}
		hits, scores := p.Search(q), p.naive.scores(q.Text)
		check(t, hits, scores, q)
		if !slices.Equal(hits, byCachedLength(p, q)) {
			wrong++
		}
	}
	if wrong == 0 {
		t.Error("the cached lengths alone gave the right hits; the test shows nothing")
	}
}

// byCachedLength ranks as a search would that computed no score exactly.
func byCachedLength(p *pair, q Query) []Hit {
	s := search{x: p.Index, q: q, vector: p.vector(q.Text), scratch: new(scratch)}
	s.begin()
	for _, part := range s.order {
		s.reach(part)
	}
	var hits []Hit
	for _, id := range s.reached {
		hits = append(hits, Hit{int(id), s.cosine(id)})
	}
	slices.SortFunc(hits, compareHits)
	hits = hits[:q.K]
	for i, h := range hits {
		hits[i].Score = p.score(&s.vector, uint32(h.ID))
	}
	return hits
}

// TestTies has scores that are equal but come from other sums.
func TestTies(t *testing.T) {
	x := New()
	for id := range 300 {
		x.Put(id, fmt.Sprintf("fox a%d b%d %c%d", id, id, 'a'+id%2, id)) // one of the rare words twice
		if id%3 == 0 {
			x.Put(id, "fox") // the best
		}
	}
	var want []int
	for _, best := range []bool{true, false} {
		for id := 299; id >= 0; id-- {
			if (id%3 == 0) == best {
				want = append(want, id)
			}
		}
	}
	for k := 1; k <= 300; k += 7 {
		var got []int
		for _, h := range x.Search(Query{Text: "fox", K: k}) {
			got = append(got, h.ID)
		}
		if !slices.Equal(got, want[:k]) {
			t.Fatalf("the best %d are %v, want %v", k, got, want[:k])
		}
	}
}
