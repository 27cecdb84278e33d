package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// linksMax is how many symbolic links lead to a file at most, as in Linux.
const linksMax = 40

// target is a file to change.
type target struct {
	path string      // absolute, without symbolic links
	at   string      // a path to work with: path, or one by way of dir, which nobody can make lead elsewhere
	dir  *os.File    // its directory, open; nil: path is good enough
	info fs.FileInfo // nil if there is no such file yet
	id   identity
	read fs.FileInfo // as it was when it was read: only that is replaced; nil: whatever is there
}

// identity tells files apart, whatever names they have. That of a file which is
// not there yet is its directory's with its name.
type identity struct {
	dev, ino uint64
	name     string
}

func identityOf(fi fs.FileInfo) identity {
	st := fi.Sys().(*syscall.Stat_t)
	return identity{dev: st.Dev, ino: st.Ino}
}

// close lets go of the target's directory.
func (t target) close() {
	if t.dir != nil {
		_ = t.dir.Close() // nothing was written to it
	}
}

// resolve finds the file that path leads to. parents is called with every
// directory that it must lie in.
func resolve(path string, parents func(dir string) error) (target, error) {
	path, err := follow(path, parents)
	if err != nil {
		return target{}, err
	}
	fi, err := os.Lstat(path)
	if err == nil {
		return target{path: path, at: path, info: fi, id: identityOf(fi)}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return target{}, err
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return target{}, err
	}
	id := identityOf(dir)
	id.name = filepath.Base(path)
	return target{path: path, at: path, id: id}, nil
}

// follow is the absolute path without symbolic links that path stands for, the
// last link's own included, which may point to a file that is not there.
func follow(path string, parents func(dir string) error) (string, error) {
	for range linksMax {
		dir, name := filepath.Split(path)
		if err := parents(dir); err != nil {
			return "", err
		}
		link, err := os.Readlink(path)
		switch {
		case errors.Is(err, syscall.EINVAL): // no link
			return filepath.EvalSymlinks(path)
		case errors.Is(err, fs.ErrNotExist):
			dir, err = filepath.EvalSymlinks(dir)
			return filepath.Join(dir, name), err
		case err != nil:
			return "", err
		case filepath.IsAbs(link):
			path = link
		default:
			path = dir + link
		}
	}
	return "", syscall.ELOOP
}

// asTheyAre leaves directories alone.
func asTheyAre(string) error { return nil }

// makeParents makes a directory and those above it where they are missing, and
// has their names on disk.
func makeParents(dir string) error {
	dir = strings.TrimRight(dir, "/")
	if fi, err := os.Stat(dir + "/"); err == nil && fi.IsDir() {
		return nil
	}
	above, _ := filepath.Split(dir)
	if above != "" {
		if err := makeParents(above); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !isDir(dir) {
		return fail(MkdirError, "Cannot make the directory %s: %v", dir, reason(err))
	}
	if err := syncDir(above); err != nil {
		return fail(MkdirError, "Cannot keep the directory %s: %v", dir, reason(err))
	}
	return nil
}

// isDir reports whether somebody else made the directory meanwhile.
func isDir(dir string) bool {
	fi, err := os.Stat(dir)
	return err == nil && fi.IsDir()
}

// kind names what is no regular file.
func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "no regular file"
}

// openRegular opens a regular file to read it. Nothing else is even opened:
// that could wait, or do something.
func openRegular(path string) (*os.File, fs.FileInfo, error) { return openRegularAs(path, 0) }

// openRegularAs is openRegular with further flags.
func openRegularAs(path string, flags int) (*os.File, fs.FileInfo, error) {
	if fi, err := os.Stat(path); err != nil || !fi.Mode().IsRegular() {
		return nil, fi, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|flags, 0)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return nil, fi, errors.Join(err, f.Close())
	}
	return f, fi, nil
}

// shellWord is text as one word of a shell command.
func shellWord(text string) string {
	if text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// irregular is the message about a path that is no regular file.
func irregular(path string, fi fs.FileInfo) string {
	return fmt.Sprintf("%s is %s", path, kind(fi.Mode()))
}
