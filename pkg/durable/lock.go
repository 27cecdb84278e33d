package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// ErrLocked is returned if another process, or another open file of this process,
// has the lock.
var ErrLocked = errors.New("locked by another process")

// Lock locks an open file or directory with flock(2) until f is closed or the
// process ends; other calls of Lock wait. The lock is on the inode, not on the
// name: a caller that needs the name checks with os.SameFile afterwards that the
// file still has it, or uses a LockFile. When ctx ends first, Lock returns its
// error.
func Lock(ctx context.Context, f *os.File) error { return await(ctx, f, syscall.LOCK_EX) }

// TryLock is Lock without waiting: it returns ErrLocked if the file is locked.
func TryLock(f *os.File) error { return flock(f, syscall.LOCK_EX|syscall.LOCK_NB) }

// Waits between attempts to get a lock; each is twice as long as the one before.
const (
	firstWait = time.Millisecond
	lastWait  = 25 * time.Millisecond
)

func await(ctx context.Context, f *os.File, how int) error {
	if ctx.Done() == nil {
		return flock(f, how)
	}
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		if err := flock(f, how|syscall.LOCK_NB); !errors.Is(err, ErrLocked) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

func flock(f *os.File, how int) error {
	for {
		switch err := syscall.Flock(int(f.Fd()), how); err {
		case syscall.EINTR:
		case syscall.EWOULDBLOCK:
			return ErrLocked
		case nil:
			return nil
		default:
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

// LockFile is a lock on a name, for work that takes longer than a write. A file
// of that name exists as long as the lock does. The kernel releases the lock when
// the process dies; the file that remains then is not a lock.
type LockFile struct {
	root *os.Root
	name string
	f    *os.File
}

// TryLockFile acquires the lock of a name, which has no directory part. It returns
// ErrLocked if another process or another LockFile of this one has it.
func TryLockFile(root *os.Root, name string) (*LockFile, error) {
	for {
		f, err := openPrivate(root, name, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, err
		}
		// Unlock removes the file before it releases the lock: after flock the name
		// may belong to another file.
		fi, err := f.Stat()
		if err == nil {
			err = TryLock(f)
		}
		if err == nil {
			fi, err = named(fi, root, name)
			if fi != nil {
				return &LockFile{root, name, f}, nil
			}
			if err == nil {
				f.Close()
				continue
			}
		}
		f.Close()
		return nil, err
	}
}

// AwaitLockFile acquires the lock of a name, waiting until ctx ends. If it has not
// acquired the lock within 15 ms, it calls busy once.
func AwaitLockFile(ctx context.Context, root *os.Root, name string, busy func() error) (*LockFile, error) {
	for wait, noticed := firstWait, false; ; wait = min(2*wait, lastWait) {
		l, err := TryLockFile(root, name)
		if !errors.Is(err, ErrLocked) {
			return l, err
		}
		if wait > 8*time.Millisecond && !noticed {
			noticed = true
			if err := busy(); err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// Unlock removes the file and releases the lock.
func (l *LockFile) Unlock() error {
	err := l.root.Remove(l.name)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.f.Close())
}

// named returns the FileInfo of the open file, or nil if name does not refer to it any
// more.
func named(open fs.FileInfo, root *os.Root, name string) (fs.FileInfo, error) {
	now, err := root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || !os.SameFile(now, open) {
		return nil, err
	}
	return now, nil
}

// openPrivate opens a file and removes the permissions of group and others, which
// it has if another program created it.
func openPrivate(root *os.Root, name string, flags int) (*os.File, error) {
	f, err := openRegular(root, name, flags)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && fi.Mode().Perm()&0o077 != 0 {
		err = f.Chmod(fi.Mode().Perm() & DirMode)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// openRegular opens a regular file. O_NONBLOCK keeps open(2) from blocking on a
// FIFO.
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
