package durable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"zino/pkg/wire"
)

// MaxLine is the most bytes that a line may have: one that fits into a packet,
// with room for what is around it.
const MaxLine = wire.MaxPayload - 1024

// ErrPlace is returned for a place at which no line begins.
var ErrPlace = errors.New("no line begins at this place")

// Lines is a file of JSON objects, one a line, that only grows at its end:
//
//	{"type":"meta","schema_version":1}
//	{"type":"message","role":"user","text":"hello"}
//
// A place in it is an offset in bytes at which a line begins or the file ends;
// it stays valid as the file grows. Nothing is kept open or in memory between
// two calls, so that the file which bears the name is the one that is used.
// Several processes may append: each does it under a lock on the file, and
// readers see whole lines only. What a crash leaves of a line is taken off when
// something is next appended. Lines is safe for concurrent use.
type Lines struct {
	root *os.Root
	name string
	opt  Options
}

// NewLines returns the lines in the named file of root. The name has no
// directory part. Of the options IsElement has no meaning here.
func NewLines(root *os.Root, name string, opt Options) *Lines {
	return &Lines{root: root, name: name, opt: opt}
}

// Update calls fn with the file locked against other writers and its end put
// right. If there is no file, create has one made, which goes away again if
// nothing is appended; without create that is an error fs.ErrNotExist.
func (l *Lines) Update(create bool, fn func(*Pen) error) error {
	p, err := l.lock(create)
	if err == nil {
		err = p.mend()
	}
	if err == nil {
		err = fn(p)
	}
	return either(err, p.close(create))
}

// Remove deletes the file, and the pieces of it that were kept aside. A file
// that is not there is an error fs.ErrNotExist.
func (l *Lines) Remove() error {
	p, err := l.lock(false)
	if err == nil {
		err = l.root.Remove(l.name)
	}
	if err == nil {
		err = l.removeKept()
	}
	if err == nil && !l.opt.NoSync {
		err = SyncDir(l.root)
	}
	return either(err, p.close(false))
}

func (l *Lines) removeKept() error {
	dir, err := l.root.Open(".")
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		if err == nil && strings.HasPrefix(name, l.name+damaged) {
			err = l.root.Remove(name)
		}
	}
	return either(err, dir.Close())
}

// lock opens and locks the file that bears the name: between opening and
// locking another process may have removed it. The pen is nil after an error.
func (l *Lines) lock(create bool) (*Pen, error) {
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE
	}
	for {
		f, err := openPrivate(l.root, l.name, flags)
		if err != nil {
			return nil, err
		}
		fi, err := lockNamed(f, l.root, l.name, syscall.LOCK_EX)
		if fi != nil {
			return &Pen{l: l, f: f, size: fi.Size()}, nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
}

// lockNamed locks an open file and returns what it is; nil if it has lost its
// name meanwhile.
func lockNamed(f *os.File, root *os.Root, name string, how int) (fs.FileInfo, error) {
	if err := flock(f, how); err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	named, err := root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ours, err := f.Stat()
	if err != nil || !os.SameFile(named, ours) {
		return nil, err
	}
	return ours, nil
}

// isObject reports whether a line holds a JSON object, in whatever UTF-8.
func isObject(line []byte) bool {
	return len(line) > 1 && line[0] == '{' && line[len(line)-1] == '}' && (wire.Valid(line) || json.Valid(line))
}

// lastLine looks for the place behind the last line of a file of that size. What
// stands behind it is the rest of a line whose writing was cut off. whole says
// that the last line has its line break.
func lastLine(f *os.File, size int64) (end int64, whole bool, err error) {
	end, err = lastBreak(f, size)
	if err != nil || end == size {
		return end, true, err
	}
	if size-end > MaxLine {
		return end, true, nil
	}
	tail := make([]byte, size-end)
	if n, err := f.ReadAt(tail, end); n < len(tail) {
		return end, true, err
	}
	// A file system may have set aside room that was never written.
	body := bytes.TrimRight(tail, " \t\r\x00")
	if isObject(unmarked(body, end)) {
		return end + int64(len(body)), false, nil
	}
	return end, true, nil
}

// lastBreak is the offset behind the last line break before size, or 0.
func lastBreak(f *os.File, size int64) (int64, error) {
	window := make([]byte, 512)
	for end := size; end > 0; {
		if end < size {
			window = make([]byte, 64<<10)
		}
		start := max(0, end-int64(len(window)))
		data := window[:end-start]
		if n, err := f.ReadAt(data, start); n < len(data) {
			return 0, err
		}
		if i := bytes.LastIndexByte(data, '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}

// unmarked is a line that begins at a place, without white space around it, and
// without the byte order mark that foreign programs put at the head of a file.
func unmarked(line []byte, place int64) []byte {
	if place == 0 {
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	return trim(line)
}
