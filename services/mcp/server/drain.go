package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"
)

// drainLimit is how long answers may take after the end of the input.
const drainLimit = 30 * time.Second

// lineMax is the length of a line whose ids are counted.
const lineMax = 16 << 20

// drain is the input and output of a connection. The SDK drops the answers in flight when
// its input ends, so the input ends only when each request read has its answer written.
type drain struct {
	in  *bufio.Reader
	src io.Closer
	out io.WriteCloser

	line []byte // what was read of the current line
	rest []byte // what was read and not yet passed on
	err  error  // the end of in

	mu      sync.Mutex
	pending map[string]int // ids of requests without an answer
	written []byte         // the start of a line that is being written
	settled chan struct{}  // closed when the input has ended and nothing is pending
	ended   bool
	closed  chan struct{}
	once    sync.Once
}

func newDrain(in io.ReadCloser, out io.WriteCloser) *drain {
	return &drain{
		in: bufio.NewReaderSize(in, 64<<10), src: in, out: out,
		pending: map[string]int{}, settled: make(chan struct{}), closed: make(chan struct{}),
	}
}

// Read passes the input on.
func (d *drain) Read(p []byte) (int, error) {
	if len(d.rest) == 0 && d.err == nil {
		part, err := d.in.ReadSlice('\n')
		if len(d.line)+len(part) <= lineMax {
			d.line = append(d.line, part...)
		}
		if err == nil || !errors.Is(err, bufio.ErrBufferFull) {
			d.note(d.line, true)
			d.line = d.line[:0]
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			d.err = err
		}
		d.rest = append(d.rest[:0], part...)
	}
	if len(d.rest) > 0 {
		n := copy(p, d.rest)
		d.rest = d.rest[n:]
		return n, nil
	}
	d.wait()
	return 0, d.err
}

// wait returns when no request is pending.
func (d *drain) wait() {
	d.mu.Lock()
	if !d.ended {
		d.ended = true
		d.settle()
	}
	d.mu.Unlock()
	limit := time.NewTimer(drainLimit)
	defer limit.Stop()
	select {
	case <-d.settled:
	case <-d.closed:
	case <-limit.C:
	}
}

// settle reports the end of the drain. The caller holds mu.
func (d *drain) settle() {
	if d.ended && len(d.pending) == 0 {
		select {
		case <-d.settled:
		default:
			close(d.settled)
		}
	}
}

// Close ends the input.
func (d *drain) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.src.Close()
}

// message is what counts of a JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		RequestID json.RawMessage `json:"requestId"`
	} `json:"params"`
}

// note counts the requests of a line that was read, or the answers of one written.
func (d *drain) note(line []byte, read bool) {
	var list []message
	if line = bytes.TrimSpace(line); len(line) > 0 && line[0] == '[' { // a batch of revision 2025-03-26
		if json.Unmarshal(line, &list) != nil {
			return
		}
	} else {
		var m message
		if json.Unmarshal(line, &m) != nil {
			return
		}
		list = append(list, m)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range list {
		switch id := string(m.ID); {
		case read && m.Method == "notifications/cancelled": // needs no answer
			d.answered(string(m.Params.RequestID))
		case read && m.Method != "" && id != "" && id != "null":
			d.pending[id]++
		case !read && m.Method == "":
			d.answered(id)
		}
	}
	d.settle()
}

func (d *drain) answered(id string) {
	if d.pending[id]--; d.pending[id] <= 0 {
		delete(d.pending, id)
	}
}

// writer returns the output.
func (d *drain) writer() io.WriteCloser { return drainWriter{d} }

type drainWriter struct{ d *drain }

// Write writes p and counts the answers in it.
func (w drainWriter) Write(p []byte) (int, error) {
	n, err := w.d.out.Write(p)
	w.d.written = append(w.d.written, p[:n]...)
	for {
		i := bytes.IndexByte(w.d.written, '\n')
		if i < 0 {
			return n, err
		}
		w.d.note(w.d.written[:i], false)
		w.d.written = append(w.d.written[:0], w.d.written[i+1:]...)
	}
}

func (w drainWriter) Close() error { return w.d.out.Close() }
