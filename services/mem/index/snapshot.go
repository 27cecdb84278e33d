package index

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"unicode/utf8"
)

// Snapshot writes the index in a form that Restore reads much faster than the
// texts could be put again. The stamp, up to 4096 bytes, identifies the texts.
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

// appendDocs appends the documents. Terms are numbered again, without free numbers.
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

// A snapshot is the following, all numbers but the last as encoding/binary's
// uvarints:
//
//	magic
//	version
//	length of the stamp, the stamp
//	length of the body, the body:
//	  number of terms; of each its length, its bytes
//	  number of ids; of each 0 if it has no document, else 1 and the number of
//	  its terms; of each the difference to the number of the term before, the
//	  count
//	CRC-32C of all before, four bytes, the lowest first
const magic = "zino index\n"

// version must be raised with every change of the format, and of Words: an index
// cannot be used with terms that queries do not have.
const version = 1

// longestStamp is in bytes.
const longestStamp = 4096

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// writeFrame writes a body with what is before and behind it.
func writeFrame(w io.Writer, stamp, body []byte) error {
	if len(stamp) > longestStamp {
		return fmt.Errorf("index snapshot: a stamp of %d bytes is longer than %d", len(stamp), longestStamp)
	}
	head := binary.AppendUvarint([]byte(magic), version)
	head = appendString(head, string(stamp))
	head = binary.AppendUvarint(head, uint64(len(body)))
	sum := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, body)
	for _, part := range [][]byte{head, body, binary.LittleEndian.AppendUint32(nil, sum)} {
		if _, err := w.Write(part); err != nil {
			return fmt.Errorf("index snapshot: %w", err)
		}
	}
	return nil
}

// readBody reads a whole snapshot and checks all but what the body means.
func readBody(r io.Reader, stamp []byte) ([]byte, error) {
	f := frame{r: bufio.NewReader(r)}
	if m := f.bytes(uint64(len(magic))); f.err == nil && string(m) != magic {
		return nil, damaged("it does not begin as one")
	}
	if v := f.number(); f.err == nil && v != version {
		return nil, fmt.Errorf("%w (version %d, not %d)", ErrStale, v, version)
	}
	if s := f.bytes(f.number()); f.err == nil && !bytes.Equal(s, stamp) {
		return nil, ErrStale
	}
	body := f.bytes(f.number())
	sum := f.sum
	if last := f.bytes(crc32.Size); f.err == nil && binary.LittleEndian.Uint32(last) != sum {
		return nil, damaged("its checksum is wrong")
	}
	if err := f.close(); err != nil {
		return nil, err
	}
	return body, nil
}

// frame reads the parts of a snapshot. After an error it returns zeros.
type frame struct {
	r   *bufio.Reader
	sum uint32 // of what was read
	err error
}

// ReadByte makes a frame an io.ByteReader.
func (f *frame) ReadByte() (byte, error) {
	c, err := f.r.ReadByte()
	if err == nil {
		f.sum = crc32.Update(f.sum, castagnoli, []byte{c})
	}
	return c, err
}

func (f *frame) number() uint64 {
	if f.err != nil {
		return 0
	}
	n, err := binary.ReadUvarint(f)
	f.err = err
	return n
}

// bytes reads n bytes. What it allocates grows with what there is to read, not
// with n.
func (f *frame) bytes(n uint64) []byte {
	if f.err != nil {
		return nil
	}
	var b bytes.Buffer
	got, err := b.ReadFrom(io.LimitReader(f.r, int64(min(n, math.MaxInt64))))
	if err == nil && uint64(got) < n {
		err = io.ErrUnexpectedEOF
	}
	f.err, f.sum = err, crc32.Update(f.sum, castagnoli, b.Bytes())
	return b.Bytes()
}

