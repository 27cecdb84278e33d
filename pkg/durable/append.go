package durable

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

// Tx gives access to the locked file. It is valid until the function that it was
// passed to returns.
type Tx struct {
	f      *File
	absent bool
}

// End returns the offset behind the last object, or 0 if the file is empty or
// absent.
func (t *Tx) End() int64 {
	if t.absent {
		return 0
	}
	return t.f.tip.end
}

// closing ends a file with an array.
const closing = "\n]"

// Append writes objects, which must be valid JSON, behind the last one and returns
// when they are on disk. After an error the file is unchanged. Line breaks in an
// object, which can only be white space, are removed.
func (t *Tx) Append(objects [][]byte) error {
	f := t.f
	switch {
	case len(objects) == 0:
		return nil
	case t.absent:
		return errors.New("append needs Update")
	case f.broken != nil:
		return f.broken
	case !f.tip.known:
		return fmt.Errorf("%s: the write before this one failed", f.name)
	}
	data, err := f.encode(objects)
	if err != nil {
		return err
	}
	if err := f.write(data); err != nil {
		return f.rollBack(err)
	}
	next := tip{end: f.tip.end + int64(len(data))}
	if f.opt.Framing == Array {
		data = data[:len(data)-len(closing)]
		next.end, next.rest = next.end-int64(len(closing)), []byte(closing)
	}
	next.print = bytes.Clone(data[max(0, len(data)-printSize):])
	written := valid{f.gen, next.end, len(objects)}
	if f.valid.gen == f.gen && f.valid.end == f.tip.end {
		written.rows += f.valid.rows
	}
	if err := f.setTip(next); err != nil {
		return err
	}
	f.valid = written
	return nil
}

// encode returns what to write at the end of the file.
func (f *File) encode(objects [][]byte) ([]byte, error) {
	size := 8
	for _, o := range objects {
		size += len(o) + 2
	}
	buf := bytes.NewBuffer(make([]byte, 0, size))
	lead, between, end := "", "\n", "\n"
	if f.opt.Framing == Array {
		lead, between, end = ",\n", ",\n", closing
		switch {
		case f.tip.size == 0:
			lead = "[\n"
		case f.tip.empty:
			lead = "\n"
		}
	}
	for _, object := range objects {
		buf.WriteString(lead)
		lead = between
		// Only objects: the first part of a torn number, for example, is valid JSON.
		object = trim(object)
		if !isBraced(object) {
			return nil, errors.New("an element must be a JSON object")
		}
		start := buf.Len()
		if bytes.IndexByte(object, '\n') < 0 && bytes.IndexByte(object, '\r') < 0 {
			buf.Write(object)
		} else if err := json.Compact(buf, object); err != nil {
			return nil, err
		}
		if n := buf.Len() - start; f.opt.Framing == Lines && n > MaxLine {
			return nil, fmt.Errorf("a line of %d bytes: %w of %d", n, ErrTooLarge, MaxLine)
		}
	}
	buf.WriteString(end)
	return buf.Bytes(), nil
}

func isBraced(b []byte) bool { return len(b) > 1 && b[0] == '{' && b[len(b)-1] == '}' }

// write overwrites the end of the file with data in one WriteAt call.
func (f *File) write(data []byte) error {
	t := &f.tip
	if _, err := f.f.WriteAt(data, t.end); err != nil {
		return err
	}
	if end := t.end + int64(len(data)); t.size > end { // there was more white space than data
		if err := f.f.Truncate(end); err != nil {
			return err
		}
	}
	if f.opt.NoSync {
		return nil
	}
	if err := f.sync(f.f, f.name); err != nil {
		return err
	}
	if t.size == 0 {
		return SyncDir(f.root)
	}
	return nil
}

// rollBack restores the end of the file after a write that failed with cause. If
// that fails too, the next access repairs the file as after a crash.
func (f *File) rollBack(cause error) error {
	t := f.tip
	f.tip.known = false
	err := f.f.Truncate(t.size)
	if err == nil && len(t.rest) > 0 {
		_, err = f.f.WriteAt(t.rest, t.end)
	}
	if err != nil {
		return fmt.Errorf("%w; the former end could not be restored: %w", cause, err)
	}
	if err := f.setTip(t); err != nil {
		return fmt.Errorf("%w; %w", cause, err)
	}
	return cause
}

// Append adds objects and returns when they are on disk. Concurrent calls share
// one write and one sync. After an error none of the objects is stored and the
// file is unchanged.
func (f *File) Append(objects [][]byte) error {
	if len(objects) == 0 {
		return nil
	}
	return f.appends.Do(objects, func(all [][][]byte) error {
		return f.Update(context.Background(), true, func(t *Tx) error {
			var flat [][]byte
			for _, objects := range all {
				flat = append(flat, objects...)
			}
			return t.Append(flat)
		})
	})
}

// Group lets concurrent callers share one commit: the calls that arrive during
// a commit are collected and committed together by the next one. The zero value
// is ready.
type Group[T any] struct {
	turn sync.Mutex // locked during a commit

	mu   sync.Mutex // guards next
	next *batch[T]  // for the next commit
}

type batch[T any] struct {
	items []T
	done  chan struct{}
	err   error
}

// Do adds item to the next commit, and returns that commit's error when it is
// done. A commit gets its items in the order of the calls. The first caller of a
// batch runs commit for all of it.
func (g *Group[T]) Do(item T, commit func(items []T) error) error {
	g.mu.Lock()
	b, first := g.next, g.next == nil
	if first {
		b = &batch[T]{done: make(chan struct{})}
		g.next = b
	}
	b.items = append(b.items, item)
	g.mu.Unlock()
	if !first {
		<-b.done
		return b.err
	}
	g.turn.Lock()
	defer g.turn.Unlock()
	g.mu.Lock()
	g.next = nil
	g.mu.Unlock()
	b.err = errors.New("the write panicked") // unless commit returns
	defer close(b.done)
	b.err = commit(b.items)
	return b.err
}
