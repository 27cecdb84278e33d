package command

import (
	"bufio"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile atomically replaces the content of the file at path by the output of
// write. A new file has the permissions mode, less the umask; an existing one keeps
// its own. Symbolic links are followed. Other files, such as a FIFO, are written to in
// place.
func WriteFile(path string, mode fs.FileMode, write func(io.Writer) error) (err error) {
	given := path
	defer func() { err = rename(err, given) }()
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	fill := func(f *os.File) error {
		w := bufio.NewWriter(f)
		if err := write(w); err != nil {
			return err
		}
		return w.Flush()
	}
	old, err := os.OpenFile(path, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return replace(path, mode, nil, fill, os.Rename)
	}
	if err != nil {
		return err
	}
	info, err := old.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return errors.Join(fill(old), old.Close())
	}
	if err := errors.Join(err, old.Close()); err != nil {
		return err
	}
	return replace(path, mode, info, fill, os.Rename)
}

// NewFile atomically creates a file with mode 0600. The error is fs.ErrExist if the
// file exists.
func NewFile(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	link := func(temp, path string) error { // unlike a rename, it fails if path exists
		return errors.Join(os.Link(temp, path), os.Remove(temp))
	}
	err := replace(path, 0o600, nil, func(f *os.File) error {
		_, err := f.WriteString(content)
		return err
	}, link)
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	return rename(err, path)
}

// replace writes a temporary file beside path and moves it to path. old is the file
// that exists there, if any.
func replace(path string, mode fs.FileMode, old fs.FileInfo, fill func(*os.File) error, move func(temp, path string) error) error {
	temp := filepath.Join(filepath.Dir(path), ".zino-"+rand.Text()[:12])
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil && old != nil {
		err = f.Chmod(old.Mode().Perm())
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = move(temp, path)
	}
	if err == nil {
		return nil
	}
	if removeErr := os.Remove(temp); !errors.Is(removeErr, fs.ErrNotExist) {
		err = errors.Join(err, removeErr)
	}
	return err
}

// rename replaces the name of the temporary file in an error by path.
func rename(err error, path string) error {
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return &fs.PathError{Op: link.Op, Path: path, Err: link.Err}
	}
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: file.Op, Path: path, Err: file.Err}
	}
	return err
}
