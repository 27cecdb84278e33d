package durable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"zino/pkg/wire"
)

// MaxLine limits the bytes of an object in a file of Lines, so that it fits into a
// packet with its envelope.
const MaxLine = wire.MaxPayload - 1024

var (
	// ErrTooLarge is the error of a read that would exceed the caller's limit,
	// and of a line above MaxLine.
	ErrTooLarge = errors.New("the entries are larger than the reader's limit")
	// ErrPlace is the error of an offset at which no line begins.
	ErrPlace = errors.New("no line begins at this place")
	// ErrLayout is the error of Walk for a line that is not an element: the file
	// then needs Tx.Repair.
	ErrLayout = errors.New("a line of the file is not an element of its array")
)

// Framing is the layout of the objects in a file.
type Framing int

// The framings; see the package's comment.
const (
	Lines Framing = iota
	Array
)

// Options of a File.
type Options struct {
	Framing Framing
	// NoSync acknowledges an append after write(2), without fdatasync: it survives
	// the process, but not a power failure before the next Sync.
	NoSync bool
	// KeepOpen keeps the file open between calls, until Close. Otherwise every call
	// opens it.
	KeepOpen bool
	// Report, if set, is called after every repair, while the file is locked: it
	// must not call methods of the File.
	Report func(Event)
	// IsElement, if set, distinguishes the elements of a damaged array from other
	// objects, such as parts of a lost element.
	IsElement func(object []byte) bool
}

// File is an append-only file of JSON objects. The first append creates it. A File
// is safe for concurrent use.
type File struct {
	root    *os.Root
	name    string
	opt     Options
	appends Group[[][]byte]

	sync func(f *os.File, name string) error // fdatasync, except in tests

	turn chan struct{} // holds a token during every View and Update; guards what follows

	f        *os.File
	opened   fs.FileInfo // of f, when it was opened: it identifies the inode
	readOnly bool        // f cannot be written
	now      fs.FileInfo // of f, when it was locked
	tip      tip
	gen      uint64 // changes when the file is replaced or rewritten
	window   int64  // bytes at the end that contain what Last returned, and an eighth more
	valid    valid

	// The elements of a damaged file that could not be rewritten, and the error;
	// reset when it is unlocked.
	salvaged [][]byte
	broken   error
}

// tip is the known end of the file.
type tip struct {
	known bool
	size  int64
	mtime time.Time
	end   int64  // the offset behind the last object, where the next append is written
	empty bool   // the file has no object yet
	rest  []byte // Array: the bytes from end on: the closing bracket and white space
	print []byte // up to 64 bytes before end, to recognize the file
}

const printSize = 64

// valid are the last rows up to an offset that are known to be valid JSON, because Last
// has checked or Append has written them. Bytes before the end of an object do not change
// within a generation.
type valid struct {
	gen  uint64
	end  int64
	rows int
}

// generations is the last generation number used by any File, so that a Mark of
// one File is never valid for another.
var generations atomic.Uint64

// New returns a File for name in root. The name has no directory part.
func New(root *os.Root, name string, opt Options) *File {
	return &File{root: root, name: name, opt: opt, sync: fdatasync, turn: make(chan struct{}, 1), gen: generations.Add(1)}
}

// access says how a caller uses the locked file.
type access int

const (
	viewing  access = iota // an absent file counts as empty
	updating               // an absent file is an error
	creating               // an absent file is created
)

// View locks the file, repairs it if the disk allows that, and calls fn.
func (f *File) View(fn func(*Tx) error) error {
	return f.locked(context.Background(), viewing, fn)
}

// Update is View for a function that may append: fn reads and appends under one
// lock. Update waits for the lock until ctx ends. With create it creates an absent
// file, and removes it again if nothing is appended; without create an absent file
// is an error fs.ErrNotExist.
func (f *File) Update(ctx context.Context, create bool, fn func(*Tx) error) error {
	if create {
		return f.locked(ctx, creating, fn)
	}
	return f.locked(ctx, updating, fn)
}

func (f *File) locked(ctx context.Context, how access, fn func(*Tx) error) (err error) {
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-f.turn }()
	err = f.acquire(ctx, how)
	if how == viewing && errors.Is(err, fs.ErrNotExist) {
		return fn(&Tx{f: f, absent: true})
	}
	if err != nil {
		return err
	}
	defer func() {
		if released := f.release(how); err == nil {
			err = released
		}
	}()
	if err := f.refresh(); err != nil {
		return err
	}
	return fn(&Tx{f: f})
}

// acquire opens the file if necessary and locks it. It retries if another process
// removed or replaced the file between open and flock.
func (f *File) acquire(ctx context.Context, how access) error {
	if how != viewing && f.readOnly {
		f.drop()
	}
	for {
		if f.f == nil {
			flags := os.O_RDWR
			if how == creating {
				flags |= os.O_CREATE
			}
			open, err := openPrivate(f.root, f.name, flags)
			if how == viewing && (errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission)) {
				f.readOnly = true
				open, err = openRegular(f.root, f.name, os.O_RDONLY)
			}
			if err != nil {
				f.readOnly = false
				return err
			}
			f.f = open
			if f.opened, err = open.Stat(); err != nil {
				f.drop()
				return err
			}
		}
		err := Lock(ctx, f.f)
		if err == nil {
			f.now, err = named(f.opened, f.root, f.name)
		}
		if err == nil && f.now != nil {
			return nil
		}
		f.drop()
		if err != nil {
			return err
		}
	}
}

