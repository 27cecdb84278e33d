package tail

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// RemoveIf removes a file of this user that matches, if no other program has it open.
// It reports whether it has removed the file.
func (d *Dir) RemoveIf(name string, match func(text []byte, written time.Time) bool) (bool, error) {
	f, err := d.open(name, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotRegular) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	removed, err := d.removeIf(f, name, match)
	return removed, errors.Join(err, f.Close()) // closing ends the lease
}

func (d *Dir) removeIf(f *os.File, name string, match func(text []byte, written time.Time) bool) (bool, error) {
	if !lease(f, leaseWait) {
		return false, nil
	}
	v, err := read(f, 0)
	if err != nil {
		return false, err
	}
	info, err := d.root.Lstat(name)
	if err != nil {
		return false, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if stampOf(info) != v.Stamp || !ok || int(owner.Uid) != os.Geteuid() || owner.Nlink != 1 || !match(v.Bytes, v.ModTime) {
		return false, nil
	}
	d.mu.Lock()
	delete(d.left, name)
	d.mu.Unlock()
	return true, d.root.Remove(name)
}

// Touch sets the modification time of a file to now.
func (d *Dir) Touch(name string, now time.Time) error { return d.root.Chtimes(name, now, now) }
