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

// readSize is the size of a read buffer in bytes.
const readSize = 64 << 10

// Line is one line of a file of Lines.
type Line struct {
	// Text is the line without surrounding white space, valid until the next line
	// is read. It need not be JSON: see IsObject. It is nil if the line is longer
	// than MaxLine.
	Text []byte
	// Start is the offset of the line, Next that of the following one.
	Start, Next int64
}

// IsObject reports whether the line is a JSON object. Its UTF-8 need not be
// valid.
func (l Line) IsObject() bool { return isObject(l.Text) }

func isObject(line []byte) bool {
	return isBraced(line) && (wire.Valid(line) || json.Valid(line))
}

// From iterates over the non-blank lines from an offset to the last complete line
// that the file has when it is opened. Next of a line without a line break counts
// the break that the next append adds. An error ends the iteration:
// fs.ErrNotExist if the file does not exist, ErrPlace if no line begins at the
// offset.
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

// lockedRead limits how long From waits for the lock, because the writer may be a
// stopped process. Without the lock From may return lines of a write that fails
// afterwards.
const lockedRead = 250 * time.Millisecond

// completeEnd returns the end of the last complete line, and the offset at which
// the next one begins. The shared lock excludes a write in progress; it is released
// before the lines are read, because the bytes before the end do not change.
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

// checkPlace checks that a line, or the next appended one, begins at an offset.
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

// ReadLines iterates over the non-blank lines between two offsets.
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

// unmarked returns a line without surrounding white space, and at offset 0 without
// the byte order mark that some programs write.
func unmarked(line []byte, place int64) []byte {
	if place == 0 {
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	return trim(line)
}

// lineReader reads lines of any length.
type lineReader struct {
	br   *bufio.Reader
	next int64  // the offset of the next line
	long []byte // collects a line that is longer than the buffer
}

func newLineReader(r io.ReaderAt, from, to int64, size int) *lineReader {
	size = int(min(int64(size), max(to-from, 16)))
	return &lineReader{br: bufio.NewReaderSize(io.NewSectionReader(r, from, to-from), size), next: from}
}

// read returns the next line with its line break, valid until the next call. It
// returns nil for a line of more than most bytes, which it does not buffer; most is
// 0 for no limit.
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

// Mark is a position in one generation of a file: the bytes before it have been
// read. The zero Mark is the beginning.
type Mark struct {
	gen uint64
	end int64
}

// Span is the part of the file behind a Mark. Bytes before the end of an object do
// not change within a generation, so a span can be read without the lock, by Walk
// or ReadLines, however long that takes.
type Span struct {
	// All is true if the file was replaced or rewritten since the mark: the span is
	// the whole file, and state that was built from earlier spans is invalid.
	All bool
	// From and To are offsets; both are 0 for an empty span.
	From, To int64
	// Next is the mark behind the span.
	Next Mark
	// Salvaged are all elements of a damaged array that cannot be rewritten. If it
	// is set, From and To are 0.
	Salvaged [][]byte
	// Version is the present version of the file.
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

// Open opens the file again, to read spans of it after it is unlocked. The caller
// closes it.
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

// Walk calls fn for every element of a span of an array, with its offset. elem is
// valid until fn returns. Walk returns the first error of fn.
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

// elementIn returns the element of a line, without the comma that must end the
// line if more elements follow.
func elementIn(line []byte, more bool) (elem []byte, ok bool) {
	elem = trim(line)
	if !more {
		return elem, true
	}
	elem, ok = bytes.CutSuffix(elem, []byte(","))
	return trimRight(elem), ok
}

// space is the white space of JSON.
const space = " \t\r\n"

func trim(b []byte) []byte      { return bytes.Trim(b, space) }
func trimRight(b []byte) []byte { return bytes.TrimRight(b, space) }

// Last returns the last n elements of an array, or all if n is 0 or less. With
// limit > 0 it fails with ErrTooLarge if the elements and the commas between them
// have more than limit bytes.
func (f *File) Last(n int, limit int64) (elems [][]byte, err error) {
	err = f.View(func(t *Tx) error {
		elems, err = t.Last(n, limit)
		return err
	})
	return elems, err
}

// Last is File.Last under the lock of t. The caller may keep and change the slices.
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

// Sizes of the window that is read at the end of a file, and its growth factor.
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
	end, window := f.tip.end, max(firstWindow, f.window)
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
			// Rows that the last call returned need no second look.
			fresh, known := len(rows), 0
			if f.valid.gen == f.gen && f.valid.end >= start {
				fresh = min(fresh, bytes.Count(data[f.valid.end-start:], []byte("\n")))
				known = min(f.valid.rows, len(rows)-fresh)
			}
			size := int64(0)
			for i, row := range rows {
				ok = ok && (len(rows)-fresh-known <= i && i < len(rows)-fresh || wire.Valid(row))
				size += int64(len(row) + len(",\n"))
			}
			if f.valid = (valid{f.gen, end, len(rows)}); !ok {
				f.valid = valid{}
			}
			if n > 0 { // the next call probably asks for as many
				f.window = size + size/8
			}
			return rows, ok, nil
		}
		// A line has at most one byte more than its element in a reply, so elements
		// that fill twice the limit cannot fit.
		if limit > 0 && window >= most {
			return nil, false, ErrTooLarge
		}
		// Estimate from the mean length of these lines, plus a quarter.
		wider := float64(window * windowGrow)
		if len(rows) > 0 {
			wider = min(wider, 1.25*float64(window)*float64(n)/float64(len(rows)))
		}
		window = int64(wider)
	}
}

// split returns the elements of the lines in data, the end of the file up to the
// last element. The part before the first line break is an incomplete line or, if
// head, the opening bracket. It reports false if the bracket or a comma is missing.
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

// fit returns the last n elements, or ErrTooLarge if they exceed the limit.
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
