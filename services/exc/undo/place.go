package undo

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// root is an open directory below which paths are opened without following
// symbolic links, and without leaving it.
type root struct {
	path string
	dir  *os.File
}

// openRoot opens an absolute path that has no symbolic links.
func openRoot(path string) (*root, error) {
	fd, err := openat2(unix.AT_FDCWD, path, unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &root{path, os.NewFile(uintptr(fd), path)}, nil
}

func (r *root) close() { closeAll(r.dir) }

// open opens a relative path.
func (r *root) open(path string, flags int) (*os.File, error) {
	fd, err := openat2(int(r.dir.Fd()), path, flags, unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_BENEATH)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: filepath.Join(r.path, path), Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(r.path, path)), nil
}

// parent opens the directory of a relative path.
func (r *root) parent(path string) (*os.File, error) {
	return r.open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY)
}

// openRegular opens a regular file for reading. It opens nothing else: that could
// block or have an effect.
func (r *root) openRegular(path string) (*os.File, error) {
	f, err := r.open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	if st, err := fstat(f); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		closeAll(f)
		return nil, errors.Join(err, errChanging)
	}
	return f, nil
}

// openat2 is openat2(2), again after a signal or a rename above the path.
func openat2(dir int, path string, flags int, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC, Resolve: resolve}
	for attempt := 0; ; attempt++ {
		fd, err := unix.Openat2(dir, path, &how)
		if err == unix.EINTR || err == unix.EAGAIN && attempt < 100 {
			continue
		}
		return fd, err
	}
}

// lstat is the stat of a name in an open directory.
func lstat(dir *os.File, name string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

func fstat(f *os.File) (st unix.Stat_t, err error) {
	err = unix.Fstat(int(f.Fd()), &st)
	return st, err
}

// sameStat reports whether two stats of a file show the same content. The kernel
// sets the time of the last change.
func sameStat(a, b unix.Stat_t) bool {
	return a.Dev == b.Dev && a.Ino == b.Ino && a.Size == b.Size && a.Mtim == b.Mtim && a.Ctim == b.Ctim
}

// readLink returns the text of a symbolic link.
func readLink(dir *os.File, name string) (string, error) {
	for size := 256; ; size *= 4 {
		buf := make([]byte, size)
		n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
		if err != nil || n < size {
			return string(buf[:max(n, 0)]), err
		}
	}
}

// syncDir makes the names in a directory durable. Some file systems cannot, and a
// directory that cannot be listed cannot be synced.
func syncDir(dir *os.File) error {
	fd, err := unix.Openat(int(dir.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	err = unix.Fsync(fd)
	_ = unix.Close(fd) // nothing was written
	if errorIs(err, unix.EIO, unix.ENOSPC, unix.EDQUOT) {
		return err
	}
	return nil
}

// through is a path to an open file, even if it was moved.
func through(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

func randomName() string { return strings.ToLower(rand.Text()) }
