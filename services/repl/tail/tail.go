// Package tail reads and changes the ends of files that other programs write too, in
// place and without losing a byte of theirs. It does not interpret the content.
//
// A file is read, the caller decides, and [Dir.Replace] writes the new end only if
// the file still is what was read. Between that comparison and the write lies a
// moment in which another program may write. It is closed as far as the system
// allows: a lease keeps others from opening the file during the change, and what
// makes a file longer is appended first and taken back if another program has
// appended meanwhile, so that even a program that has the file open loses nothing
// that it appends. Without the lease the end of a file is not cut off: blank lines
// stay in place of what goes, until the next edit.
package tail

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"

	"zino/pkg/durable"
)

// Errors of files that are not what they should be.
var (
	// ErrChanged: the file is not what was read. Read it again.
	ErrChanged = errors.New("the file was changed meanwhile")
	// ErrSaved: the edit was made, and then another program truncated the file or
	// saved a copy that contains the edit. It is an ErrChanged, too.
	ErrSaved = fmt.Errorf("%w, after the edit", ErrChanged)
	// ErrNotRegular: the name is that of a link, a directory or a device.
	ErrNotRegular = errors.New("not a regular file")
	// ErrTooLong: there is more than Max to read.
	ErrTooLong = errors.New("the part to be read is too long")
)

// Max is how many bytes of a file's end are read at most.
const Max = 64 << 20

// Dir is a directory whose files are read and changed. Names are relative to it and
// cannot lead out of it. It is safe for concurrent use, but not for two changes of
// one file at the same time.
type Dir struct {
	root *os.Root
	// between is called between comparing and writing, written before the file is
	// read again: for tests.
	between, written func()

	mu   sync.Mutex
	left map[string]blanks // by file name
}

// blanks are the blank lines that an edit could not cut off, because another program
// had the file open. While they stand where the edit left them, views do not show
// them, and the next edit removes them.
type blanks struct {
	at     int64
	n      int
	before []byte // the end of what stands before them
}

// beforeMax is how much of the text before blank lines is compared.
const beforeMax = 64

// OpenDir opens a directory, which must exist.
func OpenDir(path string) (*Dir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &Dir{root: root, between: func() {}, written: func() {}, left: map[string]blanks{}}, nil
}

// Close closes the directory.
func (d *Dir) Close() error { return d.root.Close() }

// Make creates a directory, unless it exists. A link in its place is an error.
func (d *Dir) Make(name string) error {
	if err := d.root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := d.root.Lstat(name)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s: not a directory", name)
	}
	return err
}

// Names returns the names in a directory, in no particular order.
func (d *Dir) Names(name string) ([]string, error) {
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}

// Create creates a file that must not exist yet, and returns when it is on disk. After
// an error the file is nil.
func (d *Dir) Create(name, text string) error {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, d.root.Remove(name))
	}
	dir, err := d.root.OpenRoot(path.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(durable.SyncDir(dir), dir.Close())
}

// Remove removes a file, or an empty directory.
func (d *Dir) Remove(name string) error { return d.root.Remove(name) }

// Lock locks a directory, which is created if need be, until the lock is closed or
// the process ends. It leaves no trace in the directory. The error is
// durable.ErrLocked if another process has the lock.
func (d *Dir) Lock(name string) (io.Closer, error) {
	if err := d.Make(name); err != nil {
		return nil, err
	}
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	if err := durable.TryLock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Stamp distinguishes states of a file without reading it: two states with equal
// stamps are the same unless both are younger than the resolution of the file
// system's clock, see [Stamp.Young].
type Stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime time.Duration // since 1970
}

// Size returns the length of the file in bytes.
func (s Stamp) Size() int64 { return s.size }

// Written returns when the file was last written.
func (s Stamp) Written() time.Time { return time.Unix(0, int64(s.mtime)) }

// Before reports whether the file of s was written before that of another stamp.
func (s Stamp) Before(other Stamp) bool { return s.mtime < other.mtime }

// resolution is the coarsest clock of a file system.
const resolution = 2 * time.Second

