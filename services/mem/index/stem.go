package index

import (
	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
)

// stemMax is the number of letters above which a word is not English.
const stemMax = 40

// stem returns the term of a word: the stem of a word that may be English, else the
// word itself.
func (w word) stem() string {
	term := string(w.folded)
	if !w.plain || len(term) < 3 || len(term) > stemMax {
		return term
	}
	env := snowballstem.NewEnv(term)
	english.Stem(env)
	return env.Current()
}
