// Package sse reads event streams (text/event-stream) as servers send them: with
// any number of comments and blank lines, lines that end in CRLF, LF or CR, data split over several lines, a byte order mark, lines of any
// length up to a limit, and a last line without its end. The events do not depend
// on how the bytes are cut into reads.
package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxEvent limits the bytes of a line, and of the joined data of one event. It is
// the limit of Zino's packets: everything that can be passed on is accepted.
const MaxEvent = 16 << 20

// ErrTooLong is the error of a stream with a line or an event above MaxEvent.
var ErrTooLong = errors.New("event stream: an event is longer than 16 MiB")

// Event is one event of a stream.
type Event struct {
	// Name is the value of the event field, empty without such a field. It is
	// "error" for an event whose data came in a line outside the format; see
	// Reader.
	Name string
	// Data are the values of the data fields, joined by newlines. They are
	// valid until the next call of Next.
	Data []byte
	// Cut is true if the input ended before the blank line that ends an event.
	Cut bool
}

// Reader reads events. It calls Read of its source only when it has no complete
// event, so that a source can take a Read as the sign that the reader waits.
//
// Two forms of errors outside of the standard are read as events named "error": a field "error: …" (llama.cpp) and a
// bare line that begins with {" (gateways that fail after they began).
type Reader struct {
	lines lines
	data  []byte
	err   error
}

// NewReader returns a Reader of the stream src.
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
			ev.Name = "" // there is no event without data
		default:
			if filled, err = r.field(&ev, line, filled); err != nil {
				r.err = err
				return Event{}, err
			}
		}
	}
}

// field adds one line that is not blank to ev and reports whether ev has data now.
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
	default: // a comment, id, retry, or an unknown field
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
