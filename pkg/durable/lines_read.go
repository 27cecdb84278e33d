package durable

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"os"
	"syscall"
)

// Line is one line of a file.
type Line struct {
	// Text is the line without white space around it. It is nil if the line is
	// longer than MaxLine, and valid until the next one is read. Nobody has
	// looked whether it is JSON: see IsObject.
	Text []byte
	// Start and Next are the places of the line and behind it.
	Start, Next int64
}

// IsObject reports whether the line holds what a line should: a JSON object. Its
// UTF-8 need not be valid.
func (l Line) IsObject() bool { return isObject(l.Text) }

// From reads the lines from a place on, blank ones left out, as far as the file
// goes when it is opened. An error ends them; one of fs.ErrNotExist says that
// there is no file, ErrPlace that no line begins at the place.
func (l *Lines) From(place int64) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		f, end, err := l.open(place)
		if err != nil {
			yield(Line{}, err)
			return
		}
		defer f.Close()
		section := io.NewSectionReader(f, place, end-place)
		r := lineReader{br: bufio.NewReaderSize(section, int(min(end-place, readSize))), next: place}
		for {
			line, err := r.read()
			if err == io.EOF || !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// readSize is how much of a file is read at a time, in bytes.
const readSize = 64 << 10

// open opens the file to read it from a place on, and tells where its last
// whole line ends.
func (l *Lines) open(place int64) (f *os.File, end int64, err error) {
	if f, err = openRegular(l.root, l.name, os.O_RDONLY); err != nil {
		return nil, 0, err
	}
	if end, err = l.settled(f); err == nil {
		err = checkPlace(f, place, end)
	}
	if err != nil {
		return nil, 0, either(err, f.Close())
	}
	return f, end, nil
}

// settled is the end of the last whole line. What stands before it will not
// change any more, so the lock, which keeps writers away, is short: one of them
// may be in the middle of a line, or about to take one back.
func (l *Lines) settled(f *os.File) (end int64, err error) {
	if err := flock(f, syscall.LOCK_SH); err != nil {
		return 0, fmt.Errorf("lock %s: %w", l.name, err)
	}
	fi, err := f.Stat()
	if err == nil {
		end, _, err = lastLine(f, fi.Size())
	}
	return end, either(err, flock(f, syscall.LOCK_UN))
}

// checkPlace holds that a line begins at a place, or ended there when it still
// had no line break.
func checkPlace(f *os.File, place, end int64) error {
	if place == 0 || place == end {
		return nil
	}
	if place < 0 || place > end {
		return ErrPlace
	}
	var around [2]byte
	if n, err := f.ReadAt(around[:], place-1); n < len(around) {
		return err
	}
	if around[0] != '\n' && around[1] != '\n' {
		return ErrPlace
	}
	return nil
}

// Print returns up to 64 bytes that stand before a place, by which the file is
// known again: if they are the same, it is the one that was read, grown.
func (l *Lines) Print(place int64) ([]byte, error) {
	f, err := openRegular(l.root, l.name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	print := make([]byte, min(place, printSize))
	n, err := f.ReadAt(print, place-int64(len(print)))
	if n == len(print) || err == io.EOF {
		err = nil
	}
	return print[:n], either(err, f.Close())
}

// lineReader reads lines of any length in bounded memory.
type lineReader struct {
	br   *bufio.Reader
	next int64  // the place of the next line
	long []byte // holds a line that the buffer cannot
}

// read returns the next line that is not blank, or io.EOF.
func (r *lineReader) read() (Line, error) {
	for {
		start := r.next
		text, err := r.whole()
		if err != nil {
			return Line{}, err
		}
		if r.next-start > MaxLine+1 {
			return Line{nil, start, r.next}, nil
		}
		if text = unmarked(text, start); len(text) > 0 {
			return Line{text, start, r.next}, nil
		}
	}
}

// whole reads up to the next line break. Of a line that is too long it keeps
// no more than there may be.
func (r *lineReader) whole() ([]byte, error) {
	r.long = r.long[:0]
	for start := r.next; ; {
		part, err := r.br.ReadSlice('\n')
		r.next += int64(len(part))
		switch {
		case err == bufio.ErrBufferFull:
			if len(r.long)+len(part) <= MaxLine+readSize {
				r.long = append(r.long, part...)
			}
			continue
		case err == io.EOF && r.next > start, err == nil:
			if len(r.long) == 0 {
				return part, nil
			}
			r.long = append(r.long, part...)
			return r.long, nil
		}
		return nil, err
	}
}
