package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// errReplaced says that somebody else has put another file in a file's place.
var errReplaced = errors.New("the file was replaced meanwhile: try again")

// overwrite writes data into the file itself. What the file held is kept beside
// it meanwhile and put back should that fail.
func (t target) overwrite(data []byte) error {
	f, err := os.OpenFile(t.at, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	fi, err := f.Stat()
	switch {
	case err != nil:
	case identityOf(fi) != t.id:
		err = errReplaced
	default:
		if err = t.disturbed(); err == nil {
			err = overwrite(f, fi.Size(), data)
		}
	}
	return errors.Join(err, f.Close())
}

func overwrite(f *os.File, size int64, data []byte) error {
	if err := reserve(f, size, int64(len(data))); err != nil {
		return err
	}
	kept, err := keep(f)
	if err != nil {
		return fmt.Errorf("its former content cannot be kept while it is overwritten: %w", errors.Join(err, f.Truncate(size)))
	}
	if err = rewrite(f, data); err != nil {
		if lost := putBack(f, kept); lost != nil {
			return fmt.Errorf("%w; its former content is in %s: %w", err, kept, lost)
		}
	}
	return errors.Join(err, os.Remove(kept))
}

// reserve has the disk keep room for what is longer than before, so that a full
// one is noticed while the file is as it was.
func reserve(f *os.File, size, length int64) error {
	const keepSize = 1
	if length <= size {
		return nil
	}
	err := syscall.Fallocate(int(f.Fd()), keepSize, 0, length)
	if isAny(err, syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG) {
		return errors.Join(err, f.Truncate(size))
	}
	return nil // others say that it cannot be done here
}

func rewrite(f *os.File, data []byte) error {
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(data))); err != nil {
		return err
	}
	return f.Sync()
}

// keep copies what f holds to a file beside it, or in the directory for
// temporary files where that is impossible, and returns its path.
func keep(f *os.File) (string, error) {
	kept, err := copyTo(filepath.Dir(f.Name()), f)
	if err != nil {
		kept, err = copyTo(os.TempDir(), f)
	}
	return kept, err
}

// copyTo copies what f holds to a new file in dir.
func copyTo(dir string, f *os.File) (string, error) {
	kept, err := temporary(dir, 0o600)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(kept, io.NewSectionReader(f, 0, 1<<62))
	if err == nil {
		err = kept.Sync()
	}
	if err = errors.Join(err, kept.Close()); err != nil {
		return "", errors.Join(err, os.Remove(kept.Name()))
	}
	return kept.Name(), nil
}

// putBack makes f what it was.
func putBack(f *os.File, kept string) error {
	k, err := os.Open(kept)
	if err != nil {
		return err
	}
	defer k.Close()
	n, err := io.Copy(io.NewOffsetWriter(f, 0), k)
	if err != nil {
		return err
	}
	if err := f.Truncate(n); err != nil {
		return err
	}
	return f.Sync()
}
