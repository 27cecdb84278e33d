// Package embed keeps the vectors of texts in a file, finds those nearest to another
// vector, and merges two rankings.
//
// The file is a cache: its header names the model and the number of dimensions, and
// each record has the hash of a text, its vector and a checksum. It may be deleted at
// any time. Several processes may use one: a writer locks it and first reads what the
// others have appended. Of the vectors nothing stays in memory; a search reads the
// file.
package embed

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"sync"

	"zino/pkg/durable"
)

// Key names a text: the first 16 bytes of its SHA-256.
type Key [16]byte

// KeyOf returns the key of a text.
func KeyOf(text string) Key {
	sum := sha256.Sum256([]byte(text))
	return Key(sum[:16])
}

const (
	magic = "zino vectors 1\n"
	// maxDimensions bounds what a header may say.
	maxDimensions = 1 << 16
	maxModel      = 1 << 10
	readSize      = 1 << 20 // bytes of the file that are in memory at a time
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// FileName returns the name of a model's cache.
func FileName(model string) string {
	sum := sha256.Sum256([]byte(model))
	return hex.EncodeToString(sum[:8]) + ".vec"
}

// Cache is the cache of one model. It is safe for concurrent use.
type Cache struct {
	root  *os.Root
	dir   string // below root
	model string
	name  string

	mu      sync.RWMutex
	file    *os.File      // nil: there is no valid file
	size    int           // dimensions, 0 before the first vector
	end     int64         // the file is read up to here
	records int           // in the file, damaged ones included
	at      map[Key]int32 // the record of each text
}

// New returns the cache of a model, "provider/model", in a directory below root. It
// creates nothing before the first vector.
func New(root *os.Root, dir, model string) *Cache {
	return &Cache{root: root, dir: dir, model: model, name: dir + "/" + FileName(model), at: map[Key]int32{}}
}

// Name is the path of the file below the root.
func (c *Cache) Name() string { return c.name }

// DimensionError is the error of a vector of another size than those in the cache.
type DimensionError struct{ Have, Got int }

func (e *DimensionError) Error() string {
	return fmt.Sprintf("the vectors in the cache have %d dimensions, this one has %d", e.Have, e.Got)
}

// header returns the head of a file.
func header(model string, size int) []byte {
	b := append([]byte(magic), byte(len(model)>>8), byte(len(model)))
	b = binary.LittleEndian.AppendUint32(append(b, model...), uint32(size))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// headerSize is the number of bytes of a model's header.
func headerSize(model string) int { return len(magic) + 2 + len(model) + 8 }

// parseHeader returns the dimensions in a header of the model.
func parseHeader(b []byte, model string) (size int, err error) {
	if len(b) < headerSize(model) {
		return 0, errHeader
	}
	b = b[:headerSize(model)]
	size = int(binary.LittleEndian.Uint32(b[len(b)-8:]))
	if size < 1 || size > maxDimensions || string(b) != string(header(model, size)) {
		return 0, errHeader
	}
	return size, nil
}

var errHeader = errors.New("it has no header of this version and model")

// recordSize is the number of bytes of a record.
func recordSize(size int) int { return len(Key{}) + 4*size + 4 }

// appendRecord appends a record.
func appendRecord(b []byte, key Key, vector []float32) []byte {
	from := len(b)
	b = append(b, key[:]...)
	for _, x := range vector {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[from:], castagnoli))
}

// parseRecord returns the key of a record; ok is false if it is damaged.
func parseRecord(b []byte) (key Key, ok bool) {
	body := b[:len(b)-4]
	copy(key[:], body)
	return key, crc32.Checksum(body, castagnoli) == binary.LittleEndian.Uint32(b[len(body):])
}

// Refresh reads what was appended to the file, or the whole file if it is another
// one. A file that cannot be used counts as an empty cache.
func (c *Cache) Refresh() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refresh()
}

func (c *Cache) refresh() error {
	fi, err := c.root.Stat(c.name)
	if errors.Is(err, fs.ErrNotExist) {
		return c.use(nil)
	}
	if err != nil {
		return err
	}
	if c.file != nil {
		have, err := c.file.Stat()
		if err == nil && os.SameFile(have, fi) && fi.Size() >= c.end {
			return c.read(fi.Size())
		}
	}
	f, err := c.root.Open(c.name)
	if err != nil {
		return err
	}
	head := make([]byte, headerSize(c.model))
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return errors.Join(err, f.Close())
	}
	size, err := parseHeader(head[:n], c.model)
	if err != nil {
		return errors.Join(c.use(nil), f.Close())
	}
	if err := c.use(f); err != nil {
		return err
	}
	c.size, c.end = size, int64(len(head))
	return c.read(fi.Size())
}

// use makes f the file, of which nothing is read yet.
func (c *Cache) use(f *os.File) (err error) {
	if c.file != nil {
		err = c.file.Close() // it was only read
	}
	c.file, c.size, c.end, c.records, c.at = f, 0, 0, 0, map[Key]int32{}
	return err
}

// read reads the complete records between c.end and to. A damaged one is skipped.
func (c *Cache) read(to int64) error {
	return c.walk(c.end, to, func(record []byte) {
		if key, ok := parseRecord(record); ok {
			c.at[key] = int32(c.records)
		}
		c.records++
		c.end += int64(len(record))
	})
}

