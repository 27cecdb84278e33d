package index

import (
	"iter"
	"math"
)

// The constants of the formula. They were tuned together.
const (
	k1 = 0.9
	b  = 0.4

	// FirstWords is the number of words at the beginning of a memory that count twice.
	FirstWords = 10
	// PrefixFactor is the factor for a stem that a prefix of it stands in for.
	PrefixFactor = 0.8

	stemShare      = 0.8 // of the stem in the part of a plain word
	formShare      = 0.2 // of the form
	functionWeight = 0.2 // of a function word
	prefixMin      = 4   // letters of a prefix that stands in for a stem
)

// formula is what a test changes to compare an index with another implementation of
// BM25.
type formula struct {
	k1, b   float64
	first   int // number of words that count twice
	idf     func(n, df int) float64
	literal bool // words are not stemmed, have no forms and weigh 1
}

var standard = formula{k1: k1, b: b, first: FirstWords, idf: IDF}

// QueryWord is one of the distinct words of a query.
type QueryWord struct {
	Text   string  // as in the query, where the word occurs first
	Stem   string  // the term of the word
	Form   string  // the term of its form; "" if the word is not plain
	Weight float64 // 1, or less for a function word

	folded string
}

// ParseQuery returns the distinct words of a query in the order of their first
// occurrence.
func ParseQuery(text string) []QueryWord {
	var query []QueryWord
	var all []string
	seen := map[string]bool{}
	Split(text, func(w Word) {
		folded := string(w.Folded)
		all = append(all, folded)
		if seen[folded] {
			return
		}
		seen[folded] = true
		q := QueryWord{Text: text[w.From:w.To], Stem: w.Stem(), Weight: 1, folded: folded}
		if w.Plain {
			q.Form = "=" + folded
		}
		query = append(query, q)
	})
	list, functions := functionList(all), 0
	for i, w := range query {
		if functionWords()[w.folded]&list != 0 {
			query[i].Weight = functionWeight
			functions++
		}
	}
	if functions == len(query) {
		for i := range query {
			query[i].Weight = 1
		}
	}
	return query
}

// Part combines what the stem and the form of a word give: their IDF, or with
// Saturation the part of the word in a score.
func (w QueryWord) Part(stem, form float64) float64 {
	if w.Form == "" {
		return float64(w.Weight * stem)
	}
	return float64(w.Weight * (float64(stemShare*stem) + float64(formShare*form)))
}

// Prefixes returns the terms that may stand in for the stem if no document has it, the
// preferred one first. What a stem gives is multiplied by PrefixFactor then.
func (w QueryWord) Prefixes() iter.Seq[string] {
	return func(yield func(string) bool) {
		for n := len(w.Stem) - 1; n >= prefixMin && w.Form != ""; n-- {
			if !yield(w.Stem[:n]) {
				return
			}
		}
	}
}

// IDF is the weight of a term that df of n documents have. It is above 0.
func IDF(n, df int) float64 {
	return math.Log(1 + (float64(n-df)+0.5)/(float64(df)+0.5))
}

// Saturation is the weight, from 0 to below 1, of a term that occurs count times in a
// document of the given length, where average is the mean length of all documents.
func Saturation(count, length int, average float64) float64 {
	tf := float64(count)
	return tf / (tf + k1*(1-b+float64(b*float64(length))/average))
}

// grain is the unit of scores.
const grain = 1.0 / (1 << 40)

// Round rounds a score above 0 to a multiple of 2^-40, so that rounding errors do not
// decide the order of equal scores.
func Round(score float64) float64 {
	return max(grain, math.Round(score/grain)*grain)
}
