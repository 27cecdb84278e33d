package undo

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/durable"
)

// objects are the images: contents by their SHA-256, in hex.
type objects struct {
	dir     string
	exclude *sync.RWMutex     // locked for writing while images are removed
	added   func(bytes int64) // called for each new image
}

// errChanging is the error of a file that is written while it is read.
var errChanging = errors.New("the file is being changed")

func (o objects) path(sum string) string { return filepath.Join(o.dir, sum[:2], sum) }

// has reports whether there is an image of a content. It renews the image's time, so
// that collect keeps it until a record refers to it.
func (o objects) has(sum string) bool {
	return sum != "" && os.Chtimes(o.path(sum), time.Time{}, time.Now()) == nil
}

// put makes an image of an open regular file, unless there is one, and returns the
// hash. more receives the content as well, if it is not nil; needless then says
// whether no image is needed.
func (o objects) put(f *os.File, more io.Writer, needless func() bool) (sum string, err error) {
	before, err := fstat(f)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	to := io.Writer(hash)
	if more != nil {
		to = io.MultiWriter(hash, more)
	}
	n, err := io.Copy(to, f)
	if err != nil {
		return "", err
	}
	sum = hex.EncodeToString(hash.Sum(nil))
	if after, err := fstat(f); err != nil || n != before.Size || !sameStat(before, after) {
		return "", errors.Join(errChanging, err)
	}
	if needless != nil && needless() || o.has(sum) {
		return sum, nil
	}
	return sum, o.create(f, sum, before)
}

// create makes the image of a file with that hash.
func (o objects) create(f *os.File, sum string, stat unix.Stat_t) error {
	if err := os.Mkdir(filepath.Join(o.dir, sum[:2]), durable.DirMode); err != nil && !os.IsExist(err) {
		return err
	}
	temp, err := os.OpenFile(o.path(sum)+"-"+randomName(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	err = transfer(temp, f)
	if err == nil {
		if now, statErr := fstat(f); statErr != nil || !sameStat(stat, now) {
			err = errors.Join(errChanging, statErr)
		}
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), o.path(sum))
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	o.added(stat.Size)
	return nil
}

// transfer makes the content of to that of from, sharing the blocks if the file
// system can.
func transfer(to, from *os.File) error {
	if unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil {
		return nil
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.Copy(to, from)
	return err
}

// read returns the content of an image of up to limit bytes, or nil.
func (o objects) read(sum string, limit int64) ([]byte, error) {
	f, err := os.Open(o.path(sum))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, err
	}
	return data, nil
}

// restore makes the content of to the image, whose hash it checks.
func (o objects) restore(to *os.File, sum string) error {
	f, err := os.Open(o.path(sum))
	if err != nil {
		return err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != sum {
		return fmt.Errorf("the image %s is damaged: its content has the hash %s", f.Name(), got)
	}
	return transfer(to, f)
}

// syncAll is how many images are synced one by one; of more the whole file system
// is.
const syncAll = 32

// sync makes images durable.
func (o objects) sync(sums map[string]bool) error {
	if len(sums) > syncAll {
		dir, err := os.Open(o.dir)
		if err != nil {
			return err
		}
		return errors.Join(os.NewSyscallError("syncfs", unix.Syncfs(int(dir.Fd()))), dir.Close())
	}
	for sum := range sums {
		for _, path := range []string{o.path(sum), filepath.Dir(o.path(sum)), o.dir} {
			f, err := os.Open(path)
			if os.IsNotExist(err) {
				break // removed: undo refuses with no_image
			}
			if err != nil {
				return err
			}
			if err := errors.Join(f.Sync(), f.Close()); err != nil {
				return err
			}
		}
	}
	return nil
}

// sum returns the hash of a file's content.
func sumOf(f *os.File) (string, error) {
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
