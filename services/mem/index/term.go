package index

import (
	"cmp"
	"slices"
)

// term is a term with the documents that have it.
type term struct {
	name   string
	posts  []post  // by id
	log    float64 // ln(1+df)
	cached float64 // the log that the cached norms were computed with
	uses   uint32  // how many terms had the number before
}

// find is the place of document id in the list, or the one where it belongs.
func (t *term) find(id uint32) (int, bool) {
	return slices.BinarySearchFunc(t.posts, id, func(p post, id uint32) int { return cmp.Compare(p.key(), id) })
}

func (t *term) insert(p post) {
	if last := len(t.posts) - 1; last < 0 || t.posts[last].key() < p.key() {
		t.posts = append(t.posts, p)
		return
	}
	at, _ := t.find(p.key())
	t.posts = slices.Insert(t.posts, at, p)
}

func (t *term) remove(id uint32) {
	at, _ := t.find(id)
	t.posts = slices.Delete(t.posts, at, at+1)
	if cap(t.posts) > 4*len(t.posts) {
		t.posts = slices.Clone(t.posts)
	}
}

// known is a cache of words and their terms: most words of a
// text are frequent ones, for which finding the stem would take ten times as
// long as all else.
type known map[key]seen

// key is a word of up to 16 bytes, none of which is 0. Longer ones are rare,
// and a cache of strings would be twice as slow.
type key [16]byte

// seen is the term of a word, valid as long as the uses of the term's number are
// the same.
type seen struct{ number, uses uint32 }

// wordsKept is how many words a cache contains before it is emptied.
const wordsKept = 1 << 16

func keyOf(word []byte) (k key, short bool) {
	short = copy(k[:], word) == len(word)
	return k, short
}

// term is the number of a word's term, a new one if no document has it.
func (x *Index) term(w word) uint32 {
	k, short := keyOf(w.folded)
	if s, there := x.known[k]; there && short && x.terms[s.number].uses == s.uses {
		return s.number
	}
	n := x.number(w.stem())
	if len(x.known) >= wordsKept {
		clear(x.known)
	}
	if short {
		x.known[k] = seen{n, x.terms[n].uses}
	}
	return n
}

// lookup is the number of a word's term, or the term if no document has it. It
// changes nothing, for searches that run side by side.
func (x *Index) lookup(w word) (number uint32, there bool, name string) {
	k, short := keyOf(w.folded)
	if s, there := x.known[k]; there && short && x.terms[s.number].uses == s.uses {
		return s.number, true, ""
	}
	name = w.stem()
	number, there = x.numbers[name]
	return number, there, name
}

// number is the number of a term, a new one if it is not known.
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

// moved records that the number of documents with a term has changed.
func (x *Index) moved(number uint32) {
	t := &x.terms[number]
	if len(t.posts) == 0 {
		delete(x.numbers, t.name)
		x.free = append(x.free, number)
		*t = term{uses: t.uses + 1}
		return
	}
	t.log = logOf(1 + len(t.posts))
	if diff := t.log - t.cached; diff > drift || diff < -drift {
		x.refresh(number, t)
	}
}
