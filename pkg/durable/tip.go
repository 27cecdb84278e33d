package durable

import (
	"bytes"
	"io"

	"zino/pkg/wire"
)

// Sizes of what is read at the end of a file: first a little, then more.
const (
	firstWindow = 16 << 10
	windowGrow  = 4
	printSize   = 64
)

// refresh brings what is known of the file up to date. It costs one stat if
// nothing has changed and the last line if something was appended. A file that
// does not end as it should is recovered.
func (a *Array) refresh() error {
	size, old := a.now.Size(), a.tip
	if old.known && size == old.size && a.now.ModTime().Equal(old.mtime) {
		return nil
	}
	if grown, err := a.grown(size); err != nil {
		return err
	} else if !grown {
		a.gen++
	}
	ok, err := a.inspect(size)
	if err != nil || ok {
		return err
	}
	return a.recover()
}

// grown reports whether the file is what it was, with more at its end.
func (a *Array) grown(size int64) (bool, error) {
	t := a.tip
	if !t.known || t.bare || size <= t.size {
		return false, nil
	}
	got, err := a.read(t.end-int64(len(t.print)), t.end)
	return bytes.Equal(got, t.print), err
}

// inspect looks at the end of a file of the given size. It reports false if
// that is not the end of an array with its last element in a line of its own.
func (a *Array) inspect(size int64) (bool, error) {
	a.tip.known = false
	if size == 0 {
		return true, a.settle(tip{bare: true})
	}
	for window := int64(firstWindow); ; window *= windowGrow {
		start := max(0, size-window)
		data, err := a.read(start, size)
		if err != nil {
			return false, err
		}
		t, more, ok := readTip(data, start)
		if ok {
			return true, a.settle(t)
		}
		if !more || start == 0 {
			return false, nil
		}
	}
}

// readTip finds the last element in data, which begins at start and reaches to
// the end of the file. more says that a longer piece may tell.
func readTip(data []byte, start int64) (t tip, more, ok bool) {
	body := trimRight(data)
	if !bytes.HasSuffix(body, []byte("]")) {
		return t, len(body) == 0, false
	}
	body = trimRight(body[:len(body)-1])
	end := len(body)
	t = tip{end: start + int64(end), rest: bytes.Clone(data[end:]), print: bytes.Clone(body[max(0, end-printSize):])}
	if start == 0 && string(trim(body)) == "[" {
		t.bare = true
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

// settle makes t the known end of the file, with the size and time of now.
func (a *Array) settle(t tip) error {
	fi, err := a.f.Stat()
	if err != nil {
		return err
	}
	t.known, t.size, t.mtime = true, fi.Size(), fi.ModTime()
	a.tip = t
	return nil
}

// read returns the bytes of the file from start to end.
func (a *Array) read(start, end int64) ([]byte, error) {
	data := make([]byte, end-start)
	n, err := a.f.ReadAt(data, start)
	if n == len(data) || err == io.EOF {
		err = nil
	}
	return data[:n], err
}

// trim removes white space as JSON knows it.
func trim(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }

func trimRight(b []byte) []byte { return bytes.TrimRight(b, " \t\r\n") }
