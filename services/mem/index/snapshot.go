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
	"strings"
	"unicode/utf8"
)

// Snapshot writes the index for Restore, which is much faster than adding the texts
// again. The stamp, up to 4096 bytes, identifies the texts.
func (x *Index) Snapshot(w io.Writer, stamp []byte) error {
	return writeFrame(w, stamp, x.appendDocs(x.appendTerms(nil)))
}

// appendTerms appends the terms of words; the stems of the forms follow from them.
func (x *Index) appendTerms(b []byte) []byte {
	names := 0
	for i := range x.terms {
		if x.isWord(uint32(i)) {
			names++
		}
	}
	b = binary.AppendUvarint(b, uint64(names))
	for i, t := range x.terms {
		if x.isWord(uint32(i)) {
			b = appendString(b, t.name)
		}
	}
	return b
}

// isWord reports whether documents contain the term itself, not only its forms.
func (x *Index) isWord(number uint32) bool {
	name := x.terms[number].name
	return name != "" && (isForm(name) || x.formula.literal || !isPlain(name))
}

// isPlain reports whether a folded word has only letters a to z.
func isPlain(word string) bool {
	return strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") == ""
}

// appendDocs appends the documents, with the terms of words renumbered without gaps.
func (x *Index) appendDocs(b []byte) []byte {
	numbers, next := make([]uint32, len(x.terms)), uint32(0)
	for i := range x.terms {
		numbers[i] = next
		if x.isWord(uint32(i)) {
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
		b = binary.AppendUvarint(b, uint64(x.lengths[id]))
		before := uint32(0)
		for _, p := range doc {
			n := numbers[p.key()]
			b = binary.AppendUvarint(b, uint64(n-before))
			b = binary.AppendUvarint(b, uint64(x.count(uint32(id), p.key(), p)))
			before = n
		}
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// The format of a snapshot. All numbers except the last are uvarints of
// encoding/binary.
//
//	magic
//	version
//	length of the stamp, the stamp
//	length of the body, the body:
//	  number of terms; for each its length and its bytes: "=" and a plain word, or
//	  another word
//	  number of ids; for each 0 if there is no document, else 1 + the number of
//	  its terms and its length; for each term the difference to the number of the
//	  previous one, and the count
//	CRC-32C of everything above, four bytes, little-endian
const magic = "zino index\n"

// version must be raised with every change of the format, of FirstWords, and of Split
// and Stem, whose terms the index contains.
const version = 2

// stampMax is the maximum length of a stamp in bytes.
const stampMax = 4096

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// writeFrame writes a body with its header and checksum.
func writeFrame(w io.Writer, stamp, body []byte) error {
	if len(stamp) > stampMax {
		return fmt.Errorf("index snapshot: a stamp of %d bytes is longer than %d", len(stamp), stampMax)
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

// readBody reads a whole snapshot and checks everything except the content of the
// body.
func readBody(r io.Reader, stamp []byte) ([]byte, error) {
	f := frame{r: bufio.NewReader(r)}
	if m := f.bytes(uint64(len(magic))); f.err == nil && string(m) != magic {
		return nil, damaged("it has another beginning")
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

// frame reads the parts of a snapshot. After an error its methods return zero values.
type frame struct {
	r   *bufio.Reader
	sum uint32 // CRC-32C of the bytes read so far
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

// bytes reads n bytes. It allocates in proportion to the available bytes, not to n.
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

// close returns the first error, or an error if bytes follow the snapshot.
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

// ErrStale is the error of a snapshot with another version or stamp.
var ErrStale = errors.New("the index snapshot is of another version or of other texts; rebuild the index")

// Restore reads a snapshot with the given stamp, up to the end of r. Its memory is
// proportional to the bytes read. After an error the texts must be added again.
func Restore(r io.Reader, stamp []byte) (*Index, error) {
	body, err := readBody(r, stamp)
	if err != nil {
		return nil, err
	}
	x, d := New(), decoder{rest: body}
	words := x.restoreTerms(&d)
	x.restoreDocs(&d, words)
	if d.failed || len(d.rest) > 0 || !x.linkAll() {
		return nil, damaged("its content is not an index")
	}
	return x, nil
}

func damaged(why string) error {
	return fmt.Errorf("the index snapshot is damaged: %s; rebuild the index", why)
}

// decoder reads the body of a snapshot. After a failure its methods return zero
// values.
type decoder struct {
	rest   []byte
	failed bool
}

// number reads a number of at most largest.
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

// restoreTerms adds the terms of words, in their order, and then their stems.
func (x *Index) restoreTerms(d *decoder) (words int) {
	words = d.number(len(d.rest) / 2)
	for range words {
		name := d.string()
		word := strings.TrimPrefix(name, "=")
		if _, double := x.numbers[name]; double || d.failed || word == "" || isPlain(word) == (word == name) {
			d.failed = true
			return 0
		}
		x.number(name)
	}
	for n := range words {
		if name := x.terms[n].name; isForm(name) {
			stem := x.number(Word{Folded: []byte(name[1:]), Plain: true}.Stem())
			x.terms[n].stem = stem
		}
	}
	return words
}

// restoreDocs adds the documents. Their terms are the first words ones.
func (x *Index) restoreDocs(d *decoder, words int) {
	count := d.number(min(len(d.rest), MaxID+1))
	x.docs, x.lengths = make([][]posting, count), make([]uint32, count)
	for id := range count {
		if terms := d.number(len(d.rest)/2 + 1); terms > 0 && !d.failed {
			x.lengths[id] = uint32(d.number(math.MaxInt32))
			x.docs[id] = x.restoreDoc(d, uint32(id), terms-1, words)
			x.live++
			x.total += int(x.lengths[id])
		}
	}
}

// restoreDoc reads a document of some of the words. Its length is the sum of the counts.
func (x *Index) restoreDoc(d *decoder, id uint32, terms, words int) []posting {
	if d.failed = d.failed || terms > words; d.failed {
		return nil
	}
	doc, number, rest := make([]posting, 0, terms), 0, int(x.lengths[id])
	for i := range terms {
		step := d.number(words - 1 - number)
		count := d.number(rest)
		if d.failed || i > 0 && step == 0 || count == 0 {
			d.failed = true
			return nil
		}
		number += step
		rest -= count
		doc = append(doc, posting(number)<<countBits|x.keepCount(id, uint32(number), count))
	}
	d.failed = d.failed || rest > 0
	return doc
}

// linkAll builds the posting lists from the documents, without spare capacity. It
// returns false if a term is not in use.
func (x *Index) linkAll() bool {
	df, last := make([]int, len(x.terms)), make([]int, len(x.terms))
	count := func(id int, number uint32) {
		if last[number] != id+1 { // not counted for another form
			last[number] = id + 1
			df[number]++
		}
	}
	for id, doc := range x.docs {
		for _, p := range doc {
			count(id, p.key())
			count(id, x.terms[p.key()].stem)
		}
	}
	for i, n := range df {
		if n == 0 {
			return false
		}
		x.terms[i].postings = make([]posting, 0, n)
	}
	for id, doc := range x.docs {
		for _, p := range doc {
			x.link(uint32(id), p)
		}
	}
	return true
}