// Young reports whether the file may change again without changing its stamp.
func (s Stamp) Young(now time.Time) bool {
	age := time.Duration(now.UnixNano()) - max(s.mtime, s.ctime)
	return age < resolution
}

func stampOf(info fs.FileInfo) Stamp {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok { // not on Linux
		return Stamp{size: info.Size(), mtime: time.Duration(info.ModTime().UnixNano())}
	}
	return Stamp{
		dev: uint64(st.Dev), ino: st.Ino, size: st.Size,
		mtime: time.Duration(st.Mtim.Nano()), ctime: time.Duration(st.Ctim.Nano()),
	}
}

// Stat returns the stamp of a file. Links are not followed.
func (d *Dir) Stat(name string) (Stamp, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return Stamp{}, err
	}
	if !info.Mode().IsRegular() {
		return Stamp{}, fmt.Errorf("%s: %w", name, ErrNotRegular)
	}
	return stampOf(info), nil
}

// Open opens a regular file. It is read with all of its blank lines, so those that
// edits left are shown from now on.
func (d *Dir) Open(name string) (*os.File, error) {
	d.mu.Lock()
	delete(d.left, name)
	d.mu.Unlock()
	return d.open(name, os.O_RDONLY)
}

// open follows no link and does not wait for the other end of a pipe: the opened
// file must be the one that Lstat has seen.
func (d *Dir) open(name string, flag int) (*os.File, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", name, ErrNotRegular)
	}
	f, err := d.root.OpenFile(name, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(info, opened) {
		err = fmt.Errorf("%s: %w", name, ErrChanged)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// View is the end of a file as it was read, without blank lines that an earlier edit
// left. Positions behind Offset are counted in Bytes.
type View struct {
	Bytes   []byte // from Offset to the end
	Offset  int64
	ModTime time.Time
	Missing bool // there is no file
	Stamp   Stamp

	hidden *blanks // what Bytes does not show; nil: nothing
}

// end returns the length of the file without the hidden blank lines.
func (v *View) end() int64 { return v.Offset + int64(len(v.Bytes)) }

// whole returns the bytes as they stand in the file.
func (v *View) whole() []byte {
	if v.hidden == nil {
		return v.Bytes
	}
	i := v.hidden.at - v.Offset
	return slices.Concat(v.Bytes[:i], blank(v.hidden.n), v.Bytes[i:])
}

// hide removes the blank lines that an edit left from a view of the whole end of a
// file. Another program may have moved or changed them: then they are its own.
func (d *Dir) hide(name string, v *View) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, ok := d.left[name]
	i := b.at - v.Offset
	if !ok || i < int64(len(b.before)) {
		return
	}
	if i > int64(len(v.Bytes)) || !bytes.HasSuffix(v.Bytes[:i], b.before) || !bytes.HasPrefix(v.Bytes[i:], blank(b.n)) {
		delete(d.left, name)
		return
	}
	v.Bytes, v.hidden = slices.Concat(v.Bytes[:i], v.Bytes[i+int64(b.n):]), &b
}

// Read reads a file from a position to its end. If the file ends before that
// position, the view is empty and begins at the end of the file.
func (d *Dir) Read(name string, from int64) (View, error) {
	f, err := d.open(name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return View{Missing: true}, nil
	}
	if err != nil {
		return View{}, err
	}
	v, err := read(f, from)
	if err != nil {
		return View{}, errors.Join(err, f.Close())
	}
	d.hide(name, &v)
	return v, f.Close()
}

// read reads an open file, which may grow or shrink meanwhile.
func read(f *os.File, from int64) (View, error) {
	info, err := f.Stat()
	if err != nil {
		return View{}, err
	}
	v := View{Offset: min(max(from, 0), info.Size()), ModTime: info.ModTime(), Stamp: stampOf(info)}
	if info.Size()-v.Offset > Max {
		return View{}, fmt.Errorf("%w: %d bytes", ErrTooLong, info.Size()-v.Offset)
	}
	v.Bytes = make([]byte, info.Size()-v.Offset)
	n, err := f.ReadAt(v.Bytes, v.Offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	v.Bytes = v.Bytes[:n]
	return v, err
}
