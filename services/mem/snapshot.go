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

// A snapshot is the catalog in a file beside the memories, which makes the
// start fast. It holds nothing that the memories do not: one that is stale,
// damaged or of another version is ignored, and may be deleted at any time.
const (
	snapshotFile = "hard_memories.snapshot"
	snapshotNew  = snapshotFile + ".new"
	snapshotLock = snapshotFile + ".lock"

	// snapshotLeast is the number of elements from which on reading them all
	// takes a second, so that a snapshot is worth its place on the disk.
	snapshotLeast = 20_000
	// snapshotGrowth is how many times as many elements as its snapshot a
	// catalog has when the next one is written.
	snapshotGrowth = 1.1
)

// snapshotMagic begins every snapshot of this version.
const snapshotMagic = "zino hard memories 1\n"

// restore returns the catalog of a file that is open in p, as far as a snapshot
// has it: an empty one if there is none that can be used.
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

// checkPrefix holds that the file begins with the bytes that the snapshot is of
// and has an element's end there.
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

// save begins to write a snapshot if the catalog has grown enough. Its caller
// has the turn.
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
		m.saving, c.saved = false, n // after an error the next attempt waits as long
		m.save()                     // it may have grown meanwhile
	})
}

// writeSnapshot writes the snapshot of a catalog, which may go on growing, and
// returns the number of elements in it. The catalog is locked while it is
// copied to the kernel, not while the disk works.
func (m *memories) writeSnapshot(c *catalog) (elements int, err error) {
	m.mu.RLock()
	elements = c.elements
	m.mu.RUnlock()
	lock, err := durable.TryLockFile(m.root, snapshotLock)
	if errors.Is(err, durable.ErrLocked) {
		return elements, nil // another process is writing one
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

// copyTo writes a snapshot to a file. Most of the memories are hashed before
// the catalog is locked.
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
