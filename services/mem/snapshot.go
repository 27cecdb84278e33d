package mem

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"zino/pkg/durable"
	"zino/services/mem/index"
)

// A snapshot is a cache of the catalog in a file beside the memories, for a fast
// start. A stale or damaged snapshot, or one of another version, is ignored. It may
// be deleted at any time.
const (
	snapshotFile = "hard_memories.snapshot"
	snapshotNew  = snapshotFile + ".new"
	snapshotLock = snapshotFile + ".lock"

	// snapshotLeast is the minimum number of elements for a snapshot: reading that
	// many takes a second.
	snapshotLeast = 20_000
	// snapshotGrowth is the growth of the catalog after which the next snapshot is
	// written.
	snapshotGrowth = 1.1
)

// snapshotMagic begins every snapshot of this version.
const snapshotMagic = "zino hard memories 2\n"

// restore returns the catalog from the snapshot, or an empty one if the snapshot
// does not match the file in p.
func (m *memories) restore(p piece) *catalog {
	c, err := m.readSnapshot(p)
	if err == nil {
		return c
	}
	if !errors.Is(err, fs.ErrNotExist) {
		m.log.Debug("the snapshot of the hard memories is not used", "file", snapshotFile, "reason", err)
	}
	return newCatalog(nil)
}

func (m *memories) readSnapshot(p piece) (*catalog, error) {
	f, err := m.root.Open(snapshotFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(f, 1<<20)
	head, stamp, err := readHead(r, fi.Size())
	if err != nil {
		return nil, err
	}
	c, print, err := parseHead(head)
	if err != nil {
		return nil, err
	}
	if err := m.checkPrefix(p, c.end, print); err != nil {
		return nil, err
	}
	if c.index, err = index.Restore(r, stamp); err != nil {
		return nil, err
	}
	return c, nil
}

var errOtherMemories = errors.New("it is of other memories")

// checkPrefix checks that the first end bytes of the file have the hash print, and
// that an element ends there.
func (m *memories) checkPrefix(p piece, end int64, print []byte) error {
	if end <= 0 || end > p.To {
		return errOtherMemories
	}
	if end < p.To {
		var next [2]byte
		if _, err := p.file.ReadAt(next[:], end); err != nil || string(next[:]) != ",\n" {
			return errors.Join(errOtherMemories, err)
		}
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(p.file, 0, end)); err != nil {
		return err
	}
	if !bytes.Equal(h.Sum(nil), print) {
		return errOtherMemories
	}
	return nil
}

// save starts to write a snapshot if the catalog has grown enough. The caller has
// locked turn.
func (m *memories) save() {
	c := m.catalog
	if m.saving || c.file == nil || c.elements < m.least || float64(c.elements) < float64(c.saved)*snapshotGrowth {
		return
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return
	}
	m.saving = true
	m.work.Go(func() {
		n, err := m.writeSnapshot(c)
		if err != nil {
			m.log.Debug("no snapshot of the hard memories was written", "file", snapshotFile, "reason", err)
		}
		m.turn.Lock()
		defer m.turn.Unlock()
		m.saving, c.saved = false, n // also after an error, to delay the next attempt
		m.save()                     // the catalog may have grown meanwhile
	})
}

// writeSnapshot writes the snapshot of a catalog and returns the number of elements
// in it. It locks the catalog for write(2), but not for fsync(2).
func (m *memories) writeSnapshot(c *catalog) (elements int, err error) {
	m.mu.RLock()
	elements = c.elements
	m.mu.RUnlock()
	lock, err := durable.TryLockFile(m.root, snapshotLock)
	if errors.Is(err, durable.ErrLocked) {
		return elements, nil // another process is writing a snapshot
	}
	if err != nil {
		return elements, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	f, err := m.root.OpenFile(snapshotNew, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, durable.FileMode)
	if err != nil {
		return elements, err
	}
	elements, err = m.copyTo(f, c)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = m.root.Rename(snapshotNew, snapshotFile)
	}
	if err != nil {
		err = errors.Join(err, m.root.Remove(snapshotNew))
	}
	return elements, err
}

// copyTo writes a snapshot to f. It hashes most of the memories before it locks the
// catalog.
func (m *memories) copyTo(f io.Writer, c *catalog) (elements int, err error) {
	m.mu.RLock()
	end, file := c.end, c.file
	m.mu.RUnlock()
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(file, 0, end)); err != nil {
		return 0, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, err := io.Copy(h, io.NewSectionReader(file, end, c.end-end)); err != nil {
		return 0, err
	}
	head := c.appendHead(nil, h.Sum(nil))
	sum := sha256.Sum256(head)
	w := bufio.NewWriterSize(f, 1<<20)
	_, err = fmt.Fprintf(w, "%s%s%s%s", snapshotMagic, binary.BigEndian.AppendUint64(nil, uint64(len(head))), head, sum[:])
	if err == nil {
		err = c.index.Snapshot(w, sum[:])
	}
	return c.elements, errors.Join(err, w.Flush())
}

// readHead reads the part of a snapshot before the index, and its hash.
func readHead(r io.Reader, size int64) (head, stamp []byte, err error) {
	begin := make([]byte, len(snapshotMagic)+8)
	if _, err := io.ReadFull(r, begin); err != nil {
		return nil, nil, err
	}
	if string(begin[:len(snapshotMagic)]) != snapshotMagic {
		return nil, nil, errors.New("it is of another version")
	}
	n := binary.BigEndian.Uint64(begin[len(snapshotMagic):])
	if n > uint64(size) {
		return nil, nil, errDamagedSnapshot
	}
	head, stamp = make([]byte, n), make([]byte, sha256.Size)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, nil, err
	}
	if _, err := io.ReadFull(r, stamp); err != nil {
		return nil, nil, err
	}
	if sum := sha256.Sum256(head); !bytes.Equal(sum[:], stamp) {
		return nil, nil, errDamagedSnapshot
	}
	return head, stamp, nil
}

