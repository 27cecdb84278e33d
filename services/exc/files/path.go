package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"zino/pkg/realpath"
)

// target is a file to change. Its directory, or the nearest one above it that
// exists, is open, so that nothing else can be put in its place.
type target struct {
	path    string // absolute, without symbolic links
	dir     *os.File
	missing []string    // directories to make below dir, upper ones first
	info    fs.FileInfo // nil: the file does not exist
	lock    *os.File    // locked against other changes; nil: it cannot be locked
	sandbox bool        // in a user namespace, see imitate
}

// resolve finds the file that path leads to.
func resolve(path string) (t *target, err error) {
	real, missing, err := realpath.Follow(path)
	if err != nil {
		return nil, err
	}
	if real == "/" {
		return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
	}
	t = &target{path: real}
	dir := filepath.Dir(real)
	for ; missing > 1; missing-- {
		t.missing = append([]string{filepath.Base(dir)}, t.missing...)
		dir = filepath.Dir(dir)
	}
	if t.dir, err = os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); err != nil {
		return nil, realpath.DirError{Err: err}
	}
	if opened, err := os.Readlink(throughFD(t.dir)); err != nil || opened != dir { // moved, or exchanged for a link
		t.close()
		return nil, errors.Join(errReplaced, err)
	}
	if len(t.missing) > 0 {
		return t, nil
	}
	t.info, err = os.Lstat(t.at())
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		t.close()
		return nil, err
	}
	if t.info.Mode()&fs.ModeSymlink != 0 {
		t.close()
		return nil, errReplaced
	}
	return t, nil
}

// at is a path to the target by way of its open directory.
func (t *target) at() string {
	return filepath.Join(throughFD(t.dir), strings.Join(t.missing, "/"), filepath.Base(t.path))
}

// mkdirs makes the missing directories, and has their names on disk.
func (t *target) mkdirs() error {
	for len(t.missing) > 0 {
		name := t.missing[0]
		path := filepath.Join(throughFD(t.dir), name)
		if err := os.Mkdir(path, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		next, err := os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		err = syncDir(throughFD(t.dir))
		_ = t.dir.Close()
		if t.dir, t.missing = next, t.missing[1:]; err != nil {
			return err
		}
	}
	return nil
}

// close releases the target's directory and lock.
func (t *target) close() {
	_ = t.dir.Close() // nothing was written to them
	if t.lock != nil {
		_ = t.lock.Close()
	}
}

// throughFD is a path to an open file, even if it was moved.
func throughFD(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

// openRegular opens a regular file for reading. Nothing else is even opened: that
// could block, or have an effect. f is nil if info is that of something else.
func openRegular(path string, flags int) (f *os.File, info fs.FileInfo, err error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, info, err
	}
	f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|flags, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err = f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, info, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// irregular is the message about a path that is not a regular file.
func irregular(path string, info fs.FileInfo) string {
	kind := "not a regular file"
	switch mode := info.Mode(); {
	case mode.IsDir():
		kind = "a directory"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	}
	return fmt.Sprintf("%s is %s", path, kind)
}

// shellWord quotes text as one word of a shell command.
func shellWord(text string) string {
	if text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
