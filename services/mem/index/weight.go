package index

import "math"

// drift is how far ln(1+df) of a term may move before the norms of its
// documents are refreshed. Half of it makes storing twice as expensive, twice
// of it gives searches more candidates.
const drift = 0.05

// sublinear has 1 + ln count for the counts that a post can hold. A word
// that stands ten times in a text is not ten times as important.
var sublinear = func() (w [many]float64) {
	for n := 1; n < many; n++ {
		w[n] = 1 + math.Log(float64(n))
	}
	return w
}()

// weight is the part of a term's weight in a document that depends on its count.
func (x *Index) weight(id, term uint32, count post) float64 {
	if count < many {
		return sublinear[count]
	}
	return weightOf(x.large[place{id, term}])
}

// weightOf returns the weight of any count.
func weightOf(count int) float64 {
	if count < many {
		return sublinear[count]
	}
	return 1 + math.Log(float64(count))
}

func logOf(n int) float64 { return math.Log(float64(n)) }

// level is the part of every idf that depends on the number of documents: the
// idf of a term is level less its log. It is never below 1.
func (x *Index) level() float64 { return 1 + logOf(1+x.live) }

// norm is the length of a document's vector, squared, as a polynomial of
// level: the sum of (w·(level-log))² over its terms is a·level² - 2b·level + c.
// The logs are those that the terms have as cached.
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

// square is the length of the vector, squared. Each cached log is off by drift
// at most, so the vector is by drift·√a at most; and every idf is 1 or more, so
// the exact length is √a or more. Hence the length lies within 1-drift and
// 1+drift of the exact one.
func (n *norm) square(level float64) float64 { return (n.a*level-2*n.b)*level + n.c }

// refresh brings the norms of a term's documents up to date with it, and
// somewhat ahead, so that they last twice as long.
func (x *Index) refresh(number uint32, t *term) {
	target := t.log + math.Copysign(drift*0.9, t.log-t.cached)
	first, second := target-t.cached, target*target-t.cached*t.cached
	for _, p := range t.posts {
		w := x.weight(p.key(), number, p.count())
		n := &x.norms[p.key()]
		n.b += w * w * first
		n.c += w * w * second
	}
	t.cached = target
}
