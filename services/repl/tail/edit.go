package tail

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// edit is a change of a file's end: the bytes old, which begin at a place, are to
// become text.
type edit struct {
	f     *os.File
	at    int64
	old   []byte
	text  []byte
	alone bool // nobody else can open the file
}

// put carries the edit out. What is appended by others meanwhile is kept.
func (e *edit) put() error {
	same := common(e.old, e.text)
	e.at, e.old, e.text = e.at+int64(same), e.old[same:], e.text[same:]
	if len(e.text) < len(e.old) {
		return e.shorten()
	}
	if err := e.lengthen(); err != nil {
		return err
	}
	return e.write(e.text[:len(e.old)])
}

// common is the length of what two texts begin with.
func common(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

func (e *edit) write(text []byte) error {
	_, err := e.f.WriteAt(text, e.at)
	return err
}

// lengthen appends what the new text has more than the old: if it lands where it
// belongs, nobody has appended anything since the comparison, and who does so
// from now on does it behind our text. So does a disk that is full show before
// anything is overwritten.
func (e *edit) lengthen() error {
	more := e.text[len(e.old):]
	if len(more) == 0 {
		return nil
	}
	n, err := e.append(more)
	if err != nil {
		return e.takeBack(n, err)
	}
	size, err := e.size()
	if err != nil {
		return err
	}
	if size != e.at+int64(len(e.text)) && !e.lies(more) {
		return e.takeBack(len(more), ErrChanged)
	}
	return nil
}

// lies reports whether the appended text lies where it belongs. Then a file of
// another length only means that somebody appended to it after us.
func (e *edit) lies(more []byte) bool {
	got := make([]byte, len(more))
	_, err := e.f.ReadAt(got, e.at+int64(len(e.old)))
	return err == nil && bytes.Equal(got, more)
}

// takeBack removes n bytes that were appended in the wrong place: they end where
// the file's offset is. Where others may write at the same time they only become
// blank lines.
func (e *edit) takeBack(n int, cause error) error {
	end, err := e.f.Seek(0, io.SeekCurrent)
	if err != nil || n == 0 {
		return errors.Join(err, cause)
	}
	if _, err := e.f.WriteAt(blank(n), end-int64(n)); err != nil {
		return err
	}
	if err := e.cut(end, end-int64(n)); err != nil {
		return err
	}
	return cause
}

// append writes at the end, wherever that is by now.
func (e *edit) append(text []byte) (int, error) {
	flags, err := unix.FcntlInt(e.f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return 0, os.NewSyscallError("fcntl", err)
	}
	if _, err := unix.FcntlInt(e.f.Fd(), unix.F_SETFL, flags|unix.O_APPEND); err != nil {
		return 0, os.NewSyscallError("fcntl", err)
	}
	n, err := e.f.Write(text)
	if _, back := unix.FcntlInt(e.f.Fd(), unix.F_SETFL, flags); err == nil && back != nil {
		err = os.NewSyscallError("fcntl", back)
	}
	return n, err
}

// shorten writes a text that is shorter. Blank lines fill the place of what goes
// until the end is cut off.
func (e *edit) shorten() error {
	if err := e.write(slices.Concat(e.text, blank(len(e.old)-len(e.text)))); err != nil {
		return err
	}
	return e.cut(e.at+int64(len(e.old)), e.at+int64(len(e.text)))
}

func blank(n int) []byte { return bytes.Repeat([]byte("\n"), n) }

// cut makes the file end at a place, if it still ends where it did and nobody can
// append to it in between. Else the blank lines from there on stay.
func (e *edit) cut(from, to int64) error {
	if !e.alone && !lease(e.f) {
		return nil
	}
	size, err := e.size()
	if err != nil || size != from {
		return err
	}
	return e.f.Truncate(to)
}

func (e *edit) size() (int64, error) {
	info, err := e.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
