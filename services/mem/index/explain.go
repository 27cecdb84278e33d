package index

import (
	"cmp"
	"math"
	"slices"
)

// Explanation is what one word of a query adds to a score.
type Explanation struct {
	Word   string  // as it stands in the query, where it stands first
	Weight float64 // above 0; the sum of all is the score
}

// Explain says which words of a query make the score of the document id, those
// that add most first. There are none if there is no such document, or if it
// shares no word with the query.
func (x *Index) Explain(text string, id int) []Explanation {
	if id < 0 || id >= len(x.docs) {
		return nil
	}
	weights := x.shares(text, uint32(id))
	var list []Explanation
	split(text, func(w word) {
		n, known, _ := x.lookup(w)
		if share := weights[n]; known && share > 0 {
			list = append(list, Explanation{text[w.from:w.to], share})
			delete(weights, n)
		}
	})
	slices.SortStableFunc(list, func(a, b Explanation) int { return cmp.Compare(b.Weight, a.Weight) })
	return list
}

// shares is what each term of a query adds to the score of a document.
func (x *Index) shares(text string, id uint32) map[uint32]float64 {
	v := x.vector(text)
	sum, shares := 0.0, map[uint32]float64{}
	for _, p := range x.docs[id] {
		number := p.key()
		size := x.weight(id, number, p.count()) * (v.level - x.terms[number].log)
		sum += size * size
		if i, there := v.find(number); there {
			shares[number] = v.parts[i].size * size
		}
	}
	for number := range shares {
		shares[number] /= math.Sqrt(sum)
	}
	return shares
}

func (v *vector) find(number uint32) (int, bool) {
	return slices.BinarySearchFunc(v.parts, number, func(p part, n uint32) int { return cmp.Compare(p.number, n) })
}
