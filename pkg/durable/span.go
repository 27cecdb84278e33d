package durable

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"zino/pkg/wire"
)

// ErrLayout is returned by Walk for a line that is no element: the file then
// needs Tx.Recover.
var ErrLayout = errors.New("a line of the file is no element of its array")

// Span is the part of an array's file behind a mark. What stands before an
// element's end never changes as long as the file is not another one, so a
// span is read by Walk without the lock, for as long as that takes.
type Span struct {
	// All says that the span is the whole array, because the file is not the one
	// that was marked, grown: see Tx.Since.
	All bool
	// From and To are offsets in bytes. Both are 0 if there are no elements.
	From, To int64
	// Next is the mark behind the span.
	Next Mark
	// Salvaged are all the elements of a damaged file that cannot be put right;
	// the span is empty then.
	Salvaged [][]byte
	// Seen is how the file looks now.
	Seen Look
}

// Look is how a file looked: which one it was, its size and when it was last
// written to. The zero Look is like no file.
type Look struct {
	known bool
	fi    fs.FileInfo // nil: there was none
}

// Span is the part of the file behind a mark.
func (t *Tx) Span(m Mark) (Span, error) {
	a := t.a
	s := Span{All: m.gen != a.gen, From: m.end}
	if t.absent {
		s.From, s.Next, s.Seen.known = 0, Mark{gen: a.gen}, true
		return s, nil
	}
	if a.broken != nil {
		return Span{All: true, Salvaged: a.salvaged}, nil
	}
	fi, err := a.f.Stat()
	if err != nil {
		return s, err
	}
	if s.All {
		s.From = 0
	}
	s.To, s.Next, s.Seen = a.tip.end, a.mark(), Look{true, fi}
	if a.tip.bare {
		s.From, s.To = 0, 0
	}
	return s, nil
}

// Looks reports whether the file looks as it did. It waits for no lock: an
// append that is under way may be seen, or not.
func (a *Array) Looks(then Look) bool {
	if !then.known {
		return false
	}
	now, err := a.root.Stat(a.name)
	if err != nil || then.fi == nil {
		return then.fi == nil && errors.Is(err, fs.ErrNotExist)
	}
	return os.SameFile(now, then.fi) && now.Size() == then.fi.Size() && now.ModTime().Equal(then.fi.ModTime())
}

// Recover puts a file right whose lines are not what they should be: see
// ErrLayout. Marks from before are marks of another file.
func (t *Tx) Recover() error {
	if t.absent || t.a.broken != nil {
		return nil
	}
	return t.a.recover()
}

// Open opens the file once more, to read spans of it. The caller closes it.
func (t *Tx) Open() (*os.File, error) {
	if t.absent {
		return nil, fs.ErrNotExist
	}
	f, err := t.a.root.OpenFile(t.a.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !os.SameFile(fi, t.a.now) {
		err = fmt.Errorf("%s was replaced while it was locked", t.a.name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Walk calls fn for every element of a span with the place at which it begins.
// An element is valid until fn returns; an error of fn ends the walk.
func Walk(r io.ReaderAt, s Span, fn func(elem []byte, at int64) error) error {
	lines := bufio.NewReaderSize(io.NewSectionReader(r, s.From, s.To-s.From), walkSize)
	var long []byte
	for at := s.From; at < s.To; {
		line, err := wholeLine(lines, &long)
		if err != nil {
			return err
		}
		start := at
		at += int64(len(line))
		if start == s.From {
			if !leads(line, start == 0) || at == s.To {
				return ErrLayout
			}
			continue
		}
		elem, err := elementIn(line, at < s.To)
		if err != nil {
			return err
		}
		skipped := len(line) - len(bytes.TrimLeft(line, " \t\r\n"))
		if err := fn(elem, start+int64(skipped)); err != nil {
			return err
		}
	}
	return nil
}

// walkSize is how much of a file is read at a time, in bytes.
const walkSize = 256 << 10

// leads reports whether a line is what a span begins with: the opening bracket
// at the head of a file, elsewhere the comma behind the element before.
func leads(line []byte, head bool) bool {
	if head {
		return string(trim(line)) == "["
	}
	return string(line) == ",\n"
}

// elementIn is the element of a line, which ends with a comma if others follow.
func elementIn(line []byte, more bool) ([]byte, error) {
	elem := trim(line)
	if more {
		bare, comma := bytes.CutSuffix(elem, []byte(","))
		if !comma {
			return nil, ErrLayout
		}
		elem = trimRight(bare)
	}
	if !wire.Valid(elem) {
		return nil, ErrLayout
	}
	return elem, nil
}

// wholeLine reads a line of any length, with its line break if it has one. It
// is valid until the next one is read.
func wholeLine(r *bufio.Reader, long *[]byte) ([]byte, error) {
	*long = (*long)[:0]
	for {
		part, err := r.ReadSlice('\n')
		if err == nil && len(*long) == 0 {
			return part, nil
		}
		*long = append(*long, part...)
		switch {
		case err == nil, err == io.EOF && len(*long) > 0:
			return *long, nil
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}
