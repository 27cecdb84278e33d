package durable

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"unicode/utf8"

	"zino/pkg/wire"
)

// inspectLines finds the end of a locked file of Lines. It quarantines an
// incomplete last line, and adds the line break to a complete one without it.
func (f *File) inspectLines(size int64) error {
	end, whole, err := lastLine(f.f, size)
	if err != nil {
		return err
	}
	if end < size && !f.readOnly {
		if err := f.cut(end, size); err != nil {
			return err
		}
	}
	if !whole && !f.readOnly {
		if _, err := f.f.WriteAt([]byte("\n"), end); err != nil {
			return errors.Join(err, f.f.Truncate(end))
		}
		end++
	}
	print, err := f.read(max(0, end-printSize), end)
	if err != nil {
		return err
	}
	return f.setTip(tip{end: end, empty: end == 0, print: print})
}

// cut truncates the file to end, after quarantining the removed bytes unless they
// are blank.
func (f *File) cut(end, size int64) error {
	if size-end > MaxLine {
		return fmt.Errorf("%s ends with %d bytes that are not a line: it was not written by this program; move it away", f.name, size-end)
	}
	piece, err := f.read(end, size)
	if err != nil {
		return err
	}
	kept := ""
	if len(bytes.Trim(piece, space+"\x00")) > 0 {
		kept, err = quarantine(f.name, func(free string) error {
			return writeNew(f.root, free, piece, !f.opt.NoSync)
		})
		if err != nil {
			return err
		}
	}
	if err := f.f.Truncate(end); err != nil {
		return err
	}
	if kept != "" {
		f.report(Event{Kind: Cut, Kept: kept})
	}
	return nil
}

// lastLine returns the end of the last complete line of a file with the given
// size. whole is false if that line has no line break.
func lastLine(f *os.File, size int64) (end int64, whole bool, err error) {
	end, err = lastBreak(f, size)
	if err != nil || end == size || size-end > MaxLine {
		return end, true, err
	}
	tail := make([]byte, size-end)
	if n, err := f.ReadAt(tail, end); n < len(tail) {
		return end, true, err
	}
	// After a crash a file system may show zeros where nothing was written.
	body := bytes.TrimRight(tail, " \t\r\x00")
	if isObject(unmarked(body, end)) {
		return end + int64(len(body)), false, nil
	}
	return end, true, nil
}

// lastBreak returns the offset behind the last line break before size, or 0.
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

// inspectArray reads the tip of a locked file of Array. It reports false if the
// file does not end with an element on its own line and the closing bracket.
func (f *File) inspectArray(size int64) (bool, error) {
	f.tip.known = false
	if size == 0 {
		return true, f.setTip(tip{empty: true})
	}
	for window := int64(firstWindow); ; window *= windowGrow {
		start := max(0, size-window)
		data, err := f.read(start, size)
		if err != nil {
			return false, err
		}
		t, more, ok := readTip(data, start)
		if ok {
			return true, f.setTip(t)
		}
		if !more || start == 0 {
			return false, nil
		}
	}
}

// readTip finds the last element in data, the bytes of the file from start to its
// end. If ok is false, more reports whether a longer window may help.
func readTip(data []byte, start int64) (t tip, more, ok bool) {
	body := trimRight(data)
	if !bytes.HasSuffix(body, []byte("]")) {
		return t, len(body) == 0, false
	}
	body = trimRight(body[:len(body)-1])
	end := len(body)
	t = tip{end: start + int64(end), rest: bytes.Clone(data[end:]), print: bytes.Clone(body[max(0, end-printSize):])}
	if start == 0 && string(trim(body)) == "[" {
		t.empty = true
		return t, false, true
	}
	i := bytes.LastIndexByte(body, '\n')
	before := trimRight(body[:max(i, 0)])
	if len(before) == 0 {
		return t, true, false
	}
	if c := before[len(before)-1]; c != ',' && c != '[' {
		return t, false, false
	}
	return t, false, wire.Valid(body[i+1:])
}

// Repair repairs an array for which Walk returned ErrLayout. It invalidates all
// earlier marks.
func (t *Tx) Repair() error {
	if t.absent || t.f.broken != nil {
		return nil
	}
	return t.f.repairArray()
}

// repairArray reads the whole file and repairs it: an interrupted write is
// completed in place, a valid array in another layout is rewritten, and any other
// file is quarantined and its readable elements are written to a new one. If a
// write fails, the elements are served from memory until the file is unlocked.
func (f *File) repairArray() error {
	fi, err := f.f.Stat()
	if err != nil {
		return err
	}
	data, err := f.read(0, fi.Size())
	if err != nil {
		return err
	}
	s := salvage(data, f.opt.IsElement)
	e := Event{Kind: Damaged, Elements: len(s.elems)}
	switch {
	case s.valid:
		e.Kind = Converted
	case s.dangling:
		e.Kind = Repaired
		if done, err := f.complete(int64(s.end)); err == nil && done {
			f.report(e)
			return nil
		}
	default:
		e.Kept, e.Err = quarantine(f.name, func(free string) error {
			err := f.root.Link(f.name, free)
			if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EPERM) {
				err = writeNew(f.root, free, data, true)
			}
			return err
		})
	}
	if e.Err == nil {
		e.Err = Replace(f.root, f.name, arrayOf(s.elems))
	}
	if e.Err != nil {
		f.serve(s.elems, &e)
		f.report(e)
		return nil
	}
	f.report(e)
	f.drop()
	if err := f.acquire(context.Background(), updating); err != nil {
		return err
	}
	return f.refresh()
}

