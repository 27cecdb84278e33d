package durable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// Tx is the array while its file is locked. It is valid during the call of the
// function that it was given to.
type Tx struct {
	a      *Array
	absent bool
}

// Mark is a place in an array: what stands before it has been read. The zero
// Mark is the beginning.
type Mark struct {
	gen uint64
	end int64
}

// Append writes elements behind the last one and returns when they are on
// disk. After an error the file is as it was. Line breaks in an element, which
// can only be white space, are removed.
func (t *Tx) Append(elems [][]byte) error {
	a := t.a
	switch {
	case len(elems) == 0:
		return nil
	case t.absent:
		return errors.New("append needs Update")
	case a.broken != nil:
		return a.broken
	case !a.tip.known:
		return fmt.Errorf("%s: the write before this one failed", a.name)
	}
	data, err := a.tip.encode(elems)
	if err != nil {
		return err
	}
	if err := a.write(data); err != nil {
		return a.rollBack(err)
	}
	body := data[:len(data)-len(closing)]
	return a.settle(tip{
		end:   a.tip.end + int64(len(body)),
		rest:  []byte(closing),
		print: bytes.Clone(body[max(0, len(body)-printSize):]),
	})
}

const closing = "\n]"

// encode is what must be written at the end of the last element.
func (t *tip) encode(elems [][]byte) ([]byte, error) {
	size := 0
	for _, e := range elems {
		size += len(e) + 2
	}
	buf := bytes.NewBuffer(make([]byte, 0, size+8))
	lead := ",\n"
	if t.bare {
		lead = "\n"
	}
	if t.size == 0 {
		lead = "[\n"
	}
	for _, e := range elems {
		buf.WriteString(lead)
		if err := writeLine(buf, e); err != nil {
			return nil, err
		}
		lead = ",\n"
	}
	buf.WriteString(closing)
	return buf.Bytes(), nil
}

// writeLine writes an element as one line. Only objects can be told from a
// part of themselves after a torn write.
func writeLine(buf *bytes.Buffer, elem []byte) error {
	elem = trim(elem)
	if len(elem) < 2 || elem[0] != '{' || elem[len(elem)-1] != '}' {
		return errors.New("an element must be a JSON object")
	}
	if bytes.IndexByte(elem, '\n') < 0 && bytes.IndexByte(elem, '\r') < 0 {
		buf.Write(elem)
		return nil
	}
	return json.Compact(buf, elem)
}

// write puts data over the end of the file in one piece.
func (a *Array) write(data []byte) error {
	t := &a.tip
	if _, err := a.f.WriteAt(data, t.end); err != nil {
		return err
	}
	if end := t.end + int64(len(data)); t.size > end { // white space, and the old bracket in it
		if err := a.f.Truncate(end); err != nil {
			return err
		}
	}
	if a.opt.NoSync {
		return nil
	}
	if err := fdatasync(a.f); err != nil {
		return &os.PathError{Op: "fdatasync", Path: a.name, Err: err}
	}
	if t.size == 0 {
		return SyncDir(a.root)
	}
	return nil
}

// rollBack restores the end of the file as it was before a write that failed
// because of cause. Should that fail too, the next access recovers the file as
// after a crash.
func (a *Array) rollBack(cause error) error {
	t := a.tip
	a.tip.known = false
	err := a.f.Truncate(t.size)
	if err == nil {
		_, err = a.f.WriteAt(t.rest, t.end)
	}
	if err != nil {
		return fmt.Errorf("%w; the former end could not be restored: %w", cause, err)
	}
	return either(cause, a.settle(t))
}
