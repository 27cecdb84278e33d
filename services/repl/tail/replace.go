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
// afterwards, from seen.Offset on; others may have appended to it already. Blank lines
// that the view hides are removed with the edit.
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
		after, err := d.verify(f, name, seen, 0, text, 0)
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
	alone := lease(f, leaseWait)
	now, err := read(f, seen.Offset)
	if err != nil {
		return View{}, err
	}
	old := seen.whole()
	if now.Offset != seen.Offset || !bytes.Equal(now.Bytes, old) {
		return View{}, ErrChanged
	}
	if b := seen.hidden; b != nil && from > b.at { // what follows the blank lines moves up
		text = slices.Concat(seen.Bytes[b.at-seen.Offset:from-seen.Offset], text)
		from = b.at
	}
	d.between()
	e := edit{f: f, at: from, old: old[from-seen.Offset:], text: text, alone: alone}
	left, err := e.apply()
	if err != nil {
		return View{}, err
	}
	d.written()
	return d.verify(f, name, seen, from, text, left)
}

// verify compares the file with what was written. More text behind it is allowed. The
// blank lines left below the text are hidden from now on.
func (d *Dir) verify(f *os.File, name string, seen View, from int64, text []byte, left int) (View, error) {
	after, err := read(f, seen.Offset)
	if err != nil {
		return View{}, err
	}
	if after.end() < from+int64(len(text)) {
		return View{}, ErrSaved // truncated, and about to be written
	}
	i := from - seen.Offset
	if after.Offset != seen.Offset || !bytes.HasPrefix(after.Bytes[min(i, int64(len(after.Bytes))):], text) {
		return View{}, d.changed(name, text)
	}
	if named, err := d.Stat(name); err != nil || named.dev != after.Stamp.dev || named.ino != after.Stamp.ino {
		return View{}, d.changed(name, text) // another file has the name now
	}
	d.mu.Lock()
	if seen.hidden != nil {
		delete(d.left, name)
	}
	if i += int64(len(text)); left > 0 {
		d.left[name] = blanks{at: seen.Offset + i, n: left, before: bytes.Clone(after.Bytes[max(0, i-beforeMax):i])}
	}
	d.mu.Unlock()
	d.hide(name, &after)
	return after, nil
}

// changed returns ErrSaved if the file contains the text at any place, else
// ErrChanged.
func (d *Dir) changed(name string, text []byte) error {
	now, err := d.Read(name, 0)
	if err == nil && bytes.Contains(now.Bytes, text) {
		return ErrSaved
	}
	return ErrChanged // the next attempt reports an error of reading
}

// lease makes the kernel delay every program that opens the file until it is closed.
// It is granted only while no other program has the file open. Those that save it
// have it open for a moment, so lease waits a little; tail -f keeps it open.
func lease(f *os.File, longest time.Duration) bool {
	for wait := time.Millisecond; ; wait *= 2 {
		_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
		if err == nil || !errors.Is(err, unix.EAGAIN) || wait > longest {
			return err == nil
		}
		time.Sleep(wait)
	}
}

// The longest pause between two attempts to get a lease, for an edit and to take back
// what was appended in the wrong place.
const (
	leaseWait    = 2 * time.Millisecond
	takeBackWait = 64 * time.Millisecond
)

// edit replaces the bytes old at a position by text.
type edit struct {
	f     *os.File
	at    int64
	old   []byte
	text  []byte
	alone bool // the lease was granted
}

// apply writes the edit. What others append meanwhile is kept. It returns how many
// blank lines it left below the text.
func (e *edit) apply() (left int, err error) {
	same, n := 0, min(len(e.old), len(e.text))
	for same < n && e.old[same] == e.text[same] {
		same++
	}
	e.at, e.old, e.text = e.at+int64(same), e.old[same:], e.text[same:]
	if n := len(e.old) - len(e.text); n > 0 {
		// Blank lines fill the place of what goes until the end is cut off.
		if _, err := e.f.WriteAt(slices.Concat(e.text, blank(n)), e.at); err != nil {
			return 0, err
		}
		cut, err := e.cut(e.at+int64(len(e.old)), n)
		if cut {
			n = 0
		}
		return n, err
	}
	if err := e.lengthen(); err != nil {
		return 0, err
	}
	_, err = e.f.WriteAt(e.text[:len(e.old)], e.at)
	return 0, err
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

// takeBack removes what was appended in the wrong place: it ends at the offset of f.
// Where others may write at the same time it only becomes blank lines. An editor that
// saves the whole file may have written over it; then what is left of it goes if the
// file ends with it.
func (e *edit) takeBack(appended []byte, cause error) error {
	end, err := e.f.Seek(0, io.SeekCurrent)
	if err != nil || len(appended) == 0 {
		return errors.Join(err, cause)
	}
	e.alone = e.alone || lease(e.f, takeBackWait)
	n := len(appended)
	there := make([]byte, n)
	if _, err := e.f.ReadAt(there, end-int64(n)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	info, err := e.f.Stat()
	if err != nil {
		return err
	}
	if n = sameSuffix(there, appended); n < len(appended) && info.Size() != end {
		return cause
	}
	if _, err := e.f.WriteAt(blank(n), end-int64(n)); err != nil {
		return err
	}
	if _, err := e.cut(end, n); err != nil {
		return err
	}
	return cause
}

// sameSuffix returns the length of the common suffix of two texts of one length.
func sameSuffix(a, b []byte) int {
	n := 0
	for n < len(a) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

func blank(n int) []byte { return bytes.Repeat([]byte("\n"), n) }

// cut removes the last n bytes of the file, if it still ends at end and no other
// program can append in between. Otherwise the blank lines stay.
func (e *edit) cut(end int64, n int) (done bool, err error) {
	if !e.alone && !lease(e.f, leaseWait) {
		return false, nil
	}
	info, err := e.f.Stat()
	if err != nil || info.Size() != end {
		return false, err
	}
	return true, e.f.Truncate(end - int64(n))
}
