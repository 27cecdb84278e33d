package index

import (
	"cmp"
	"slices"
)

// term is a term with the documents that contain it.
type term struct {
	name     string
	postings []posting // sorted by id
	log      float64   // ln(1+df)
	cached   float64   // the log that the cached norms were computed with
	uses     uint32    // number of earlier terms with this number
}

// find returns the index of a document's posting, or where to insert it.
func (t *term) find(id uint32) (int, bool) {
	return slices.BinarySearchFunc(t.postings, id, func(p posting, id uint32) int { return cmp.Compare(p.key(), id) })
}

func (t *term) insert(p posting) {
	if last := len(t.postings) - 1; last < 0 || t.postings[last].key() < p.key() {
		t.postings = append(t.postings, p)
		return
	}
	at, _ := t.find(p.key())
	t.postings = slices.Insert(t.postings, at, p)
}

func (t *term) remove(id uint32) {
	at, _ := t.find(id)
	t.postings = slices.Delete(t.postings, at, at+1)
	if cap(t.postings) > 4*len(t.postings) {
		t.postings = slices.Clone(t.postings)
	}
}

// wordCache maps words to their terms. Most words of a text are frequent, and
// stemming one takes ten times as long as everything else.
type wordCache map[key]cachedTerm

// key is a word of up to 16 bytes, padded with zeros. Longer words are rare, and a
// map with string keys would be twice as slow.
type key [16]byte

// cachedTerm is the number of a word's term. It is valid while uses equals that of the
// term.
type cachedTerm struct{ number, uses uint32 }

// cacheMax is the number of words at which the cache is cleared.
const cacheMax = 1 << 16

func keyOf(word []byte) (k key, short bool) {
	short = copy(k[:], word) == len(word)
	return k, short
}

// term returns the number of a word's term. It adds a missing term.
func (x *Index) term(w Word) uint32 {
	k, short := keyOf(w.Folded)
	if s, there := x.cache[k]; there && short && x.terms[s.number].uses == s.uses {
		return s.number
	}
	n := x.number(w.Stem())
	if len(x.cache) >= cacheMax {
		clear(x.cache)
	}
	if short {
		x.cache[k] = cachedTerm{n, x.terms[n].uses}
	}
	return n
}

// lookup returns the number of a word's term, or the term itself if no document
// contains it. It does not change the index: searches run concurrently.
func (x *Index) lookup(w Word) (number uint32, there bool, name string) {
	k, short := keyOf(w.Folded)
	if s, there := x.cache[k]; there && short && x.terms[s.number].uses == s.uses {
		return s.number, true, ""
	}
	name = w.Stem()
	number, there = x.numbers[name]
	return number, there, name
}

// number returns the number of a term. It adds a missing term.
func (x *Index) number(name string) uint32 {
	n, known := x.numbers[name]
	if known {
		return n
	}
	if last := len(x.free) - 1; last >= 0 {
		n, x.free = x.free[last], x.free[:last]
	} else {
		n = uint32(len(x.terms))
		x.terms = append(x.terms, term{})
	}
	x.terms[n].name = name
	x.numbers[name] = n
	return n
}

// moved updates a term after its df has changed, and removes it at 0.
func (x *Index) moved(number uint32) {
	t := &x.terms[number]
	if len(t.postings) == 0 {
		delete(x.numbers, t.name)
		x.free = append(x.free, number)
		*t = term{uses: t.uses + 1}
		return
	}
	t.log = logOf(1 + len(t.postings))
	if diff := t.log - t.cached; diff > drift || diff < -drift {
		x.refresh(number, t)
	}
}
