package exc

import (
	"io"
	"sync/atomic"
)

// floodMax is how many bytes a confined command may print before it is stopped:
// far more than anybody reads, and little enough to cost the host nothing.
const floodMax = 256 << 20

// flood stops a command that prints without end.
type flood struct {
	limit int64 // bytes of all outputs together; 0: no limit
	stop  func()
	total atomic.Int64
	over  atomic.Bool
}

// watch counts what goes to w.
func (f *flood) watch(w io.Writer) io.Writer {
	if f.limit == 0 {
		return w
	}
	return &counted{f, w}
}

// counted is a writer whose bytes count.
type counted struct {
	flood *flood
	io.Writer
}

// Write passes p on.
func (c *counted) Write(p []byte) (int, error) {
	if f := c.flood; f.total.Add(int64(len(p))) > f.limit && f.over.CompareAndSwap(false, true) {
		f.stop()
	}
	return c.Writer.Write(p)
}
