package index

import (
	"encoding/binary"
	"io"
)

// Snapshot writes the index in a form that Restore reads much faster than the
// texts could be put again. The stamp, up to 4096 bytes, says which texts it
// is of.
func (x *Index) Snapshot(w io.Writer, stamp []byte) error {
	return writeFrame(w, stamp, x.appendDocs(x.appendTerms(nil)))
}

func (x *Index) appendTerms(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(x.numbers)))
	for _, t := range x.terms {
		if t.name != "" {
			b = appendString(b, t.name)
		}
	}
	return b
}

// appendDocs numbers the terms anew, without those that are free.
func (x *Index) appendDocs(b []byte) []byte {
	numbers, next := make([]uint32, len(x.terms)), uint32(0)
	for i, t := range x.terms {
		numbers[i] = next
		if t.name != "" {
			next++
		}
	}
	b = binary.AppendUvarint(b, uint64(len(x.docs)))
	for id, doc := range x.docs {
		if doc == nil {
			b = append(b, 0)
			continue
		}
		b = binary.AppendUvarint(b, 1+uint64(len(doc)))
		before := uint32(0)
		for _, p := range doc {
			n := numbers[p.key()]
			b = binary.AppendUvarint(b, uint64(n-before))
			b = binary.AppendUvarint(b, uint64(x.count(uint32(id), p)))
			before = n
		}
	}
	return b
}

// count is how often the term of a document's post stands in it.
func (x *Index) count(id uint32, p post) int {
	if p.count() < many {
		return int(p.count())
	}
	return x.large[place{id, p.key()}]
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
