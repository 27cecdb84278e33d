package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// acquire opens the file if need be and locks it against other processes. It
// reports false if there is no file and none is to be created. The file that
// is locked is the one that bears the name now: between opening and locking
// another process may have removed or replaced it.
func (a *Array) acquire(create bool) (bool, error) {
	if create && a.readOnly {
		a.drop()
	}
	for {
		if a.f == nil {
			if err := a.open(create); errors.Is(err, fs.ErrNotExist) && !create {
				return false, nil
			} else if err != nil {
				return false, err
			}
		}
		if err := flock(a.f, syscall.LOCK_EX); err != nil {
			a.drop()
			return false, fmt.Errorf("lock %s: %w", a.name, err)
		}
		current, err := a.current()
		if current || err != nil {
			return current, err
		}
		a.drop()
	}
}

// open opens the file to write it: a reader repairs what it finds torn. A file
// that cannot be written is opened to be read only.
func (a *Array) open(create bool) (err error) {
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE
	}
	a.readOnly = false
	a.f, err = openPrivate(a.root, a.name, flags)
	if !create && (errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission)) {
		a.readOnly = true
		a.f, err = openRegular(a.root, a.name, os.O_RDONLY)
	}
	return err
}

// openPrivate opens a file to write it, and closes it to others: files of other
// programs may be open to all, these are private.
func openPrivate(root *os.Root, name string, flags int) (*os.File, error) {
	f, err := openRegular(root, name, flags)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && fi.Mode().Perm()&0o077 != 0 {
		err = f.Chmod(fi.Mode().Perm() & 0o700)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// openRegular opens what must be a file; a pipe does not hold it up.
func openRegular(root *os.Root, name string, flags int) (*os.File, error) {
	f, err := root.OpenFile(name, flags|syscall.O_NONBLOCK, FileMode)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// current reports whether the open file still bears the name.
func (a *Array) current() (bool, error) {
	named, err := a.root.Stat(a.name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		a.drop()
		return false, err
	}
	ours, err := a.f.Stat()
	if err != nil {
		a.drop()
		return false, err
	}
	a.now = ours
	return os.SameFile(named, ours), nil
}

// release unlocks the file. One that was made for an append which did not come
// about goes away again.
func (a *Array) release(created bool) error {
	a.salvaged, a.broken = nil, nil
	if a.f == nil {
		return nil
	}
	if created && a.tip.known && a.tip.size == 0 {
		defer a.drop()
		return a.root.Remove(a.name)
	}
	return flock(a.f, syscall.LOCK_UN)
}

// drop forgets the open file; closing it ends the lock. Whatever bears the name
// next is another file, until it is known better.
func (a *Array) drop() {
	if a.f != nil {
		_ = a.f.Close() // nothing can be lost: what had to be on disk was synced
	}
	a.f, a.readOnly = nil, false
	a.tip.known = false
	a.gen++
	a.salvaged, a.broken = nil, nil
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}

func fdatasync(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return err
		}
	}
}