// complete closes the array behind its last element, which ends at end. It
// reports false if the file must be rewritten instead.
func (f *File) complete(end int64) (bool, error) {
	if end == 0 {
		return false, nil
	}
	if err := f.f.Truncate(end); err != nil {
		return false, err
	}
	if _, err := f.f.WriteAt([]byte(closing), end); err != nil {
		return false, err
	}
	if !f.opt.NoSync {
		if err := f.sync(f.f, f.name); err != nil {
			return false, err
		}
	}
	f.gen = generations.Add(1)
	return f.inspectArray(end + int64(len(closing)))
}

// serve answers reads with elems until the file is unlocked. The file stays
// unchanged, and appends fail.
func (f *File) serve(elems [][]byte, e *Event) {
	f.tip.known = false
	f.salvaged = elems
	f.broken = fmt.Errorf("%s is damaged and could not be repaired: %w", f.name, e.Err)
	if e.Kept != "" && f.root.Remove(e.Kept) == nil {
		e.Kept = "" // the next attempt quarantines it again
	}
}

// arrayOf returns the text of a file of Array.
func arrayOf(elems [][]byte) []byte {
	if len(elems) == 0 {
		return []byte("[]")
	}
	return append(append([]byte("[\n"), bytes.Join(elems, []byte(",\n"))...), closing...)
}

// salvaged is the result of reading a damaged file.
type salvaged struct {
	elems    [][]byte // each in one line
	end      int      // the end of the last element of the undamaged part; 0 without elements
	valid    bool     // the file is a valid array
	dangling bool     // only brackets, commas, white space or zeros follow the undamaged part
}

// salvage returns the elements of the undamaged part of an array, and from the
// rest every object that is accepts. Invalid UTF-8 counts as damage.
func salvage(data []byte, is func([]byte) bool) salvaged {
	s := unbroken(data)
	if !s.valid {
		rest := data[s.end:]
		if s.dangling = len(bytes.Trim(rest, space+",[]\x00")) == 0; !s.dangling {
			s.elems = append(s.elems, objects(rest, is)...)
		}
	}
	for i, elem := range s.elems {
		if !utf8.Valid(elem) {
			s.elems[i] = bytes.ToValidUTF8(elem, []byte("\ufffd"))
			s.valid, s.dangling = false, false
		}
	}
	return s
}

func unbroken(data []byte) (s salvaged) {
	body := bytes.TrimPrefix(data, []byte("\ufeff"))
	dec := json.NewDecoder(bytes.NewReader(body))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('[') {
		return s
	}
	for dec.More() {
		var elem json.RawMessage
		if dec.Decode(&elem) != nil {
			return s
		}
		s.elems = append(s.elems, inLine(elem))
		s.end = len(data) - len(body) + int(dec.InputOffset())
	}
	if tok, err := dec.Token(); err == nil && tok == json.Delim(']') {
		s.valid = len(trim(body[dec.InputOffset():])) == 0
	}
	return s
}

// objects returns the JSON objects in data that is accepts and that are followed
// by a delimiter or the end. It tries every opening brace; the budget keeps that
// from being quadratic.
func objects(data []byte, is func([]byte) bool) (elems [][]byte) {
	budget := 64*len(data) + 1<<20
	for budget > 0 {
		i := bytes.IndexByte(data, '{')
		if i < 0 {
			break
		}
		data = data[i:]
		r := bytes.NewReader(data)
		dec := json.NewDecoder(r)
		var elem json.RawMessage
		err := dec.Decode(&elem)
		budget -= len(data) - r.Len()
		if err == nil {
			rest := bytes.TrimLeft(data[dec.InputOffset():], space+"\x00")
			delimited := len(rest) == 0 || bytes.IndexByte([]byte(",]{["), rest[0]) >= 0
			if delimited && (is == nil || is(elem)) {
				elems = append(elems, inLine(elem))
				data = data[dec.InputOffset():]
				continue
			}
		}
		data = data[1:]
	}
	return elems
}

// inLine returns a valid element without line breaks.
func inLine(elem []byte) []byte {
	if !bytes.ContainsAny(elem, "\r\n") {
		return elem
	}
	var buf bytes.Buffer
	if json.Compact(&buf, elem) != nil {
		return elem
	}
	return buf.Bytes()
}
