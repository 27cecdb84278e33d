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
	case 2, 3, 4:
		return p.c.text(9) + " the ist la tell " + p.c.text(5)
	case 1:
		return strings.Repeat(p.c.text(1)+" ", 50+p.rng.IntN(30)) + p.c.text(5)
	}
	return p.c.text(1 + p.rng.IntN(40))
}

// query returns words of the corpus, function words, and words with other endings, for
// which a prefix may stand in.
func (p *pair) query() string {
	var b strings.Builder
	for range 1 + p.rng.IntN(8) {
		w := p.c.text(1)
		switch p.rng.IntN(6) {
		case 0:
			w = [...]string{"the", "is", "tell", "der", "ist", "est", "la", "en", "quelle"}[p.rng.IntN(9)]
		case 1:
			w += [...]string{"ish", "zq", "bar"}[p.rng.IntN(3)]
		}
		b.WriteString(w + " ")
	}
	return b.String()
}

func (p *pair) search(t *testing.T) {
	t.Helper()
	q := Query{Text: p.query(), K: 1 + p.rng.IntN(12)}
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

// consistent checks what the index keeps of the documents.
func (p *pair) consistent(t *testing.T) {
	t.Helper()
	total, stems := 0, 0
	for id, doc := range p.naive {
		if total += int(doc.length); p.lengths[id] != uint32(doc.length) {
			t.Errorf("document %d has the length %d, want %v", id, p.lengths[id], doc.length)
		}
	}
	for name, n := range p.numbers {
		if len(p.terms[n].postings) == 0 || p.terms[n].name != name {
			t.Errorf("term %q is in no document", name)
		}
		if !isForm(name) {
			stems++
		}
	}
	for _, n := range p.stems {
		stems -= n
	}
	if p.Len() != len(p.naive) || p.total != total || stems != 0 {
		t.Errorf("%d documents, want %d; the sum of the lengths is %d, want %d; %d stems not counted", p.Len(), len(p.naive), p.total, total, stems)
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
				p.search(t)
				p.consistent(t)
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
		p.consistent(t)
	}
	for id := range p.ids { // and back to a few
		if id%20 != 0 {
			p.drop(id)
		}
	}
	p.consistent(t)
	for range 10 {
		p.search(t)
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

// TestUnusualTexts searches documents and queries of extreme lengths and of scripts
// without spaces.
func TestUnusualTexts(t *testing.T) {
	p := newPair(13)
	long := strings.Repeat("a", 3000)
	queries := []string{"the of is", "tell me", "der die das", "a", "b", "7", long, long + "b", "โรงแรม", "東京の犬", "𝒜", strings.Repeat("the ", 10_000)}
	texts := []string{"a", "7", " ", long, p.c.text(150_000), "โรงแรมอยู่ที่ไหน", "東京に住む犬", "ಕನ್ನಡ", "the of is tell me", strings.Repeat("犬", 300_000)}
	queries = append(queries, p.c.text(10_000))
	for id, text := range texts {
		p.put(id, text)
	}
	for range 20 {
		p.step()
	}
	p.consistent(t)
	for _, text := range queries {
		scores := p.naive.scores(text)
		for _, k := range []int{1, 3, 100} {
			hits := p.Search(Query{Text: text, K: k})
			check(t, hits, scores, Query{Text: text[:min(20, len(text))], K: k})
			for _, h := range hits {
				sum := 0.0
				for _, e := range p.Explain(text, h.ID) {
					sum += e.Weight
				}
				if math.Abs(sum-h.Score) > 1e-12 {
					t.Errorf("%.20q, document %d: the shares sum up to %v, the score is %v", text, h.ID, sum, h.Score)
				}
			}
		}
	}
	for id := range texts {
		p.drop(id)
	}
	p.consistent(t)
}