var errDamagedSnapshot = errors.New("it is damaged")

// appendHead appends the encoding of a catalog without its index. print is the hash
// of the file up to c.end.
func (c *catalog) appendHead(b, print []byte) []byte {
	b = append(b, print...)
	for _, n := range []int{int(c.end), c.elements, c.skipped, len(c.names.list), len(c.docs)} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = appendText(b, c.reason)
	for _, name := range c.names.list {
		b = appendText(b, name)
	}
	at := int64(0)
	for i := range c.docs {
		b, at = c.docs[i].append(b, at)
	}
	return b
}

// append appends the encoding of d. The offset is stored as the difference from that
// of the previous memory.
func (d *doc) append(b []byte, before int64) ([]byte, int64) {
	if !d.occupied {
		return append(b, 0), before
	}
	b = append(b, 1)
	b = binary.AppendVarint(b, d.at-before)
	b = binary.AppendUvarint(b, uint64(d.size))
	b = binary.LittleEndian.AppendUint32(b, d.sum)
	b = binary.LittleEndian.AppendUint64(b, uint64(d.created))
	b = binary.AppendUvarint(b, uint64(d.tag))
	b = binary.AppendUvarint(b, uint64(d.channel))
	return append(b, d.print[:]...), d.at
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// parseHead is the inverse of appendHead.
func parseHead(head []byte) (c *catalog, print []byte, err error) {
	c = newCatalog(nil)
	d := headReader{rest: head}
	print = d.bytes(sha256.Size)
	c.end, c.elements, c.skipped = int64(d.uvarint()), int(d.uvarint()), int(d.uvarint())
	names, docs := d.count(1), d.count(1)
	c.saved = c.elements
	c.reason = string(d.bytes(d.count(1)))
	for range names {
		c.names.number(string(d.bytes(d.count(1))))
	}
	if len(c.names.list) != names {
		d.failed = true
	}
	c.docs = make([]doc, docs)
	at := int64(0)
	for i := range c.docs {
		c.docs[i].read(&d, &at, uint64(names))
		c.number(i)
	}
	if d.failed || len(d.rest) > 0 {
		return nil, nil, errDamagedSnapshot
	}
	return c, print, nil
}

// number records the fingerprint of a memory.
func (c *catalog) number(id int) {
	d := &c.docs[id]
	if !d.occupied {
		return
	}
	if _, known := c.first[d.print]; known {
		c.duplicates++
	} else {
		c.first[d.print] = int32(id)
	}
}

func (d *doc) read(r *headReader, at *int64, names uint64) {
	if flag := r.bytes(1); r.failed || flag[0] == 0 {
		return
	}
	*at += r.varint()
	d.at, d.size = *at, uint32(r.uvarint())
	d.sum, d.created = binary.LittleEndian.Uint32(r.bytes(4)), int64(binary.LittleEndian.Uint64(r.bytes(8)))
	tag, channel := r.uvarint(), r.uvarint()
	if tag >= names || channel >= names || d.at < 0 {
		r.failed = true
	}
	d.tag, d.channel = uint32(tag), uint32(channel)
	copy(d.print[:], r.bytes(len(d.print)))
	d.occupied = true
}

// headReader decodes numbers and texts. After a failure it returns zeros.
type headReader struct {
	rest   []byte
	failed bool
}

func (d *headReader) uvarint() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.failed, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *headReader) varint() int64 {
	n, size := binary.Varint(d.rest)
	if size <= 0 {
		d.failed, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// count decodes the number of items that have at least each bytes, and fails if
// they cannot fit into the rest.
func (d *headReader) count(each int) int {
	n := d.uvarint()
	if n > uint64(len(d.rest)/each) {
		d.failed, d.rest = true, nil
		return 0
	}
	return int(n)
}

func (d *headReader) bytes(n int) []byte {
	if n > len(d.rest) {
		d.failed, d.rest = true, nil
		return make([]byte, n)
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}
