package undo

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"zino/pkg/durable"
)

// entry is what a scan found at a path.
type entry struct {
	kind           string
	mode, uid, gid uint32
	size           int64
	mtime, ctime   int64 // nanoseconds
	ino            uint64
	sum            string // SHA-256 of a file's content, in hex; empty: not read
	blob, git      string // the git object that is its image, and the repository's directory
	text           string // of a symbolic link
	// racy: the content may have changed later without a trace in the times, or the
	// directory was not read.
	racy bool
}

func (e *entry) state() *State {
	if e == nil {
		return nil
	}
	return &State{Kind: e.kind, SHA256: e.sum, Blob: e.blob, Git: e.git, Text: e.text, Mode: e.mode, UID: e.uid, GID: e.gid}
}

// sameStat reports whether the stats of two entries show the same content.
func (e *entry) sameStat(o *entry) bool {
	return e.kind == o.kind && e.size == o.size && e.mtime == o.mtime && e.ctime == o.ctime && e.ino == o.ino
}

// index is the file with what the last scan of a root found. It is locked while it
// is open. It is a cache: a damaged one is empty.
type index struct {
	f       *os.File
	entries map[string]*entry
}

// indexName is the name of the index of a root.
func indexName(root string) string {
	sum := sha256.Sum256([]byte(root))
	return hex.EncodeToString(sum[:16])
}

// openIndex opens and locks the index of a root. It waits until no other scan of the
// root runs.
func (s *Store) openIndex(ctx context.Context, root string) (*index, error) {
	path := filepath.Join(s.indexDir(), indexName(root))
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, durable.FileMode)
		if err != nil {
			return nil, err
		}
		if err := durable.Lock(ctx, f); err != nil {
			closeAll(f)
			return nil, err
		}
		locked, err := f.Stat()
		if err == nil {
			var named os.FileInfo
			if named, err = os.Stat(path); err == nil && os.SameFile(locked, named) {
				return s.readIndex(f, root)
			}
		}
		closeAll(f) // it was removed meanwhile
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
	}
}

func (s *Store) readIndex(f *os.File, root string) (*index, error) {
	data, err := io.ReadAll(f)
	if err != nil {
		closeAll(f)
		return nil, err
	}
	entries, err := parseIndex(data, root)
	if err != nil {
		s.log.Debug("undo: an index is read anew", "root", root, "error", err)
		entries = map[string]*entry{}
	}
	return &index{f, entries}, nil
}

// save writes the index.
func (x *index) save(root string, entries map[string]*entry) error {
	data := formatIndex(root, entries)
	if _, err := x.f.WriteAt(data, 0); err != nil {
		return errors.Join(err, x.f.Truncate(0))
	}
	return x.f.Truncate(int64(len(data)))
}

func (x *index) close() { closeAll(x.f) }

// indexMagic begins an index: its form, and then the CRC of the rest.
const indexMagic = "zino undo index 1\n"

// castagnoli is made at its first use: it would cost each supervisor 0.1 ms at its start.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// formatIndex is the content of an index.
func formatIndex(root string, entries map[string]*entry) []byte {
	b := make([]byte, len(indexMagic)+4, 256+128*len(entries))
	copy(b, indexMagic)
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	text(root)
	repos, order := map[string]uint64{"": 0}, []string{}
	for _, e := range entries {
		if _, ok := repos[e.git]; !ok {
			order = append(order, e.git)
			repos[e.git] = uint64(len(order))
		}
	}
	b = binary.AppendUvarint(b, uint64(len(order)))
	for _, dir := range order {
		text(dir)
	}
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for path, e := range entries {
		text(path)
		flag := byte(0)
		if e.racy {
			flag = 1
		}
		b = append(b, e.kind[0], flag)
		for _, n := range []uint64{uint64(e.mode), uint64(e.uid), uint64(e.gid), uint64(e.size), uint64(e.mtime), uint64(e.ctime), e.ino, repos[e.git]} {
			b = binary.AppendUvarint(b, n)
		}
		sum, _ := hex.DecodeString(e.sum) // made by hex.EncodeToString
		text(string(sum))
		blob, _ := hex.DecodeString(e.blob)
		text(string(blob))
		text(e.text)
	}
	binary.BigEndian.PutUint32(b[len(indexMagic):], crc32.Checksum(b[len(indexMagic)+4:], castagnoli()))
	return b
}

