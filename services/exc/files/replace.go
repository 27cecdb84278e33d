package files

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// temporaryPrefix begins the names of files that are being written.
const temporaryPrefix = ".zino-"

// put makes data the content of the file. The file holds its former content or
// all of data at every moment, also after a crash, unless it cannot be
// replaced: then it is overwritten.
func (t target) put(data []byte) error {
	if t.info == nil {
		return t.swap(data)
	}
	if t.info.Sys().(*syscall.Stat_t).Nlink > 1 {
		return t.overwrite(data) // its other names are to lead to the same content
	}
	err := t.swap(data)
	if prevented(err) {
		return t.overwrite(data)
	}
	return err
}

// prevented reports errors that say that a file cannot be replaced by another
// one, but perhaps be written: there are no rights to the directory, the new
// file cannot be made to look like the old one, or that is mounted.
func prevented(err error) bool {
	return isAny(err, syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.EXDEV, syscall.EBUSY,
		syscall.ENOTSUP, syscall.ENAMETOOLONG)
}

// isAny reports whether err is one of those errors of the system.
func isAny(err error, errnos ...syscall.Errno) bool {
	return slices.ContainsFunc(errnos, func(e syscall.Errno) bool { return errors.Is(err, e) })
}

// swap writes data to a file beside the target and gives it the target's name.
func (t target) swap(data []byte) error {
	dir := filepath.Dir(t.at)
	perm := fs.FileMode(0o666) // less the umask
	if t.info != nil {
		perm = 0o600 // nobody looks into it until it is as open as the old one
	}
	f, err := temporary(dir, perm)
	if t.info != nil && errors.Is(err, fs.ErrNotExist) {
		return fail(WriteError, "%s cannot be replaced: no file can be made beside it", t.path)
	}
	if err != nil {
		return err
	}
	if err = t.fill(f, data); err == nil {
		err = t.rename(f.Name())
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(dir)
}

// rename gives the file at path the target's name. A new file takes no name
// that somebody has taken meanwhile: that one may be being changed.
func (t target) rename(path string) error {
	if t.info != nil {
		if err := t.disturbed(); err != nil {
			return err
		}
		return os.Rename(path, t.at)
	}
	switch err := unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, t.at, unix.RENAME_NOREPLACE); {
	case errors.Is(err, fs.ErrExist):
		return errReplaced
	case isAny(err, syscall.EINVAL, syscall.ENOSYS): // not on this file system
		return os.Rename(path, t.at)
	default:
		return err
	}
}

// temporary makes a new file.
func temporary(dir string, perm fs.FileMode) (*os.File, error) {
	for {
		f, err := os.OpenFile(filepath.Join(dir, temporaryPrefix+rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// fill writes data to f, makes it look like the target, and closes it.
func (t target) fill(f *os.File, data []byte) error {
	_, err := f.Write(data)
	if err == nil && t.info != nil {
		err = imitate(f, t.at, t.info)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncDir makes the names in a directory durable. Some file systems cannot, and
// a directory that cannot be listed cannot be synced: that is no reason to
// call a change failed that has taken place.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	if err = d.Sync(); isAny(err, syscall.EIO, syscall.ENOSPC, syscall.EDQUOT) {
		return err
	}
	return nil
}