// walk calls fn for the complete records between two offsets.
func (c *Cache) walk(from, to int64, fn func(record []byte)) error {
	each := int64(recordSize(c.size))
	count := max(0, (to-from)/each)
	batch := max(1, readSize/each)
	buf := make([]byte, min(batch, count)*each)
	for count > 0 {
		part := buf[:min(batch, count)*each]
		n, err := c.file.ReadAt(part, from)
		for part = part[:int64(n)/each*each]; len(part) > 0; part = part[each:] {
			fn(part[:each])
			from += each
			count--
		}
		if err == io.EOF {
			return nil // the file was cut meanwhile
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Has reports whether a text has a vector.
func (c *Cache) Has(key Key) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	_, ok := c.at[key]
	return ok
}

// Len returns the number of texts with a vector.
func (c *Cache) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.at)
}

// Dimensions returns the number of dimensions, 0 for an empty cache.
func (c *Cache) Dimensions() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.size
}

// Add appends vectors, all of the same size. Another size than the cache's is a
// *DimensionError, and nothing is written. A torn end, which a crash leaves, is cut off
// first; a file that cannot be used is replaced.
func (c *Cache) Add(ctx context.Context, keys []Key, vectors [][]float32) error {
	return c.locked(ctx, func() error {
		size := len(vectors[0])
		if c.file == nil {
			if err := c.replace(size, nil); err != nil {
				return err
			}
		}
		if c.size != size {
			return &DimensionError{c.size, size}
		}
		var b []byte
		for i, key := range keys {
			if _, known := c.at[key]; !known {
				b = appendRecord(b, key, vectors[i])
			}
		}
		f, err := c.root.OpenFile(c.name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		if err = f.Truncate(c.end); err == nil {
			_, err = f.WriteAt(b, c.end)
		}
		if err != nil {
			err = errors.Join(err, f.Truncate(c.end))
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		return c.read(c.end + int64(len(b)))
	})
}

// locked calls fn with the cache locked for other processes and up to date. The lock
// is a file beside it, since a rewrite replaces the cache.
func (c *Cache) locked(ctx context.Context, fn func() error) (err error) {
	if err := c.root.Mkdir(c.dir, durable.DirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	dir, err := c.root.OpenRoot(c.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	lock, err := durable.AwaitLockFile(ctx, dir, FileName(c.model)+".lock", func() error { return nil })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refresh(); err != nil {
		return err
	}
	return fn()
}

// Prune rewrites the file without the records that no text needs, if they are more
// than half of it or with all. live is called with the cache locked, so that no process can have
// added a vector that live does not know.
func (c *Cache) Prune(ctx context.Context, all bool, live func() (map[Key]bool, error)) error {
	return c.locked(ctx, func() error {
		if c.file == nil {
			return nil
		}
		keys, err := live()
		if err != nil {
			return err
		}
		keep := 0
		for key := range c.at {
			if keys[key] {
				keep++
			}
		}
		if keep == c.records || !all && 2*(c.records-keep) <= c.records {
			return nil
		}
		return c.replace(c.size, keys)
	})
}

// replace writes the file anew, with the records of keys.
func (c *Cache) replace(size int, keys map[Key]bool) error {
	dir, err := c.root.OpenRoot(c.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	err = durable.ReplaceWith(dir, FileName(c.model), durable.FileMode, func(w io.Writer) error {
		_, err := w.Write(header(c.model, size))
		if err != nil || len(keys) == 0 {
			return err
		}
		number := int32(-1)
		walked := c.walk(int64(headerSize(c.model)), c.end, func(record []byte) {
			number++
			key, ok := parseRecord(record)
			if ok && keys[key] && c.at[key] == number && err == nil {
				_, err = w.Write(record)
			}
		})
		return errors.Join(walked, err)
	})
	if err != nil {
		return err
	}
	return c.refresh()
}

// Compare computes the cosine of every record with a vector of the length 1, and calls
// fn with a function that returns the cosine of a text; ok is false if it has no
// vector. The cache is locked for reading until fn returns.
func (c *Cache) Compare(vector []float32, fn func(of func(Key) (cosine float32, ok bool)) error) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.file != nil && len(vector) != c.size {
		return &DimensionError{c.size, len(vector)}
	}
	cosines := make([]float32, 0, c.records)
	if c.file != nil {
		if err := c.walk(int64(headerSize(c.model)), c.end, func(record []byte) {
			cosines = append(cosines, dot(vector, record[len(Key{}):]))
		}); err != nil {
			return err
		}
	}
	return fn(func(key Key) (float32, bool) {
		i, ok := c.at[key]
		if !ok || int(i) >= len(cosines) || cosines[i] != cosines[i] { // NaN: damaged since it was read
			return 0, false
		}
		return cosines[i], true
	})
}

// dot returns the scalar product of a vector and one in a record.
func dot(v []float32, raw []byte) float32 {
	var a, b, c, d float32 // four sums are faster than one
	i := 0
	for ; i+4 <= len(v); i += 4 {
		w := raw[4*i : 4*i+16]
		a += v[i] * math.Float32frombits(binary.LittleEndian.Uint32(w))
		b += v[i+1] * math.Float32frombits(binary.LittleEndian.Uint32(w[4:]))
		c += v[i+2] * math.Float32frombits(binary.LittleEndian.Uint32(w[8:]))
		d += v[i+3] * math.Float32frombits(binary.LittleEndian.Uint32(w[12:]))
	}
	for ; i < len(v); i++ {
		a += v[i] * math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return a + b + c + d
}

// Close closes the file.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.use(nil)
}
