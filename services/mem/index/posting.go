package index

// countBits is the size of the count in a posting.
const countBits = 6

// MaxID is the largest id of a document.
const MaxID = 1<<(32-countBits) - 1

// countMax as the count of a posting means that the count is countMax or more and
// stored in Index.large.
const countMax = 1<<countBits - 1

// posting is the count of a term in a document and a key: the document's id in the
// list of a term, the term's number in a document.
type posting uint32

func (p posting) key() uint32 { return uint32(p >> countBits) }

func (p posting) count() posting { return p & countMax }

type docTerm struct{ id, term uint32 }

// keepCount returns the count to store in a posting. It stores a large count in
// x.large.
func (x *Index) keepCount(id, term uint32, count int) posting {
	if count < countMax {
		return posting(count)
	}
	if x.large == nil {
		x.large = map[docTerm]int{}
	}
	x.large[docTerm{id, term}] = count
	return countMax
}

// count returns the count of a posting, which is that of a term in a document.
func (x *Index) count(id, term uint32, p posting) int {
	if p.count() < countMax {
		return int(p.count())
	}
	return x.large[docTerm{id, term}]
}
