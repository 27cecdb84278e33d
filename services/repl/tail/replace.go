package tail

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Replace puts text in the place of all that stands from a place on, which must
// lie in the view. The file keeps its inode; one that is missing is made. With
// ErrChanged the file is as others left it. The view returned is the file's end
// afterwards, from seen.Offset on; others may have appended to it already.
func (d *Dir) Replace(name string, seen View, from int64, text []byte) (View, error) {
	if from < seen.Offset || from > seen.end() {
		return View{}, fmt.Errorf("%s: %d is not between %d and %d", name, from, seen.Offset, seen.end())
	}
	if seen.Missing {
		return d.create(name, text)
	}
	f, err := d.open(name, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrChanged
	}
	if err != nil {
		return View{}, err
	}
	after, err := d.replace(f, name, seen, from, text)
	return after, errors.Join(err, f.Close())
}

// replace compares, writes and looks whether it is there.
func (d *Dir) replace(f *os.File, name string, seen View, from int64, text []byte) (View, error) {
	alone := lease(f)
	now, err := read(f, seen.Offset)
	if err != nil {
		return View{}, err
	}
	if now.Offset != seen.Offset || !bytes.Equal(now.Bytes, seen.Bytes) {
		return View{}, ErrChanged
	}
	d.between()
	e := edit{f: f, at: from, old: seen.Bytes[from-seen.Offset:], text: text, alone: alone}
	if err := e.put(); err != nil {
		return View{}, err
	}
	return d.verify(f, name, seen.Offset, from, text)
}

// verify holds the file against what was written. More behind it is fine.
func (d *Dir) verify(f *os.File, name string, offset, from int64, text []byte) (View, error) {
	after, err := read(f, offset)
	if err != nil {
		return View{}, err
	}
	if after.Offset != offset || !bytes.HasPrefix(after.Bytes[min(from-offset, int64(len(after.Bytes))):], text) {
		return View{}, ErrChanged
	}
	if named, err := d.Stat(name); err != nil || named.dev != after.Stamp.dev || named.ino != after.Stamp.ino {
		return View{}, ErrChanged // another file has the name now
	}
	return after, nil
}

// lease has the kernel hold up everyone who opens the file until it is closed. It
// is given only while nobody else has the file open, which for those who save it is
// a matter of a moment; for those who follow it with tail -f it is not.
func lease(f *os.File) bool {
	for wait := time.Millisecond; ; wait *= 2 {
		_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
		if err == nil || !errors.Is(err, unix.EAGAIN) || wait > leaseWait {
			return err == nil
		}
		time.Sleep(wait)
	}
}

// leaseWait is the longest of the pauses between two tries to get a lease.
const leaseWait = 2 * time.Millisecond

// create makes a file that was not there.
func (d *Dir) create(name string, text []byte) (View, error) {
	f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		err = ErrChanged
	}
	if err != nil {
		return View{}, err
	}
	if _, err := f.Write(text); err != nil {
		return View{}, errors.Join(err, f.Close())
	}
	after, err := d.verify(f, name, 0, 0, text)
	return after, errors.Join(err, f.Close())
}
