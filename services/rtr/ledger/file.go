package ledger

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"zino/pkg/durable"
)

// fileName is the file's name in its directory.
const fileName = "usage.jsonl"

// file is where the books lie. It is opened for every use: whatever happened to
// the file in the meantime, the one that bears the name is used.
type file struct{ dir string }

func (f file) path() string { return filepath.Join(f.dir, fileName) }

// open opens the file. To write (os.O_WRONLY or os.O_RDWR) means at its end;
// directory and file are then made if need be, for the user alone.
func (f file) open(flags int) (*os.File, error) {
	if flags != os.O_RDONLY {
		flags |= os.O_CREATE | os.O_APPEND
		if err := os.MkdirAll(f.dir, durable.DirMode); err != nil {
			return nil, f.wrong(err)
		}
	}
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, f.wrong(err)
	}
	defer root.Close()
	open, err := root.OpenFile(fileName, flags|syscall.O_NONBLOCK, durable.FileMode) // a pipe must not hold us up
	if err != nil {
		return nil, f.wrong(err)
	}
	if err := private(open); err != nil {
		return nil, f.wrong(errors.Join(err, open.Close()))
	}
	return open, nil
}

// private sees that the file is one, and that others cannot read it.
func private(f *os.File) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return errors.New("it is not a regular file")
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return f.Chmod(durable.FileMode)
	}
	return nil
}

// wrong words an error about the file in one line, with its place.
func (f file) wrong(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("%s: %w", f.path(), err)
}

// Waits between looks at a lock that another process holds.
const (
	firstWait = time.Millisecond
	lastWait  = 16 * time.Millisecond
)

// lock opens the file with the lock on it; closing it ends the lock. It waits
// for others until ctx ends.
func (f file) lock(ctx context.Context) (*os.File, error) {
	for {
		open, err := f.open(os.O_RDWR)
		if err != nil {
			return nil, err
		}
		err = flock(ctx, open)
		current := false
		if err == nil {
			current, err = f.current(open)
		}
		if current {
			return open, nil
		}
		open.Close() // nothing was written
		if err != nil {
			return nil, err
		}
	}
}

func flock(ctx context.Context, f *os.File) error {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if err != syscall.EWOULDBLOCK && err != syscall.EINTR {
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// current reports whether an open file still bears the name: another process
// may have moved it away.
func (f file) current(open *os.File) (bool, error) {
	ours, err := open.Stat()
	if err != nil {
		return false, f.wrong(err)
	}
	named, err := os.Stat(f.path())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, f.wrong(err)
	}
	return os.SameFile(ours, named), nil
}

// onDisk returns when the open file's content and its name are on disk.
func (f file) onDisk(open *os.File) error {
	err := syscall.Fdatasync(int(open.Fd()))
	for err == syscall.EINTR {
		err = syscall.Fdatasync(int(open.Fd()))
	}
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return durable.SyncDir(root)
}

// read calls each for the whole lines of an open file from an offset on, as far
// as they are there now, and returns the offset behind the last of them. A line
// that is too long is given as nil.
func read(ctx context.Context, open *os.File, from int64, each func(line []byte)) (end int64, err error) {
	fi, err := open.Stat()
	if err != nil {
		return from, err
	}
	size := fi.Size() - from
	buffer := bufio.NewReaderSize(io.NewSectionReader(open, from, size), int(min(max(size, 0), longestLine)))
	n, err := lines(buffer, func(line []byte) error {
		each(line)
		return ctx.Err()
	})
	return from + n, err
}

// lines calls each for the lines of r that are not blank, without white space
// around them, until that fails. It returns the length of the lines that each
// was called for; the last one counts only with its end.
func lines(r *bufio.Reader, each func(line []byte) error) (end int64, err error) {
	begun := 0 // bytes of a long line that have gone by
	for {
		part, err := r.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			begun += len(part)
			continue
		}
		if err == io.EOF {
			return end, nil
		}
		if err != nil {
			return end, err
		}
		end += int64(begun + len(part))
		line := bytes.TrimSpace(part)
		if begun > 0 {
			line = nil
		}
		if begun > 0 || len(line) > 0 {
			if err := each(line); err != nil {
				return end, err
			}
		}
		begun = 0
	}
}
