package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Pen writes at the end of Lines while the file is locked. It is valid during
// the call of the function that it was given to.
type Pen struct {
	l    *Lines
	f    *os.File
	size int64
	lead bool // the last line still lacks its line break
	lost bool // a write failed and could not be taken back
}

// End is the place behind the last line, 0 if there is none.
func (p *Pen) End() int64 { return p.size }

// Append writes lines, each one a JSON object, behind the last one and returns
// when they are on disk. After an error the file is as it was. Line breaks in
// an object, which can only be white space, are removed.
func (p *Pen) Append(lines [][]byte) error {
	if len(lines) == 0 {
		return nil
	}
	if p.lost {
		return fmt.Errorf("%s: the write before this one failed", p.l.name)
	}
	data, err := p.encode(lines)
	if err != nil {
		return err
	}
	if err := p.write(data); err != nil {
		return p.rollBack(err)
	}
	p.size += int64(len(data))
	p.lead = false
	return nil
}

func (p *Pen) encode(lines [][]byte) ([]byte, error) {
	size := 1
	for _, line := range lines {
		size += len(line) + 1
	}
	buf := bytes.NewBuffer(make([]byte, 0, size))
	if p.lead {
		buf.WriteByte('\n')
	}
	for _, line := range lines {
		start := buf.Len()
		if err := writeLine(buf, line); err != nil {
			return nil, err
		}
		if buf.Len()-start > MaxLine {
			return nil, fmt.Errorf("a line of %d bytes: %w of %d", buf.Len()-start, ErrTooLarge, MaxLine)
		}
		buf.WriteByte('\n')
	}
	return buf.Bytes(), nil
}

// write writes data in one piece and has it on disk.
func (p *Pen) write(data []byte) error {
	if _, err := p.f.WriteAt(data, p.size); err != nil {
		return err
	}
	if p.l.opt.NoSync {
		return nil
	}
	if err := fdatasync(p.f); err != nil {
		return &os.PathError{Op: "fdatasync", Path: p.l.name, Err: err}
	}
	if p.size == 0 {
		return SyncDir(p.l.root)
	}
	return nil
}

// rollBack takes back what is there of a write that failed because of cause.
// Should that fail too, the next one to append does it, as after a crash.
func (p *Pen) rollBack(cause error) error {
	if err := p.f.Truncate(p.size); err != nil {
		p.lost = true
		return fmt.Errorf("%w; the former end could not be restored: %w", cause, err)
	}
	return cause
}

// mend takes what is no whole line off the end of the file and keeps it aside,
// so that a line can begin there.
func (p *Pen) mend() error {
	end, whole, err := lastLine(p.f, p.size)
	if err != nil {
		return err
	}
	if p.lead = !whole; end == p.size {
		return nil
	}
	if p.size-end > MaxLine {
		return fmt.Errorf("%s ends with %d bytes that are no line: it was not written by this program; move it away", p.l.name, p.size-end)
	}
	kept, err := p.keep(end)
	if err == nil {
		err = p.f.Truncate(end)
	}
	if err != nil {
		return err
	}
	p.size = end
	if kept != "" && p.l.opt.Report != nil {
		p.l.opt.Report(Event{Kind: Cut, Name: p.l.name, Kept: kept})
	}
	return nil
}

// keep writes what stands behind end into a file of its own, unless it says
// nothing, and returns that file's name.
func (p *Pen) keep(end int64) (string, error) {
	piece := make([]byte, p.size-end)
	if n, err := p.f.ReadAt(piece, end); n < len(piece) {
		return "", err
	}
	if len(bytes.Trim(piece, " \t\r\n\x00")) == 0 {
		return "", nil
	}
	for n := 1; ; n++ {
		kept := fmt.Sprintf("%s%s%d", p.l.name, damaged, n)
		if err := copyAside(p.l.root, kept, piece, !p.l.opt.NoSync); !errors.Is(err, fs.ErrExist) {
			return kept, err
		}
	}
}

// close ends the lock. A file that was made for lines which did not come about
// goes away again.
func (p *Pen) close(created bool) (err error) {
	if p == nil {
		return nil
	}
	if created && p.size == 0 && !p.lost {
		err = p.l.root.Remove(p.l.name)
	}
	return either(err, p.f.Close())
}
