package index

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// pair is an index and a naive implementation with the same documents.
type pair struct {
	*Index
	naive naive
	texts map[int]string
	rng   *rand.Rand
	c     *corpus
	ids   int // the next new id
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

func (p *pair) drop(id int) bool {
	delete(p.naive, id)
	delete(p.texts, id)
	return p.Delete(id)
}

// step makes a random change, most often an addition.
func (p *pair) step() {
	switch p.rng.IntN(10) {
	case 0: // an id that is or was in use
		p.put(p.rng.IntN(p.ids+1), p.text())
	case 1:
		id := p.rng.IntN(p.ids + 2)
		_, there := p.naive[id]
		if p.drop(id) != there {
			panic(fmt.Sprintf("Delete(%d) returned %t, want %t", id, !there, there))
		}
	case 2: // skips some ids and adds a duplicate
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

// bounds checks that the cached lengths are within drift of the exact ones.
func (p *pair) bounds(t *testing.T) {
	t.Helper()
	level := p.level()
	for id, doc := range p.docs {
		exact := 0.0
		for _, posting := range doc {
			exact += math.Pow(p.weight(uint32(id), posting.key(), posting.count())*(level-p.terms[posting.key()].log), 2)
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

// TestExactMany is TestExact with so many documents that a search skips the long
// posting lists.
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
			p.drop(id)
		}
	}
	p.bounds(t)
	for range 10 {
		p.search(t)
	}
}

// TestCloseScores ranks documents whose scores differ by less than the error of the
// cached lengths, so that ranking by cached lengths would be wrong.
func TestCloseScores(t *testing.T) {
	p := newPair(5)
	for id := range 400 {
		p.put(id, fmt.Sprintf("needle rare%d mid%d mid%d often%d", id, id%40, id%37, id%5))
	}
	wrong := 0
	for round := range 30 {
		for i := range 10 { // slightly changes the weights of some terms
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
		t.Error("the cached lengths alone gave the right hits: the test needs other documents")
	}
}

// byCachedLength ranks by cached lengths alone.
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

// TestWorstBounds gives the cached weights of two terms the largest allowed error,
// one above and one below, with documents whose scores differ by less.
func TestWorstBounds(t *testing.T) {
	p := newPair(7)
	heavy := func(id int, word string) string { return strings.Repeat(word+" ", 40+id*7%50) }
	for id := range 300 {
		p.put(id, "needle upper lower "+heavy(id, [...]string{"upper", "lower"}[id%2]))
	}
	for round := range 12 {
		for i := range p.terms {
			t := &p.terms[i]
			t.cached = t.log
			if sign := float64(1 - 2*(round%2)); t.name == "upper" {
				t.cached += drift * sign
			} else if t.name == "lower" {
				t.cached -= drift * sign
			}
		}
		for id := range p.docs {
			p.norms[id] = p.norm(uint32(id))
		}
		p.bounds(t)
		q := Query{Text: "needle", K: 1 + round*5}
		check(t, p.Search(q), p.naive.scores(q.Text), q)
	}
}

// TestRestDecides searches for a rare word and frequent ones. The posting lists of
// the frequent words are not read, but these words decide the ranking.
func TestRestDecides(t *testing.T) {
	p := newPair(3)
	for id := range 1500 {
		text := "often0 often1 often2 often3 other0 other1 other2 other3"
		if id%100 == 0 {
			text = "rare"
			for i := range 4 {
				text += strings.Repeat(fmt.Sprintf(" often%d", i), p.rng.IntN(4)) + strings.Repeat(fmt.Sprintf(" other%d", i), p.rng.IntN(4))
			}
		}
		p.put(id, text)
	}
	for k := 1; k <= 16; k++ {
		q := Query{Text: "rare often0 often1 often2 often3", K: k}
		check(t, p.Search(q), p.naive.scores(q.Text), q)
	}
}

// TestTies checks that documents with equal scores rank by id, although the sums
// are computed in different orders.
func TestTies(t *testing.T) {
	x := New()
	rng := rand.New(rand.NewPCG(2, 2))
	for id := range 300 {
		var text strings.Builder
		text.WriteString("fox")
		for i, n := range rng.Perm(20) {
			text.WriteString(strings.Repeat(fmt.Sprintf(" w%dx%d", id, i), n))
		}
		x.Put(id, text.String())
	}
	hits := x.Search(Query{Text: "fox", K: 300})
	if !slices.IsSortedFunc(hits, func(a, b Hit) int { return b.ID - a.ID }) || hits[0].Score != hits[299].Score {
		t.Errorf("the equal hits are %v", hits)
	}
	for k := 1; k <= 300; k += 13 {
		if got := x.Search(Query{Text: "fox", K: k}); !slices.Equal(got, hits[:k]) {
			t.Fatalf("the best %d are %v, want %v", k, got, hits[:k])
		}
	}
}
