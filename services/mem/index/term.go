package index

import (
	"cmp"
	"slices"
)

// term is a term with the documents that contain it.
type term struct {
	name     string
	postings []posting // sorted by id
	stem     uint32    // number of the stem of a form; its own for other terms
	most     uint32    // largest count that a document of the list has had
}

// find returns the index of a document's posting, or where to insert it.
func (t *term) find(id uint32) (int, bool) {
	if last := len(t.postings) - 1; last < 0 || t.postings[last].key() < id {
		return last + 1, false
	}
	return slices.BinarySearchFunc(t.postings, id, func(p posting, id uint32) int { return cmp.Compare(p.key(), id) })
}

// insert adds a posting, or replaces that of the same document. count is its count.
func (t *term) insert(p posting, count int) {
	t.most = max(t.most, uint32(count))
	if at, there := t.find(p.key()); there {
		t.postings[at] = p
	} else {
		t.postings = slices.Insert(t.postings, at, p)
	}
}

func (t *term) remove(at int) {
	t.postings = slices.Delete(t.postings, at, at+1)
	if cap(t.postings) > 4*len(t.postings) {
		t.postings = slices.Clone(t.postings)
	}
}

// word returns the number of a word's term: its form if it is plain, else its stem. It
// adds a missing term.
func (x *Index) word(w Word) uint32 {
	plain := w.Plain && !x.formula.literal
	x.name = x.name[:0]
	if plain {
		x.name = append(x.name, '=')
	}
	x.name = append(x.name, w.Folded...)
	if n, known := x.numbers[string(x.name)]; known {
		return n
	}
	n := x.number(string(x.name))
	if plain {
		stem := x.number(w.Stem())
		x.terms[n].stem = stem
	}
	return n
}

// isForm reports whether a term is the form of a word.
func isForm(name string) bool { return name[0] == '=' }

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
	x.terms[n] = term{name: name, stem: n}
	x.numbers[name] = n
	if !isForm(name) {
		x.stems[len(name)]++
	}
	return n
}

// forget removes a term without documents.
func (x *Index) forget(number uint32) {
	name := x.terms[number].name
	delete(x.numbers, name)
	if n := len(name); !isForm(name) {
		if x.stems[n]--; x.stems[n] == 0 {
			delete(x.stems, n)
		}
	}
	x.free = append(x.free, number)
	x.terms[number] = term{}
}