// rootOf is the root that an index names, "" for a damaged one.
func rootOf(data []byte) string {
	if len(data) < len(indexMagic)+4 {
		return ""
	}
	rest := data[len(indexMagic)+4:]
	size, n := binary.Uvarint(rest)
	if n <= 0 || size > uint64(len(rest)-n) {
		return ""
	}
	return string(rest[n : n+int(size)])
}

// kinds are the kinds by the bytes of an index.
var kinds = map[byte]string{kindFile[0]: kindFile, kindSymlink[0]: kindSymlink, kindDir[0]: kindDir}

var errIndex = errors.New("invalid index")

// parseIndex reads the content of an index of a root. Empty content is an empty
// index.
func parseIndex(data []byte, root string) (map[string]*entry, error) {
	if len(data) == 0 {
		return map[string]*entry{}, nil
	}
	head := len(indexMagic) + 4
	if len(data) < head || string(data[:len(indexMagic)]) != indexMagic {
		return nil, errIndex
	}
	if binary.BigEndian.Uint32(data[len(indexMagic):]) != crc32.Checksum(data[head:], castagnoli()) {
		return nil, fmt.Errorf("%w: the checksum differs", errIndex)
	}
	rest, bad := string(data[head:]), false
	number := func() uint64 {
		n, size := uint64(0), 0
		for shift := uint(0); size < len(rest) && shift < 64; shift += 7 {
			c := rest[size]
			size++
			if n |= uint64(c&0x7f) << shift; c < 0x80 {
				rest = rest[size:]
				return n
			}
		}
		bad, rest = true, ""
		return 0
	}
	text := func() string {
		n := number()
		if n > uint64(len(rest)) {
			bad, rest = true, ""
			return ""
		}
		s := rest[:n]
		rest = rest[n:]
		return s
	}
	if text() != root {
		return nil, fmt.Errorf("%w: it is of another root", errIndex)
	}
	repos := []string{""}
	for n := number(); n > 0 && !bad; n-- {
		repos = append(repos, text())
	}
	count := number()
	slab := make([]entry, min(count, uint64(len(rest)/8)))
	if uint64(len(slab)) != count {
		return nil, errIndex
	}
	entries := make(map[string]*entry, count)
	for i := range slab {
		e, path := &slab[i], text()
		if bad || len(rest) < 2 || kinds[rest[0]] == "" {
			return nil, errIndex
		}
		e.kind, e.racy, rest = kinds[rest[0]], rest[1] != 0, rest[2:]
		e.mode, e.uid, e.gid = uint32(number()), uint32(number()), uint32(number())
		e.size, e.mtime, e.ctime, e.ino = int64(number()), int64(number()), int64(number()), number()
		repo := number()
		sum, blob := text(), text()
		e.text = text()
		if bad || repo >= uint64(len(repos)) || len(sum) != 0 && len(sum) != 32 {
			return nil, errIndex
		}
		e.git, e.sum, e.blob = repos[repo], hex.EncodeToString([]byte(sum)), hex.EncodeToString([]byte(blob))
		entries[path] = e
	}
	return entries, nil
}

// entryOf is the entry of a stat, without content; nil for what is never captured.
func entryOf(st *unix.Stat_t) *entry {
	e := &entry{
		mode: st.Mode & 0o7777, uid: st.Uid, gid: st.Gid, size: st.Size, ino: st.Ino,
		mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(),
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.kind = kindFile
	case unix.S_IFLNK:
		e.kind = kindSymlink
	case unix.S_IFDIR:
		e.kind = kindDir
	default:
		return nil
	}
	return e
}
