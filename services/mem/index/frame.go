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
)

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

// version must be raised with every change of the format, and of Words: an
// index is worth nothing with terms that queries do not give.
const version = 1

// longestStamp is in bytes.
const longestStamp = 4096

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// writeFrame writes a body with all that stands around it.
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

// frame reads the parts of a snapshot. After an error it gives nothing.
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

// close expects the end and tells what went wrong before it.
func (f *frame) close() error {
	switch {
	case errors.Is(f.err, io.EOF), errors.Is(f.err, io.ErrUnexpectedEOF):
		return damaged("it ends too early")
	case f.err != nil:
		return fmt.Errorf("the index snapshot cannot be read: %w; build the index anew", f.err)
	}
	switch _, err := f.r.ReadByte(); {
	case err == nil:
		return damaged("more follows behind its end")
	case err != io.EOF:
		return fmt.Errorf("the index snapshot cannot be read: %w; build the index anew", err)
	}
	return nil
}
