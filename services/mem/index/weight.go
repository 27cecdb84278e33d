package index

import "math"

// drift is how far ln(1+df) of a term may change before the norms of its documents
// are refreshed. Half the value makes Put twice as expensive, twice the value gives
// searches more candidates.
const drift = 0.05

// sublinear contains 1 + ln count for the counts that fit into a posting. A word that
// occurs ten times in a text is not ten times as important.
var sublinear = func() (w [countMax]float64) {
	for n := 1; n < countMax; n++ {
		w[n] = 1 + math.Log(float64(n))
	}
	return w
}()

// weight returns the part of a term's weight in a document that depends on its count.
func (x *Index) weight(id, term uint32, count posting) float64 {
	if count < countMax {
		return sublinear[count]
	}
	return weightOf(x.large[docTerm{id, term}])
}

// weightOf is weight for any count.
func weightOf(count int) float64 {
	if count < countMax {
		return sublinear[count]
	}
	return 1 + math.Log(float64(count))
}

func logOf(n int) float64 { return math.Log(float64(n)) }

// level returns the part of the idf that is the same for all terms: the idf of a term
// is level less its log. It is at least 1.
func (x *Index) level() float64 { return 1 + logOf(1+x.live) }

// norm is the squared length of a document's vector as a polynomial in level: the sum
// of (w·(level-log))² over its terms is a·level² - 2b·level + c. The logs are the
// cached ones of the terms.
type norm struct {
	a, b, c float64 // sums of w², w²·log, w²·log²
}

// norm computes a document's norm from its terms.
func (x *Index) norm(id uint32) (n norm) {
	for _, p := range x.docs[id] {
		w, log := x.weight(id, p.key(), p.count()), x.terms[p.key()].cached
		n.a += w * w
		n.b += w * w * log
		n.c += w * w * log * log
	}
	return n
}

// square returns the squared length. The error of each cached log is at most drift, so
// that of the vector is at most drift·√a; and every idf is at least 1, so the exact
// length is at least √a. Hence the length is the exact one times 1-drift to 1+drift.
func (n *norm) square(level float64) float64 { return (n.a*level-2*n.b)*level + n.c }

// refresh updates the norms of a term's documents. It moves the cached log beyond the
// present one, in the direction of the change, so that the next refresh is twice as
// far away.
func (x *Index) refresh(number uint32, t *term) {
	target := t.log + math.Copysign(drift*0.9, t.log-t.cached)
	first, second := target-t.cached, target*target-t.cached*t.cached
	for _, p := range t.postings {
		w := x.weight(p.key(), number, p.count())
		n := &x.norms[p.key()]
		n.b += w * w * first
		n.c += w * w * second
	}
	t.cached = target
}
