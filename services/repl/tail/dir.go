package tail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Make makes a directory, unless it is there. A link in its place is an error.
func (d *Dir) Make(name string) error {
	if err := d.root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := d.root.Lstat(name)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s: not a directory", name)
	}
	return err
}

// Names are the names in a directory, in no particular order.
func (d *Dir) Names(name string) ([]string, error) {
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}

// Create makes a file that must not be there yet.
func (d *Dir) Create(name string, text []byte) error {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// Lock keeps other processes from taking the same lock. It ends with the process.
type Lock struct{ f *os.File }

// ErrLocked: another process has the lock.
var ErrLocked = errors.New("another process works on it; stop that one first")

// Lock locks a directory, which is made if need be. It leaves no trace in it.
func (d *Dir) Lock(name string) (*Lock, error) {
	if err := d.Make(name); err != nil {
		return nil, err
	}
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Lock{f}, nil
}

// Close gives the lock up.
func (l *Lock) Close() error { return l.f.Close() }
