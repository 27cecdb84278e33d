package durable

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"syscall"
	"time"

	"zino/pkg/wire"
)

// readSize is how much of a file is read at a time, in bytes.
const readSize = 64 << 10

// Line is one line of a file of Lines.
type Line struct {
	// Text is the line without white space around it, valid until the next one
	// is read. It need not be JSON: see IsObject. It is nil if the line is longer
	// than MaxLine.
	Text []byte
	// Start and Next are the places of the line and behind it.
	Start, Next int64
}

// IsObject reports whether the line is a JSON object. Its UTF-8 need not be
// valid.
func (l Line) IsObject() bool { return isObject(l.Text) }

func isObject(line []byte) bool {
	return isBraced(line) && (wire.Valid(line) || json.Valid(line))
}

// From reads the lines from a place on, without blank ones, up to the last
// complete line that the file has when it is opened. The place behind a line
// whose line break is missing counts the break that the next append adds. An
// error is the last pair: fs.ErrNotExist if the file does not exist, ErrPlace if no line
// begins at the place.
func (f *File) From(place int64) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		open, err := openRegular(f.root, f.name, os.O_RDONLY)
		if err != nil {
			yield(Line{}, err)
			return
		}
		defer open.Close()
		end, next, err := completeEnd(open)
		if err == nil {
			err = checkPlace(open, place, end, next)
		}
		if err != nil {
			yield(Line{}, err)
			return
		}
		for line, err := range ReadLines(open, place, end) {
			if line.Next == end {
				line.Next = next
			}
			if !yield(line, err) {
				return
			}
		}
	}
}

// lockedRead is how long From waits for a lock. A reader that is not waited for
// may see lines of a write that fails afterwards; one that waits for a stopped
// process would wait for ever.
const lockedRead = 250 * time.Millisecond

// completeEnd returns the end of the last complete line, and the place at which
// the next one begins. What is before them does not change, so the lock, which
// excludes a write that is under way, is short.
func completeEnd(f *os.File) (end, next int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockedRead)
	defer cancel()
	if err := flock(f, syscall.LOCK_SH|syscall.LOCK_NB); errors.Is(err, ErrLocked) {
		err = await(ctx, f, syscall.LOCK_SH)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return 0, 0, err
		}
	} else if err != nil {
		return 0, 0, err
	}
	fi, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	end, whole, err := lastLine(f, fi.Size())
	if err != nil {
		return 0, 0, err
	}
	if next = end; !whole {
		next++
	}
	return end, next, flock(f, syscall.LOCK_UN)
}

// checkPlace checks that a line begins at a place, or that the next one will.
func checkPlace(f *os.File, place, end, next int64) error {
	if place == 0 || place == next {
		return nil
	}
	if place < 0 || place >= end {
		return ErrPlace
	}
	var before [1]byte
	if _, err := f.ReadAt(before[:], place-1); err != nil {
		return err
	}
	if before[0] != '\n' {
		return ErrPlace
	}
	return nil
}

// ReadLines reads the lines between two places, without blank ones.
func ReadLines(r io.ReaderAt, from, to int64) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		lines := newLineReader(r, from, to, readSize)
		for {
			start := lines.next
			text, err := lines.read(MaxLine + 1)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(Line{}, err)
				return
			}
			if text != nil {
				if text = unmarked(text, start); len(text) == 0 {
					continue
				}
			}
			if !yield(Line{text, start, lines.next}, nil) {
				return
			}
		}
	}
}