// close checks that the snapshot ends here, and returns the first error.
func (f *frame) close() error {
	switch {
	case errors.Is(f.err, io.EOF), errors.Is(f.err, io.ErrUnexpectedEOF):
		return damaged("it ends too early")
	case f.err != nil:
		return fmt.Errorf("the index snapshot cannot be read: %w; rebuild the index", f.err)
	}
	switch _, err := f.r.ReadByte(); {
	case err == nil:
		return damaged("more follows behind its end")
	case err != io.EOF:
		return fmt.Errorf("the index snapshot cannot be read: %w; rebuild the index", err)
	}
	return nil
}

// ErrStale is the error of a snapshot of another version of this package, or with
// another stamp.
var ErrStale = errors.New("the index snapshot is of another version or of other texts; rebuild the index")

// Restore reads what Snapshot wrote with the same stamp, up to the end of r. It
// takes memory in proportion to what it reads. An error means that the texts
// must be put again.
func Restore(r io.Reader, stamp []byte) (*Index, error) {
	body, err := readBody(r, stamp)
	if err != nil {
		return nil, err
	}
	x, d := New(), decoder{rest: body}
	x.restoreTerms(&d)
	x.restoreDocs(&d)
	if d.failed || len(d.rest) > 0 || !x.link() {
		return nil, damaged("its content is not an index")
	}
	return x, nil
}

func damaged(why string) error {
	return fmt.Errorf("the index snapshot is damaged: %s; rebuild the index", why)
}

// decoder reads the body of a snapshot. After a failure it returns zeros.
type decoder struct {
	rest   []byte
	failed bool
}

// number reads a number up to the largest that is possible.
func (d *decoder) number(largest int) int {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 || n > uint64(max(largest, 0)) {
		d.failed, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return int(n)
}

func (d *decoder) string() string {
	n := d.number(len(d.rest))
	s := string(d.rest[:min(n, len(d.rest))])
	d.rest = d.rest[len(s):]
	d.failed = d.failed || len(s) < n || s == "" || !utf8.ValidString(s)
	return s
}

func (x *Index) restoreTerms(d *decoder) {
	count := d.number(len(d.rest) / 2)
	x.terms = make([]term, 0, count)
	for range count {
		name := d.string()
		if _, double := x.numbers[name]; double || d.failed {
			d.failed = true
			return
		}
		x.numbers[name] = uint32(len(x.terms))
		x.terms = append(x.terms, term{name: name})
	}
}

func (x *Index) restoreDocs(d *decoder) {
	count := d.number(min(len(d.rest), MaxID+1))
	x.docs, x.norms = make([][]post, count), make([]norm, count)
	for id := range count {
		if terms := d.number(len(d.rest)/2 + 1); terms > 0 && !d.failed {
			x.docs[id] = x.restoreDoc(d, uint32(id), terms-1)
			x.live++
		}
	}
}

func (x *Index) restoreDoc(d *decoder, id uint32, terms int) []post {
	if d.failed = terms > len(x.terms); d.failed {
		return nil
	}
	doc, number := make([]post, 0, terms), 0
	for i := range terms {
		step := d.number(len(x.terms) - 1 - number)
		count := d.number(math.MaxInt32)
		if d.failed || i > 0 && step == 0 || count == 0 {
			d.failed = true
			return nil
		}
		number += step
		doc = append(doc, post(number)<<countBits|x.keepCount(id, uint32(number), count))
	}
	return doc
}

// link builds from the documents what the snapshot does not contain. It reports
// whether every term is in use.
func (x *Index) link() bool {
	df := make([]int, len(x.terms))
	for _, doc := range x.docs {
		for _, p := range doc {
			df[p.key()]++
		}
	}
	for i, n := range df {
		if n == 0 {
			return false
		}
		t := &x.terms[i]
		t.posts, t.log = make([]post, 0, n), logOf(1+n)
		t.cached = t.log
	}
	for id, doc := range x.docs {
		for _, p := range doc {
			t := &x.terms[p.key()]
			t.posts = append(t.posts, post(id)<<countBits|p.count())
		}
		x.norms[id] = x.norm(uint32(id))
	}
	return true
}
