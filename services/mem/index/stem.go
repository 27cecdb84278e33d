package index

import (
	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
)

// stemMax is the number of letters above which a word is not English.
const stemMax = 40

// Stem returns the term of a word: the stem of a word that may be English, else the
// word itself.
func (w Word) Stem() string {
	term := string(w.Folded)
	if !w.Plain || len(term) < 3 || len(term) > stemMax {
		return term
	}
	env := snowballstem.NewEnv(term)
	english.Stem(env)
	return env.Current()
}
