// Package sse reads event streams (text/event-stream) as they are really
// sent: with comments and blank lines without number, lines that end in CRLF,
// LF or CR, data split over several lines, a byte order mark, lines of any
// length up to a bound, and a last line without its end. How the bytes are cut
// into reads makes no difference to the events.
package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxEvent is the most bytes that a line, and the joined data of one event,
// may have. It is the cap of Zino's own packets, so that nothing is refused
// here that could be passed on.
const MaxEvent = 16 << 20

// ErrTooLong is the error of a stream with a line or an event above MaxEvent.
var ErrTooLong = errors.New("event stream: an event is longer than 16 MiB")

// Event is one event of a stream.
type Event struct {
	// Name is the value of the event field, empty where there was none. It is
	// "error" for an event whose data came in a line outside the format; see
	// Reader.
	Name string
	// Data are the values of the data fields, joined by newlines. They are
	// valid until the next call of Next.
	Data []byte
	// Cut is true if the input ended before the blank line that ends an event.
	Cut bool
}

// Reader reads events. It calls its source's Read only when it holds no
// complete event, so a source can take a Read as the sign that the reader is
// about to wait.
//
// Two shapes that are no events of the standard carry errors in the field and
// are read as events of the name "error": a field "error: …" (llama.cpp) and a
// bare line that begins with {" (gateways that fail after they began).
type Reader struct {
	lines lines
	data  []byte
	err   error
}

// NewReader returns a Reader of the stream that src brings.
func NewReader(src io.Reader) *Reader {
	return &Reader{lines: lines{src: src}}
}

// Next returns the next event. At the end of the input it returns io.EOF, and
// where reading failed the source's error, both after all events before it.
func (r *Reader) Next() (Event, error) {
	if r.err != nil {
		return Event{}, r.err
	}
	var ev Event
	r.data = r.data[:0]
	filled := false
	for {
		line, err := r.lines.next()
		switch {
		case err != nil:
			r.err = err
			if !filled || errors.Is(err, ErrTooLong) {
				return Event{}, err
			}
			ev.Data, ev.Cut = r.data, true
			return ev, nil
		case len(line) == 0 && filled:
			ev.Data = r.data
			return ev, nil
		case len(line) == 0:
			ev.Name = "" // an event without data is none
		default:
			if filled, err = r.field(&ev, line, filled); err != nil {
				r.err = err
				return Event{}, err
			}
		}
	}
}

// field takes one line that is not blank into ev and reports whether ev has
// data now.
func (r *Reader) field(ev *Event, line []byte, filled bool) (bool, error) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch {
	case string(name) == "data":
	case string(name) == "event":
		ev.Name = string(value)
		return filled, nil
	case string(name) == "error":
		ev.Name = "error"
	case bytes.HasPrefix(line, []byte(`{"`)):
		ev.Name, value = "error", line
	default: // a comment, id, retry, or something of the future
		return filled, nil
	}
	if len(r.data)+len(value) >= MaxEvent {
		return false, fmt.Errorf("%w (data in several lines)", ErrTooLong)
	}
	if filled {
		r.data = append(r.data, '\n')
	}
	r.data = append(r.data, value...)
	return true, nil
}
