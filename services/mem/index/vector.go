package index

import (
	"cmp"
	"math"
	"slices"
)

// vector is a query as a vector of length 1.
type vector struct {
	parts []part  // the terms that documents contain, sorted by number
	level float64 // Index.level at the time of the query
}

// part is a term of a query.
type part struct {
	number uint32
	count  int
	size   float64 // weight times idf, normalized
	idf    float64
}

// vector returns the vector of a query.
func (x *Index) vector(text string) vector {
	v := vector{parts: x.parts(text), level: x.level()}
	sum, known := 0.0, 0
	for i := range v.parts {
		p := &v.parts[i]
		p.idf = v.level
		if int(p.number) < len(x.terms) {
			p.idf -= x.terms[p.number].log
			known++
		}
		p.size = weightOf(p.count) * p.idf
		sum += p.size * p.size
	}
	length := math.Sqrt(sum)
	v.parts = v.parts[:known]
	for i := range v.parts {
		v.parts[i].size /= length
	}
	return v
}

// parts counts the terms of a text. Terms that no document contains get numbers
// above all others.
func (x *Index) parts(text string) []part {
	var parts []part
	unknown := map[string]uint32{}
	Split(text, func(w Word) {
		n, known, name := x.lookup(w)
		if !known {
			n, known = unknown[name]
		}
		if !known {
			n = uint32(len(x.terms) + len(unknown))
			unknown[name] = n
		}
		parts = append(parts, part{number: n, count: 1})
	})
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.number, b.number) })
	merged := parts[:0]
	for _, p := range parts {
		if last := len(merged) - 1; last >= 0 && merged[last].number == p.number {
			merged[last].count++
		} else {
			merged = append(merged, p)
		}
	}
	return merged
}

// score returns the exact score of a document that shares a term with the query, a
// multiple of grain: above 0, and 1 only if the vectors have the same direction.
func (x *Index) score(v *vector, id uint32) float64 {
	sum, dot, i := 0.0, 0.0, 0
	for _, p := range x.docs[id] {
		number := p.key()
		w := x.weight(id, number, p.count())
		size := w * (v.level - x.terms[number].log)
		sum += size * size
		for i < len(v.parts) && v.parts[i].number < number {
			i++
		}
		if i < len(v.parts) && v.parts[i].number == number {
			dot += v.parts[i].size * size
		}
	}
	s := math.Round(dot/math.Sqrt(sum)/grain) * grain
	if s >= 1 && !x.matches(v, id) {
		return 1 - grain
	}
	return max(grain, min(s, 1))
}

// matches reports whether query and document have the same terms in the same
// proportion. Terms that only the query has are not compared: with one of them the
// score is well below 1.
func (x *Index) matches(v *vector, id uint32) bool {
	doc := x.docs[id]
	if len(doc) != len(v.parts) {
		return false
	}
	ratio := 0.0
	for i, p := range doc {
		if p.key() != v.parts[i].number {
			return false
		}
		r := x.weight(id, p.key(), p.count()) / weightOf(v.parts[i].count)
		if i == 0 {
			ratio = r
		} else if math.Abs(r-ratio) > 1e-12*ratio {
			return false
		}
	}
	return true
}
