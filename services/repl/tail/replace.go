package tail

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Replace replaces everything from a position on, which must lie in the view, by
// text. The file keeps its inode; one that is missing is created. With ErrChanged
// the file is as other programs left it. The view returned is the end of the file
// afterwards, from seen.Offset on; others may have appended to it already.
func (d *Dir) Replace(name string, seen View, from int64, text []byte) (View, error) {
	if from < seen.Offset || from > seen.end() {
		return View{}, fmt.Errorf("%s: %d is not between %d and %d", name, from, seen.Offset, seen.end())
	}
	if seen.Missing {
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
	if err := e.apply(); err != nil {
		return View{}, err
	}
	return d.verify(f, name, seen.Offset, from, text)
}

// verify compares the file with what was written. More text behind it is allowed.
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

// lease makes the kernel delay every program that opens the file until it is closed.
// It is granted only while no other program has the file open. Those that save it
// have it open for a moment, so lease waits a little; tail -f keeps it open.
func lease(f *os.File) bool {
	for wait := time.Millisecond; ; wait *= 2 {
		_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
		if err == nil || !errors.Is(err, unix.EAGAIN) || wait > leaseWait {
			return err == nil
		}
		time.Sleep(wait)
	}
}

// leaseWait is the longest pause between two attempts to get a lease.
const leaseWait = 2 * time.Millisecond

// edit replaces the bytes old at a position by text.
type edit struct {
	f     *os.File
	at    int64
	old   []byte
	text  []byte
	alone bool // the lease was granted
}

// apply writes the edit. What others append meanwhile is kept.
func (e *edit) apply() error {
	same, n := 0, min(len(e.old), len(e.text))
	for same < n && e.old[same] == e.text[same] {
		same++
	}
	e.at, e.old, e.text = e.at+int64(same), e.old[same:], e.text[same:]
	if len(e.text) < len(e.old) {
		// Blank lines fill the place of what goes until the end is cut off.
		if _, err := e.f.WriteAt(slices.Concat(e.text, blank(len(e.old)-len(e.text))), e.at); err != nil {
			return err
		}
		return e.cut(e.at+int64(len(e.old)), e.at+int64(len(e.text)))
	}
	if err := e.lengthen(); err != nil {
		return err
	}
	_, err := e.f.WriteAt(e.text[:len(e.old)], e.at)
	return err
}

// lengthen appends what the new text has more than the old. If it lands where it
// belongs, no other program has appended since the comparison, and what is appended
// from now on stands behind it. A full disk also shows before anything is
// overwritten.
func (e *edit) lengthen() error {
	more := e.text[len(e.old):]
	if len(more) == 0 {
		return nil
	}
	flags, err := unix.FcntlInt(e.f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	if _, err := unix.FcntlInt(e.f.Fd(), unix.F_SETFL, flags|unix.O_APPEND); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	n, err := e.f.Write(more)
	if _, back := unix.FcntlInt(e.f.Fd(), unix.F_SETFL, flags); err == nil && back != nil {
		err = os.NewSyscallError("fcntl", back)
	}
	if err != nil {
		return e.takeBack(more[:n], err)
	}
	info, err := e.f.Stat()
	if err != nil || info.Size() == e.at+int64(len(e.text)) {
		return err
	}
	// Either another program has appended behind us, or before us.
	got := make([]byte, len(more))
	if _, err := e.f.ReadAt(got, e.at+int64(len(e.old))); err == nil && bytes.Equal(got, more) {
		return nil
	}
	return e.takeBack(more, ErrChanged)
}

// takeBack removes bytes that were appended in the wrong place: they end at the
// offset of the file. Where others may write at the same time they only become blank
// lines, and nothing is written where another program has overwritten them.
func (e *edit) takeBack(appended []byte, cause error) error {
	end, err := e.f.Seek(0, io.SeekCurrent)
	if err != nil || len(appended) == 0 {
		return errors.Join(err, cause)
	}
	e.alone = e.alone || lease(e.f)
	start, got := end-int64(len(appended)), make([]byte, len(appended))
	if _, err := e.f.ReadAt(got, start); err != nil && !errors.Is(err, io.EOF) {
		return errors.Join(err, cause)
	}
	if !bytes.Equal(got, appended) {
		return cause
	}
	if _, err := e.f.WriteAt(blank(len(appended)), start); err != nil {
		return err
	}
	if err := e.cut(end, start); err != nil {
		return err
	}
	return cause
}

func blank(n int) []byte { return bytes.Repeat([]byte("\n"), n) }

// cut truncates the file from its end at from to to, if it still ends there and no
// other program can append in between. Otherwise the blank lines stay.
func (e *edit) cut(from, to int64) error {
	if !e.alone && !lease(e.f) {
		return nil
	}
	info, err := e.f.Stat()
	if err != nil || info.Size() != from {
		return err
	}
	return e.f.Truncate(to)
}
