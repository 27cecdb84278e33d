package cli

import (
	"bufio"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// writeOut has write fill the file at path. It holds what it held before, or
// all of the new text, at every moment. A new file has the permissions mode,
// less those that the umask takes; one that is there keeps its own. What is no
// ordinary file, such as a pipe, is written to.
func writeOut(path string, mode fs.FileMode, write func(io.Writer) error) (err error) {
	given := path
	defer func() { err = about(given, err) }()
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a link goes on leading to its file
	}
	old, err := os.OpenFile(path, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return replaceFile(path, mode, nil, write)
	}
	if err != nil {
		return err
	}
	info, err := old.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return errors.Join(filled(old, write), old.Close())
	}
	if err := errors.Join(err, old.Close()); err != nil {
		return err
	}
	return replaceFile(path, mode, info, write)
}

// about is an error of a temporary file beside path as one of path itself: the
// person knows no other.
func about(path string, err error) error {
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return &fs.PathError{Op: link.Op, Path: path, Err: link.Err}
	}
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: file.Op, Path: path, Err: file.Err}
	}
	return err
}

// replaceFile writes a new file beside path and gives it that name. old is the
// file that is there, if there is one.
func replaceFile(path string, mode fs.FileMode, old fs.FileInfo, write func(io.Writer) error) error {
	temp := filepath.Join(filepath.Dir(path), ".zino-"+rand.Text()[:12])
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	err = filled(f, write)
	if err == nil && old != nil {
		err = f.Chmod(old.Mode().Perm())
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// filled has write write to f, few large pieces instead of many.
func filled(f *os.File, write func(io.Writer) error) error {
	w := bufio.NewWriter(f)
	if err := write(w); err != nil {
		return err
	}
	return w.Flush()
}