// unmarked is a line without white space around it, and without the byte order
// mark that some programs write at the beginning of a file.
func unmarked(line []byte, place int64) []byte {
	if place == 0 {
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	return trim(line)
}

// lineReader reads lines of any length.
type lineReader struct {
	br   *bufio.Reader
	next int64  // the place of the next line
	long []byte // holds a line that the buffer cannot
}

func newLineReader(r io.ReaderAt, from, to int64, size int) *lineReader {
	size = int(min(int64(size), max(to-from, 16)))
	return &lineReader{br: bufio.NewReaderSize(io.NewSectionReader(r, from, to-from), size), next: from}
}

// read returns the next line with its line break, valid until the next call. A
// line of more than most bytes is nil, and read in little memory; 0: any length.
func (r *lineReader) read(most int64) ([]byte, error) {
	r.long = r.long[:0]
	for start := r.next; ; {
		part, err := r.br.ReadSlice('\n')
		r.next += int64(len(part))
		tooLong := most > 0 && r.next-start > most
		if err == bufio.ErrBufferFull {
			if !tooLong {
				r.long = append(r.long, part...)
			}
			continue
		}
		if err != nil && (err != io.EOF || r.next == start) {
			return nil, err
		}
		switch {
		case tooLong:
			return nil, nil
		case len(r.long) == 0:
			return part, nil
		}
		r.long = append(r.long, part...)
		return r.long, nil
	}
}

// Print returns up to 64 bytes that stand before a place, to recognize the file
// later: if they are the same, it is the file that was read, with more at its end.
func (f *File) Print(place int64) ([]byte, error) {
	open, err := openRegular(f.root, f.name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	print := make([]byte, min(place, printSize))
	n, err := open.ReadAt(print, place-int64(len(print)))
	if n == len(print) || err == io.EOF {
		err = nil
	}
	return print[:n], errors.Join(err, open.Close())
}

// Mark is a place in a file: what is before it has been read. The zero Mark is
// the beginning.
type Mark struct {
	gen uint64
	end int64
}

// Span is the part of the file behind a Mark. What is before an object's end
// does not change while the file is the same, so that a span can be read without
// the lock, by Walk or ReadLines, however long that takes.
type Span struct {
	// All says that the span is the whole file, because it is not the one that
	// was marked, with more at its end: what was built from that is void.
	All bool
	// From and To are places; both are 0 for an empty span.
	From, To int64
	// Next is the mark behind the span.
	Next Mark
	// Salvaged are all elements of a damaged array that cannot be rewritten; From
	// and To are 0 then.
	Salvaged [][]byte
	// Version is how the file is now.
	Version Version
}

// Span returns the part of the file behind a mark.
func (t *Tx) Span(m Mark) (Span, error) {
	f := t.f
	s := Span{All: m.gen != f.gen, From: m.end, Next: Mark{gen: f.gen}}
	if s.All {
		s.From = 0
	}
	if t.absent {
		s.From, s.Version.known = 0, true
		return s, nil
	}
	if f.broken != nil {
		return Span{All: true, Salvaged: f.salvaged}, nil
	}
	fi, err := f.f.Stat()
	if err != nil {
		return s, err
	}
	s.Version = Version{true, fi}
	if f.tip.empty { // no comma follows this mark
		s.From = 0
		return s, nil
	}
	s.To, s.Next.end = f.tip.end, f.tip.end
	return s, nil
}

// ReadAt reads from the locked file.
func (t *Tx) ReadAt(b []byte, at int64) (int, error) {
	if t.absent {
		return 0, io.EOF
	}
	return t.f.f.ReadAt(b, at)
}

// Open opens the file once more, to read spans of it after the lock has ended.
// The caller closes it.
func (t *Tx) Open() (*os.File, error) {
	if t.absent {
		return nil, fs.ErrNotExist
	}
	f, err := t.f.root.OpenFile(t.f.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !os.SameFile(fi, t.f.now) {
		err = fmt.Errorf("%s was replaced while it was locked", t.f.name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Walk calls fn for every element of a span of an array, with its place. An
// element is valid until fn returns. An error of fn ends the walk.
func Walk(r io.ReaderAt, s Span, fn func(elem []byte, at int64) error) error {
	lines := newLineReader(r, s.From, s.To, 4*readSize)
	for at := s.From; at < s.To; at = lines.next {
		line, err := lines.read(0)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		if at == s.From { // the opening bracket, or the comma behind the element before
			head := at == 0 && string(trim(line)) == "[" || at > 0 && string(line) == ",\n"
			if !head || lines.next == s.To {
				return ErrLayout
			}
			continue
		}
		elem, ok := elementIn(line, lines.next < s.To)
		if !ok || !wire.Valid(elem) {
			return ErrLayout
		}
		indent := len(line) - len(bytes.TrimLeft(line, space))
		if err := fn(elem, at+int64(indent)); err != nil {
			return err
		}
	}
	return nil
}

// elementIn returns the element of a line. A comma ends the line if more follow.
func elementIn(line []byte, more bool) (elem []byte, ok bool) {
	elem = trim(line)
	if !more {
		return elem, true
	}
	elem, ok = bytes.CutSuffix(elem, []byte(","))
	return trimRight(elem), ok
}

// space is white space as JSON has it.
const space = " \t\r\n"

func trim(b []byte) []byte      { return bytes.Trim(b, space) }
func trimRight(b []byte) []byte { return bytes.TrimRight(b, space) }

// Last returns the last n elements of an array, or all if n is 0 or less. With
// limit > 0 it fails with ErrTooLarge if they and the commas between them take
// more bytes than that.
func (f *File) Last(n int, limit int64) (elems [][]byte, err error) {
	err = f.View(func(t *Tx) error {
		elems, err = t.Last(n, limit)
		return err
	})
	return elems, err
}

// Last is File.Last. The slices are the caller's.
func (t *Tx) Last(n int, limit int64) ([][]byte, error) {
	f := t.f
	for {
		if t.absent || f.salvaged != nil || f.broken != nil {
			return fit(f.salvaged, n, limit)
		}
		elems, ok, err := f.last(n, limit)
		if err != nil {
			return nil, err
		}
		if ok {
			return fit(elems, n, limit)
		}
		if err := f.repairArray(); err != nil {
			return nil, err
		}
	}
}

// Sizes of what is read at the end of a file: first a little, then more.
const (
	firstWindow = 16 << 10
	windowGrow  = 4
)

// last reads backwards from the end, in a window that grows until it contains n
// elements. It reports false if a line is not an element.
func (f *File) last(n int, limit int64) (elems [][]byte, ok bool, err error) {
	if f.tip.empty {
		return nil, true, nil
	}
	end, window := f.tip.end, int64(firstWindow)
	most := 2*limit + firstWindow
	if n <= 0 {
		window = end
	}
	for {
		if limit > 0 {
			window = min(window, most)
		}
		start := max(0, end-window)
		data, err := f.read(start, end)
		if err != nil {
			return nil, false, err
		}
		rows, ok := split(data, start == 0)
		if start == 0 || n > 0 && len(rows) >= n {
			if n > 0 && len(rows) > n {
				rows = rows[len(rows)-n:]
			}
			for _, row := range rows {
				ok = ok && wire.Valid(row)
			}
			return rows, ok, nil
		}
		// A line has at most one byte more than its element in a reply, so
		// twice the limit cannot fit.
		if limit > 0 && window >= most {
			return nil, false, ErrTooLarge
		}
		// A quarter more than n elements take if they are as long as these.
		wider := float64(window * windowGrow)
		if len(rows) > 0 {
			wider = min(wider, 1.25*float64(window)*float64(n)/float64(len(rows)))
		}
		window = int64(wider)
	}
}

// split cuts a piece of the file that ends with the last element into the
// elements of its lines. The part before the first line break is not a whole
// line, or is the opening bracket if the piece is at the file's head. It reports
// false if a line does not end as it should.
func split(data []byte, head bool) ([][]byte, bool) {
	first, rest, found := bytes.Cut(data, []byte("\n"))
	if !found {
		return nil, !head
	}
	ok := !head || string(trim(first)) == "["
	rows := make([][]byte, 0, bytes.Count(rest, []byte("\n"))+1)
	for more := true; more; {
		var row []byte
		row, rest, more = bytes.Cut(rest, []byte("\n"))
		row, good := elementIn(row, more)
		ok = ok && good
		rows = append(rows, row)
	}
	return rows, ok
}

// fit keeps the last n elements and checks them against the limit.
func fit(elems [][]byte, n int, limit int64) ([][]byte, error) {
	if n > 0 && len(elems) > n {
		elems = elems[len(elems)-n:]
	}
	size := int64(0)
	for _, e := range elems {
		size += int64(len(e)) + 1
	}
	if limit > 0 && size > limit+1 {
		return nil, ErrTooLarge
	}
	return elems, nil
}
