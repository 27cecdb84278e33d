package index

import (
	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
)

// longestStemmed is in letters; a longer word is not English.
const longestStemmed = 40

// stem is the term of a word: its stem if it may be English.
func (w word) stem() string {
	term := string(w.folded)
	if !w.plain || len(term) < 3 || len(term) > longestStemmed {
		return term
	}
	env := snowballstem.NewEnv(term)
	english.Stem(env)
	return env.Current()
}
