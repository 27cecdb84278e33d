// Package tail reads and changes the ends of files that other programs write
// too, in place and without losing a byte of theirs. It knows nothing of what
// stands in them.
//
// A file is read, the caller decides, and [Dir.Replace] puts the new end there
// only if the file still is what was read. Between that comparison and the write
// lies a moment in which another program may write. It is closed as far as the
// system allows: a lease keeps others from opening the file while we are at it,
// and what makes a file longer is appended first and taken back if somebody else
// was quicker, so that even a program that has the file open loses nothing that
// it appends.
package tail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Errors of files that are not what they should be.
var (
	// ErrChanged: the file is not what was read. Read it again.
	ErrChanged = errors.New("the file was changed meanwhile")
	// ErrNotRegular: the name is that of a link, a directory or a device.
	ErrNotRegular = errors.New("not a regular file")
	// ErrTooLong: there is more to read than anyone writes by hand.
	ErrTooLong = errors.New("the part to be read is too long")
)

// Max is how many bytes of a file's end are read at most.
const Max = 64 << 20

// Dir is a directory whose files are read and changed. Names are relative to it
// and cannot lead out of it. It is safe for concurrent use, but not for two
// changes of one file at the same time.
type Dir struct {
	root *os.Root
	// between is called between comparing and writing, by tests.
	between func()
}

// OpenDir opens a directory, which must exist.
func OpenDir(path string) (*Dir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &Dir{root: root, between: func() {}}, nil
}

// Close lets go of the directory.
func (d *Dir) Close() error { return d.root.Close() }

// Stamp tells one state of a file from another without reading it: two states
// with equal stamps are the same unless both are younger than the resolution of
// the file system's clock, see [Stamp.Young].
type Stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime time.Duration // since 1970
}

// resolution is the coarsest clock of a file system.
const resolution = 2 * time.Second

// Young reports whether the file may change again without changing its stamp.
func (s Stamp) Young(now time.Time) bool {
	age := time.Duration(now.UnixNano()) - max(s.mtime, s.ctime)
	return age < resolution
}

// stampOf is a file's stamp.
func stampOf(info fs.FileInfo) Stamp {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok { // only other systems' file infos
		return Stamp{size: info.Size(), mtime: time.Duration(info.ModTime().UnixNano())}
	}
	return Stamp{
		dev: uint64(st.Dev), ino: st.Ino, size: st.Size,
		mtime: time.Duration(st.Mtim.Nano()), ctime: time.Duration(st.Ctim.Nano()),
	}
}

// Stat is a file's stamp now. Links are not followed.
func (d *Dir) Stat(name string) (Stamp, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return Stamp{}, err
	}
	if !info.Mode().IsRegular() {
		return Stamp{}, irregular(name)
	}
	return stampOf(info), nil
}

// Open opens a file that is a regular one and no link.
func (d *Dir) Open(name string) (*os.File, error) { return d.open(name, os.O_RDONLY) }

// open does not wait for the other end of a pipe, and notices a link: what was
// opened has to be what the name itself stands for.
func (d *Dir) open(name string, flag int) (*os.File, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, irregular(name)
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

func irregular(name string) error {
	return fmt.Errorf("%s: %w", name, ErrNotRegular)
}

// Size is the file's length in bytes.
func (s Stamp) Size() int64 { return s.size }
