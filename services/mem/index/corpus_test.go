package index

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
)

// corpus generates texts with the word frequencies of a natural language: a few
// words are in almost every text, half of them in only one.
type corpus struct {
	rng   *rand.Rand
	zipf  *rand.Zipf
	words []string
}

func newCorpus(seed uint64) *corpus {
	rng := rand.New(rand.NewPCG(seed, 1))
	return &corpus{rng, rand.NewZipf(rng, 1.1, 2, 60_000), vocabulary()}
}

// vocabulary returns words that look like English, in several forms each.
var vocabulary = sync.OnceValue(func() []string {
	rng := rand.New(rand.NewPCG(3, 4))
	onsets := strings.Fields("b br c ch d dr f fl g gr h j k l m n p pl pr qu r s sh sl st t tr v w")
	nuclei := strings.Fields("a e i o u ea oo ai ou")
	codas := strings.Fields("n r l t ck nd st m p ng x ss")
	endings := []string{"", "", "s", "ing", "ed", "er", "ation", "ly", "ness"}
	seen := map[string]bool{}
	var words []string
	for len(words) < 60_001 {
		var b strings.Builder
		for range 1 + rng.IntN(1+min(2, len(words)/100)) {
			b.WriteString(onsets[rng.IntN(len(onsets))] + nuclei[rng.IntN(len(nuclei))])
		}
		b.WriteString(codas[rng.IntN(len(codas))] + endings[rng.IntN(len(endings))])
		w := b.String()
		if len(words)%50 == 49 {
			w = fmt.Sprint(len(words)) // numbers are words too
		}
		if !seen[w] {
			seen[w] = true
			words = append(words, w)
		}
	}
	return words
})

// text returns a text of about n words.
func (c *corpus) text(n int) string {
	var b strings.Builder
	for i := range n - n/4 + c.rng.IntN(n/2+1) {
		if i > 0 {
			b.WriteString([...]string{" ", " ", " ", ", ", ". "}[c.rng.IntN(5)])
		}
		b.WriteString(c.words[c.zipf.Uint64()])
	}
	return b.String()
}

func (c *corpus) texts(count, n int) []string {
	texts := make([]string, count)
	for i := range texts {
		texts[i] = c.text(n)
	}
	return texts
}
