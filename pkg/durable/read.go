package durable

import (
	"bytes"

	"zino/pkg/wire"
)

// Last returns the last n elements, or all if n is 0 or less: see Array.Last.
// The slices are the caller's.
func (t *Tx) Last(n int, limit int64) ([][]byte, error) {
	a := t.a
	for {
		if t.absent || a.salvaged != nil || a.broken != nil {
			return fit(a.salvaged, n, limit)
		}
		elems, ok, err := a.last(n, limit)
		if err != nil {
			return nil, err
		}
		if ok {
			return fit(elems, n, limit)
		}
		if err := a.recover(); err != nil {
			return nil, err
		}
	}
}

// last reads backwards from the end, in a window that grows until it holds n
// elements. It reports false if a line is not an element.
func (a *Array) last(n int, limit int64) (elems [][]byte, ok bool, err error) {
	if a.tip.bare {
		return nil, true, nil
	}
	end, window := a.tip.end, int64(firstWindow)
	most := 2*limit + firstWindow
	if n <= 0 {
		window = end
	}
	for {
		if limit > 0 {
			window = min(window, most)
		}
		start := max(0, end-window)
		data, err := a.read(start, end)
		if err != nil {
			return nil, false, err
		}
		rows, ok := split(data, start == 0)
		if start == 0 || n > 0 && len(rows) >= n {
			if n > 0 && len(rows) > n {
				rows = rows[len(rows)-n:]
			}
			return rows, ok && wellFormed(rows), nil
		}
		// A line has at most one byte more than its element in a reply, so
		// twice the limit cannot fit.
		if limit > 0 && window >= most {
			return nil, false, ErrTooLarge
		}
		window = wider(window, len(rows), n)
	}
}

// wider is the window to look for n elements in when the last one held fewer:
// a quarter more than they take if they are as long as those that it held.
func wider(window int64, held, n int) int64 {
	wide := window * windowGrow
	if held == 0 {
		return wide
	}
	return int64(min(float64(wide), 1.25*float64(window)*float64(n)/float64(held)))
}

// Since returns the elements behind a mark and a mark behind them. all is true
// if they are all there are, because the file is not the one that was marked,
// grown: whoever built something from what was read before builds it anew.
func (t *Tx) Since(m Mark) (elems [][]byte, next Mark, all bool, err error) {
	a := t.a
	for {
		if t.absent {
			return nil, Mark{gen: a.gen}, m.gen != a.gen, nil
		}
		if a.broken != nil {
			return a.salvaged, Mark{}, true, nil
		}
		all = m.gen != a.gen
		elems, ok, err := a.since(m, all)
		if err != nil {
			return nil, m, false, err
		}
		if ok {
			return elems, a.mark(), all, nil
		}
		if err := a.recover(); err != nil {
			return nil, m, false, err
		}
	}
}

// mark is a mark behind the last element.
func (a *Array) mark() Mark {
	if a.tip.bare {
		return Mark{gen: a.gen} // the first element is not preceded by a comma
	}
	return Mark{a.gen, a.tip.end}
}

func (a *Array) since(m Mark, all bool) (elems [][]byte, ok bool, err error) {
	start := m.end
	if all {
		start = 0
	}
	if a.tip.bare || start >= a.tip.end {
		return nil, true, nil
	}
	data, err := a.read(start, a.tip.end)
	if err != nil {
		return nil, false, err
	}
	// What follows a mark begins with the comma behind the element before it,
	// and a piece without its first line begins with a line break.
	if start > 0 && !bytes.HasPrefix(data, []byte(",\n")) {
		return nil, false, nil
	}
	elems, ok = split(data, start == 0)
	return elems, ok && wellFormed(elems), nil
}

// split cuts a piece of the file that ends with the last element into the
// elements of its lines. The part before the first line break belongs to no
// whole line, or is the opening bracket if the piece is at the file's head. It
// reports false if a line does not end as one must.
func split(data []byte, head bool) ([][]byte, bool) {
	first, rest, found := bytes.Cut(data, []byte("\n"))
	if !found {
		return nil, !head
	}
	ok := !head || string(trim(first)) == "["
	rows := make([][]byte, 0, bytes.Count(rest, []byte("\n"))+1)
	for more := true; more; {
		var row []byte
		row, rest, more = bytes.Cut(rest, []byte("\n"))
		row = trim(row)
		if more {
			bare, comma := bytes.CutSuffix(row, []byte(","))
			row, ok = trimRight(bare), ok && comma
		}
		rows = append(rows, row)
	}
	return rows, ok
}

func wellFormed(rows [][]byte) bool {
	for _, row := range rows {
		if !wire.Valid(row) {
			return false
		}
	}
	return true
}

// fit keeps the last n elements and holds them against the limit.
func fit(elems [][]byte, n int, limit int64) ([][]byte, error) {
	if n > 0 && len(elems) > n {
		elems = elems[len(elems)-n:]
	}
	size := int64(0)
	for _, e := range elems {
		size += int64(len(e)) + 1
	}
	if limit > 0 && size > limit+1 {
		return nil, ErrTooLarge
	}
	return elems, nil
}