// release unlocks the file. It removes a file that was created for an append that
// failed.
func (f *File) release(how access) error {
	f.salvaged, f.broken = nil, nil
	switch {
	case f.f == nil:
		return nil
	case how == creating && f.tip.known && f.tip.size == 0:
		defer f.drop()
		return f.root.Remove(f.name)
	case !f.opt.KeepOpen:
		f.drop()
		return nil
	}
	return flock(f.f, syscall.LOCK_UN)
}

// drop closes the file, which unlocks it, and resets the cached state.
func (f *File) drop() {
	if f.f != nil {
		f.f.Close() // no data is lost by an error: appends were synced
	}
	f.f, f.readOnly, f.tip.known = nil, false, false
	f.gen = generations.Add(1)
	f.salvaged, f.broken = nil, nil
}

// Close closes the file. The File stays usable and opens it again when needed.
func (f *File) Close() {
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	f.drop()
}

// Remove deletes the file, and the quarantined parts of a file of Lines. An absent
// file is an error fs.ErrNotExist.
func (f *File) Remove() error {
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	if err := f.acquire(context.Background(), viewing); err != nil {
		return err
	}
	defer f.drop()
	if err := f.root.Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if f.opt.Framing == Lines {
		if err := removeQuarantined(f.root, f.name); err != nil {
			return err
		}
	}
	if f.opt.NoSync {
		return nil
	}
	return SyncDir(f.root)
}

// Sync returns when all appended objects and the file's name are on disk. It does
// not lock the file. An absent file is not an error.
func (f *File) Sync() error {
	open, err := openRegular(f.root, f.name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer open.Close()
	if err := f.sync(open, f.name); err != nil {
		return err
	}
	return SyncDir(f.root)
}

func fdatasync(f *os.File, name string) error {
	for {
		switch err := syscall.Fdatasync(int(f.Fd())); err {
		case syscall.EINTR:
		case nil:
			return nil
		default:
			return &os.PathError{Op: "fdatasync", Path: name, Err: err}
		}
	}
}

// refresh updates the tip. It reads nothing if size and mtime are unchanged, and
// only the last object if the file has grown.
func (f *File) refresh() error {
	size, old := f.now.Size(), f.tip
	if old.known && size == old.size && f.now.ModTime().Equal(old.mtime) {
		return nil
	}
	grown := false
	if old.known && !old.empty && size > old.size {
		print, err := f.read(old.end-int64(len(old.print)), old.end)
		if err != nil {
			return err
		}
		grown = string(print) == string(old.print)
	}
	if !grown {
		f.gen = generations.Add(1)
	}
	f.tip.known = false
	if f.opt.Framing == Lines {
		return f.inspectLines(size)
	}
	ok, err := f.inspectArray(size)
	if err != nil || ok {
		return err
	}
	return f.repairArray()
}

// setTip makes t the known end of the file.
func (f *File) setTip(t tip) error {
	fi, err := f.f.Stat()
	if err != nil {
		return err
	}
	t.known, t.size, t.mtime = true, fi.Size(), fi.ModTime()
	f.tip = t
	return nil
}

// read returns the bytes of the file from start to end, or to the end of the file
// if that comes first.
func (f *File) read(start, end int64) ([]byte, error) {
	data := make([]byte, end-start)
	n, err := f.f.ReadAt(data, start)
	if n == len(data) || err == io.EOF {
		err = nil
	}
	return data[:n], err
}

// Version identifies a state of the file by its inode, size and mtime. The zero
// Version differs from every state.
type Version struct {
	known bool
	fi    fs.FileInfo // nil: there was no file
}

// Unchanged reports whether the file still has version v. It does not lock the
// file, so it may or may not see an append in progress.
func (f *File) Unchanged(v Version) bool {
	if !v.known {
		return false
	}
	now, err := f.root.Stat(f.name)
	if err != nil || v.fi == nil {
		return v.fi == nil && errors.Is(err, fs.ErrNotExist)
	}
	return os.SameFile(now, v.fi) && now.Size() == v.fi.Size() && now.ModTime().Equal(v.fi.ModTime())
}

// Kind is what a repair did.
type Kind string

// The kinds of repair.
const (
	// Repaired: the end of an interrupted write was completed; no object is lost.
	Repaired Kind = "repaired"
	// Converted: a valid array in another layout was rewritten, one element a line.
	Converted Kind = "converted"
	// Damaged: the file is not a valid array in UTF-8. It was quarantined, and the
	// readable elements were written to a new file.
	Damaged Kind = "damaged"
	// Cut: the last line was incomplete; it was quarantined.
	Cut Kind = "cut"
)

// Event reports a repair, for the log.
type Event struct {
	Kind     Kind
	Name     string // the file
	Kept     string // the name of the quarantined file
	Elements int    // of an array, that can be read
	Err      error  // why the file could not be rewritten; it is unchanged
}

// String describes the event in one line.
func (e Event) String() string {
	var s string
	switch e.Kind {
	case Cut:
		return fmt.Sprintf("%s: its last line was cut off in the middle of a write and was removed; the piece is kept as %s: look at it, then delete it", e.Name, e.Kept)
	case Damaged:
		s = fmt.Sprintf("%s is damaged: %d of its entries could be read and are served", e.Name, e.Elements)
	case Converted:
		s = fmt.Sprintf("%s was rewritten with one entry a line, %d entries", e.Name, e.Elements)
	default:
		s = fmt.Sprintf("%s: the end of an interrupted write was repaired, %d entries", e.Name, e.Elements)
	}
	if e.Err != nil {
		return fmt.Sprintf("%s; the file could not be rewritten: %v", s, e.Err)
	}
	if e.Kept != "" {
		s += fmt.Sprintf("; the damaged file is kept as %s: look at it, then delete it", e.Kept)
	}
	return s
}

func (f *File) report(e Event) {
	if e.Name = f.name; f.opt.Report != nil {
		f.opt.Report(e)
	}
}
