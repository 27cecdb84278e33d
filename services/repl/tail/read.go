package tail

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// View is the end of a file as it was read.
type View struct {
	Bytes   []byte // from Offset to the end
	Offset  int64
	ModTime time.Time
	Missing bool // there is no file
	Stamp   Stamp
}

// end is the file's length.
func (v *View) end() int64 { return v.Offset + int64(len(v.Bytes)) }

// Read reads a file from a place to its end. If the file ends before that place
// the view is empty and begins at its end.
func (d *Dir) Read(name string, from int64) (View, error) {
	f, err := d.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return View{Missing: true}, nil
	}
	if err != nil {
		return View{}, err
	}
	v, err := read(f, from)
	return v, errors.Join(err, f.Close())
}

// read reads until there is no more: while it does the file may grow, or shrink.
func read(f *os.File, from int64) (View, error) {
	info, err := f.Stat()
	if err != nil {
		return View{}, err
	}
	v := View{Offset: min(max(from, 0), info.Size()), ModTime: info.ModTime(), Stamp: stampOf(info)}
	if info.Size()-v.Offset > Max {
		return View{}, fmt.Errorf("%w: %d bytes", ErrTooLong, info.Size()-v.Offset)
	}
	v.Bytes = make([]byte, info.Size()-v.Offset)
	n, err := f.ReadAt(v.Bytes, v.Offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	v.Bytes = v.Bytes[:n]
	return v, err
}
