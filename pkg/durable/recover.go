package durable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"unicode/utf8"
)

// recover reads a file that is not laid out as it should be, completely, and
// puts it right: a write that was interrupted is mended at its place, a valid
// array in another layout is rewritten, and of anything else a copy is kept
// aside. If the disk does not allow that, what was read is served all the same.
func (a *Array) recover() error {
	fi, err := a.f.Stat()
	if err != nil {
		return err
	}
	data, err := a.read(0, fi.Size())
	if err != nil {
		return err
	}
	s := salvage(data, a.opt.IsElement)
	e := Event{Kind: Damaged, Elements: len(s.elems)}
	switch {
	case s.valid:
		e.Kind = Converted
	case s.dangling:
		e.Kind = Mended
		if done, err := a.mend(int64(s.end)); err == nil && done {
			a.report(e)
			return nil
		}
	default:
		e.Kept, e.Err = keepAside(a.root, a.name, data)
	}
	if e.Err == nil {
		e.Err = Replace(a.root, a.name, layOut(s.elems))
	}
	if e.Err != nil {
		a.keepInMemory(s.elems, &e)
		a.report(e)
		return nil
	}
	a.report(e)
	return a.reopen()
}

// mend closes the array behind its last element, which ends at end. It reports
// false if the file then still needs to be rewritten.
func (a *Array) mend(end int64) (bool, error) {
	if end == 0 {
		return false, nil
	}
	if err := a.f.Truncate(end); err != nil {
		return false, err
	}
	if _, err := a.f.WriteAt([]byte(closing), end); err != nil {
		return false, err
	}
	if !a.opt.NoSync {
		if err := fdatasync(a.f); err != nil {
			return false, err
		}
	}
	a.gen++
	return a.inspect(end + int64(len(closing)))
}

// keepInMemory has the elements served until the file is unlocked; it stays as
// it is, and nothing can be appended.
func (a *Array) keepInMemory(elems [][]byte, e *Event) {
	a.tip.known = false
	a.salvaged = elems
	a.broken = fmt.Errorf("%s is damaged and could not be mended: %w", a.name, e.Err)
	if e.Kept != "" && a.root.Remove(e.Kept) == nil {
		e.Kept = "" // the next attempt keeps it
	}
}

// reopen locks the file that took the place of the one that was open.
func (a *Array) reopen() error {
	a.drop()
	there, err := a.acquire(false)
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("%s: %w", a.name, os.ErrNotExist)
	}
	return a.refresh()
}

// layOut is the text of a file with these elements.
func layOut(elems [][]byte) []byte {
	if len(elems) == 0 {
		return []byte("[]")
	}
	return append(append([]byte("[\n"), bytes.Join(elems, []byte(",\n"))...), closing...)
}

// salvaged is what could be read of a file.
type salvaged struct {
	elems    [][]byte // each in one line
	end      int      // where the last element of the unbroken part ends, 0 if there is none
	valid    bool     // the file is a valid array
	dangling bool     // all that is wrong are bytes at the end that say nothing
}

// salvage reads the elements of an array as far as it is unbroken, and behind
// that every object that can be found. Bad UTF-8 in one is damage, too.
func salvage(data []byte, is func([]byte) bool) salvaged {
	s := readable(data, is)
	for i, elem := range s.elems {
		if !utf8.Valid(elem) {
			s.elems[i] = bytes.ToValidUTF8(elem, []byte("\ufffd"))
			s.valid, s.dangling = false, false
		}
	}
	return s
}

// readable is salvage of bytes that need not be UTF-8.
func readable(data []byte, is func([]byte) bool) salvaged {
	s := unbroken(data)
	if s.valid {
		return s
	}
	rest := data[s.end:]
	if s.dangling = len(bytes.Trim(rest, " \t\r\n,[]\x00")) == 0; !s.dangling {
		s.elems = append(s.elems, objects(rest, is)...)
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

// objects returns the JSON objects in data that are elements by their looks and
// are followed by what can follow one. The work is bounded, since every brace
// may begin one.
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
		if err != nil || !delimited(data[dec.InputOffset():]) || is != nil && !is(elem) {
			data = data[1:]
			continue
		}
		elems = append(elems, inLine(elem))
		data = data[dec.InputOffset():]
	}
	return elems
}

func delimited(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t\r\n\x00")
	return len(rest) == 0 || bytes.IndexByte([]byte(",]{["), rest[0]) >= 0
}

// inLine is a valid element without line breaks.
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
