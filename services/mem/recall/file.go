package recall

import (
	"bytes"
	"crypto/sha512"
	"encoding/binary"
	"hash/crc32"
	"io/fs"
	"iter"
	"math"
	"syscall"
)

// An index file is the magic, then batches. A batch is the length of its payload as
// uvarint, the CRC-32C of the payload, and the payload: records and a state. A batch
// that is torn or damaged ends the file. Numbers without a name for their form are
// little-endian.
const magic = "zrecall1"

const (
	// batchSize is the size of the records at which a builder ends a batch.
	batchSize = 256 << 10
	stateSize = 4*8 + printSize
	printSize = sha512.Size
	termSize  = 5
	// recordMin is the size of a record without its numbers of variable length.
	recordMin = 1 + 2 + 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// kind is the kind of a record.
type kind byte

const (
	header    kind = iota + 1 // the first line of a session
	hidden                    // the same, with recall false: the only record
	user                      // a message of the user
	assistant                 // a message of the assistant
	tool                      // a tool call
)

// record is a line of a log. Records of documents have terms of 5 bytes each, sorted:
// the FNV-1a-32 of the term, and how often it occurs, up to 255. That of a header has one
// if the owner is known: the uid in place of a hash, and 0.
type record struct {
	offset int64 // of the line; in the file the difference from the one before, uvarint
	kind   kind
	ts     int64 // in seconds since 1970; 0: unknown; in the file a varint
	words  int   // 16 bits
	terms  []byte
}

// appendRecord appends a record that follows one with the offset last.
func appendRecord(b []byte, last int64, r record) []byte {
	b = binary.AppendUvarint(b, uint64(r.offset-last))
	b = append(b, byte(r.kind))
	b = binary.AppendVarint(b, r.ts)
	b = binary.LittleEndian.AppendUint16(b, uint16(r.words))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(r.terms)/termSize))
	return append(b, r.terms...)
}

// parseRecord returns the first record of b and its size, 0 if there is no valid one.
func parseRecord(b []byte, last int64) (r record, size int) {
	delta, n := binary.Uvarint(b)
	if n <= 0 || delta > uint64(math.MaxInt64-last) || len(b) < n+recordMin {
		return record{}, 0
	}
	r.offset, r.kind = last+int64(delta), kind(b[n])
	n++
	ts, m := binary.Varint(b[n:])
	n += m
	if m <= 0 || len(b) < n+4 || r.kind < header || r.kind > tool {
		return record{}, 0
	}
	r.ts, r.words = ts, int(binary.LittleEndian.Uint16(b[n:]))
	size = n + 4 + termSize*int(binary.LittleEndian.Uint16(b[n+2:]))
	if size > len(b) {
		return record{}, 0
	}
	r.terms = b[n+4 : size]
	return r, size
}

// state is how far a log is indexed, and what identifies the log.
type state struct {
	end         int64 // the offset behind the last line
	size, mtime int64 // of the log, in bytes and nanoseconds; 0 if lines are missing
	inode       uint64
	print       [printSize]byte // SHA-512 of the bytes before end, which may be secret
}

func appendState(b []byte, st *state) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(st.end))
	b = binary.LittleEndian.AppendUint64(b, uint64(st.size))
	b = binary.LittleEndian.AppendUint64(b, uint64(st.mtime))
	b = binary.LittleEndian.AppendUint64(b, st.inode)
	return append(b, st.print[:]...)
}

// parseState returns the state in the stateSize bytes of b.
func parseState(b []byte) (st state) {
	st.end = int64(binary.LittleEndian.Uint64(b))
	st.size = int64(binary.LittleEndian.Uint64(b[8:]))
	st.mtime = int64(binary.LittleEndian.Uint64(b[16:]))
	st.inode = binary.LittleEndian.Uint64(b[24:])
	copy(st.print[:], b[32:])
	return st
}

func (st *state) setFile(info fs.FileInfo) {
	st.size, st.mtime = info.Size(), info.ModTime().UnixNano()
}

// isOf reports whether all lines of a log with these attributes are indexed.
func (st *state) isOf(info fs.FileInfo) bool {
	return st.size == info.Size() && st.mtime == info.ModTime().UnixNano() && st.inode == inode(info)
}

func inode(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

// appendBatch appends a batch with records and a state.
func appendBatch(b, records []byte, st *state) []byte {
	b = binary.AppendUvarint(b, uint64(len(records)+stateSize))
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	b = append(b, records...)
	b = appendState(b, st)
	binary.LittleEndian.PutUint32(b[at:], crc32.Checksum(b[at+4:], castagnoli))
	return b
}

// cutBatch returns the payload of the first batch of b, and what follows it.
func cutBatch(b []byte) (payload, rest []byte, ok bool) {
	length, n := binary.Uvarint(b)
	if n <= 0 || length < stateSize || len(b)-n < 4 || length > uint64(len(b)-n-4) {
		return nil, nil, false
	}
	end := n + 4 + int(length)
	return b[n+4 : end], b[end:], true
}

// image is the valid part of an index file.
type image struct {
	data  []byte // empty, or the magic and batches
	state state  // of the last batch
	last  int64  // the offset of the last record
}

// parse returns the valid part of an index file.
func parse(data []byte) (img image) {
	if !bytes.HasPrefix(data, []byte(magic)) {
		return img
	}
	rest := data[len(magic):]
	for {
		img.data = data[:len(data)-len(rest)]
		payload, next, ok := cutBatch(rest)
		if !ok || crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(data[len(data)-len(next)-len(payload)-4:]) {
			return img
		}
		st, last := parseState(payload[len(payload)-stateSize:]), img.last
		for records := payload[:len(payload)-stateSize]; len(records) > 0; {
			r, n := parseRecord(records, last)
			if n == 0 || r.offset >= st.end {
				return img
			}
			last, records = r.offset, records[n:]
		}
		if st.end < img.state.end {
			return img
		}
		img.state, img.last, rest = st, last, next
	}
}

// records iterates over the records. Their terms lie in the image's data.
func (img *image) records() iter.Seq[record] {
	return func(yield func(record) bool) {
		last, rest := int64(0), img.data
		if len(rest) > 0 {
			rest = rest[len(magic):]
		}
		for len(rest) > 0 {
			var payload []byte
			payload, rest, _ = cutBatch(rest)
			for records := payload[:len(payload)-stateSize]; len(records) > 0; {
				r, n := parseRecord(records, last)
				if !yield(r) {
					return
				}
				last, records = r.offset, records[n:]
			}
		}
	}
}

// head returns the first record.
func (img *image) head() (r record, ok bool) {
	for r := range img.records() {
		return r, true
	}
	return r, false
}
