package durable

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"
)

// ErrTooLarge is returned by reads that would exceed the caller's limit.
var ErrTooLarge = errors.New("the entries are larger than the reader's limit")

// Options of an Array.
type Options struct {
	// NoSync acknowledges an append when the kernel has it: it then survives
	// the process, but not a power failure.
	NoSync bool
	// Report, if set, is told what was done to a file that was not as it
	// should be. It is called with the file locked and must not use the Array.
	Report func(Event)
	// IsElement, if set, tells what is an element from other objects, such as
	// parts of a lost element, where they are searched behind a damaged place.
	IsElement func(object []byte) bool
}

// Array is a JSON array in a file that grows at its end. The file need not
// exist: an absent one is an empty array, and the first append makes it.
// An Array is safe for concurrent use; the file is opened when it is first
// needed.
type Array struct {
	root   *os.Root
	name   string
	opt    Options
	writes Group[[][]byte]

	mu       sync.Mutex // held for a whole View or Update, guards what follows
	f        *os.File
	readOnly bool        // f cannot be written
	now      fs.FileInfo // of f, since it was locked
	tip      tip
	gen      uint64 // grows when the file was replaced or rewritten, not only appended to

	// What recovery read of a file that it could not rewrite, until unlock.
	salvaged [][]byte
	broken   error
}

// tip is what is known of the file and its end.
type tip struct {
	known bool
	size  int64
	mtime time.Time
	end   int64  // the end of the last element, where the next append is written
	bare  bool   // there is no element yet
	rest  []byte // the bytes from end on: the closing bracket and white space
	print []byte // some bytes before end, to know the file again
}

// NewArray returns the array in the named file of root. The name has no
// directory part.
func NewArray(root *os.Root, name string, opt Options) *Array {
	return &Array{root: root, name: name, opt: opt, gen: 1}
}

// Append adds elements, each one a JSON object in UTF-8, and returns when they are on
// disk. Concurrent calls share one write and one sync. After an error none of
// the elements is stored and the file is as it was.
func (a *Array) Append(elems [][]byte) error {
	if len(elems) == 0 {
		return nil
	}
	return a.writes.Do(elems, func(all [][][]byte) error {
		return a.Update(func(t *Tx) error {
			var flat [][]byte
			for _, elems := range all {
				flat = append(flat, elems...)
			}
			return t.Append(flat)
		})
	})
}

// Last returns the last n elements, or all if n is 0 or less, each one as it
// stands in its line. With limit > 0 it fails with ErrTooLarge if the elements
// and the commas between them take more bytes than that.
func (a *Array) Last(n int, limit int64) (elems [][]byte, err error) {
	err = a.View(func(t *Tx) error {
		elems, err = t.Last(n, limit)
		return err
	})
	return elems, err
}

// Remove deletes the file. An absent file is no error.
func (a *Array) Remove() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	there, err := a.acquire(false)
	if !there || err != nil {
		return err
	}
	defer a.drop()
	if err := a.root.Remove(a.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return a.syncDir()
}

// Close closes the file. The Array stays usable and opens it again when needed.
func (a *Array) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop()
}

// View calls fn with the file locked and up to date.
func (a *Array) View(fn func(*Tx) error) error { return a.locked(false, fn) }

// Update is View for a function that may append: the lock is there even if the
// file is not, so that what fn reads cannot change before it has appended.
func (a *Array) Update(fn func(*Tx) error) error { return a.locked(true, fn) }

func (a *Array) locked(create bool, fn func(*Tx) error) (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	there, err := a.acquire(create)
	if err != nil {
		return err
	}
	if !there {
		return fn(&Tx{a: a, absent: true})
	}
	defer func() { err = either(err, a.release(create)) }()
	if err := a.refresh(); err != nil {
		return err
	}
	return fn(&Tx{a: a})
}

// either is err, or the second error if there is none: what went wrong first
// says more, and errors stay one line.
func either(err, second error) error {
	if err != nil {
		return err
	}
	return second
}

func (a *Array) syncDir() error {
	if a.opt.NoSync {
		return nil
	}
	return SyncDir(a.root)
}

func (a *Array) report(e Event) {
	if e.Name = a.name; a.opt.Report != nil {
		a.opt.Report(e)
	}
}
