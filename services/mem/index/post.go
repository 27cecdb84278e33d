package index

// countBits is the size of the count in a post.
const countBits = 6

// MaxID is the largest id that a document can have.
const MaxID = 1<<(32-countBits) - 1

// many in the place of a count means that the count is many or more, and is in
// Index.large.
const many = 1<<countBits - 1

// post is a term in a document, with its count there. In the list of a term its
// key is the document's id, in a document the number of the term.
type post uint32

func (p post) key() uint32 { return uint32(p >> countBits) }

func (p post) count() post { return p & many }

// place is the place of a term in a document.
type place struct{ id, term uint32 }

// keepCount returns the count of a term for a post, and stores a large one.
func (x *Index) keepCount(id, term uint32, count int) post {
	if count < many {
		return post(count)
	}
	if x.large == nil {
		x.large = map[place]int{}
	}
	x.large[place{id, term}] = count
	return many
}

// forgetCount deletes the large count of a post, if it has one.
func (x *Index) forgetCount(id uint32, p post) {
	if p.count() == many {
		delete(x.large, place{id, p.key()})
	}
}
