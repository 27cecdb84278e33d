package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"zino/pkg/sse"
	"zino/pkg/wire"
)

// endMark is the data of the event that ends a stream.
const endMark = "[DONE]"

// events are the events of an answer as the provider sent them.
type events struct {
	x     *exchange
	in    *sse.Reader // nil for an answer that came whole
	body  []byte      // the whole answer, until it is taken
	parts [][]byte    // what is left of events that came as one
	any   bool        // an event has come
	done  bool        // the end mark [DONE] has come, or the answer came whole
}

// headSize is the buffer for the look at the beginning: later reads are larger
// and pass it by, so that a stream has one buffer and not two.
const headSize = 256

// open looks at the beginning of the answer and not at its content type, which
// is wrong too often, to tell a stream from JSON and from a web page. JSON is
// an answer only where no stream was asked for.
func (x *exchange) open() (*events, error) {
	in := bufio.NewReaderSize(x, headSize)
	first, err := firstByte(in)
	if err != nil && err != io.EOF {
		return nil, x.broken(err)
	}
	switch first {
	case '{', '[':
		return x.openWhole(in)
	case '<':
		return nil, x.webPage(in)
	}
	return &events{x: x, in: sse.NewReader(in)}, nil
}

// firstByte returns the first byte that is neither white space nor part of a
// byte order mark, and leaves it to be read. What is dropped means nothing in
// a stream or in JSON.
func firstByte(in *bufio.Reader) (byte, error) {
	for {
		c, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		if !bytes.ContainsRune([]byte(" \t\r\n"), rune(c)) && c != 0xEF && c != 0xBB && c != 0xBF {
			return c, in.UnreadByte()
		}
	}
}

// openWhole reads an answer that is one JSON value.
func (x *exchange) openWhole(in io.Reader) (*events, error) {
	body, err := io.ReadAll(io.LimitReader(in, sse.MaxEvent+1))
	switch {
	case err != nil:
		return nil, x.broken(err)
	case len(body) > sse.MaxEvent:
		return nil, x.tooLarge()
	case !json.Valid(body):
		return nil, x.garbled("answered with JSON that is broken or cut off", body)
	case x.stream:
		return nil, x.notStreamed(body)
	}
	return &events{x: x, body: body, any: true}, nil
}

// next returns the data of the next event and the name that the event has. It
// returns io.EOF at the end, of which done says whether it was marked.
func (ev *events) next() (name string, data []byte, err error) {
	for {
		if len(ev.parts) > 0 {
			data, ev.parts = ev.parts[0], ev.parts[1:]
		} else if name, data, err = ev.read(); err != nil {
			return "", nil, err
		}
		if string(data) == endMark {
			ev.done, ev.any = true, true
			return "", nil, io.EOF
		}
		if len(data) > 0 {
			ev.any = true
			return name, data, nil
		}
	}
}

// read reads the next event of the stream, or the whole answer; what has no
// data, or was cut off in the middle, is empty. After that comes the end of
// the input, and is reported as such.
func (ev *events) read() (name string, data []byte, err error) {
	if ev.in == nil {
		data, ev.body, ev.done = ev.body, nil, true
		if data == nil {
			return "", nil, io.EOF
		}
		return "", data, nil
	}
	event, err := ev.in.Next()
	if err != nil {
		return "", nil, err
	}
	return event.Name, ev.separate(bytes.TrimSpace(event.Data), event.Cut), nil
}

// separate keeps apart events that came without a blank line between them: the
// standard joins their lines, which makes no JSON of them.
func (ev *events) separate(data []byte, cut bool) []byte {
	if bytes.IndexByte(data, '\n') < 0 && !cut || isEvent(data) {
		return data
	}
	lines := bytes.Split(data, []byte("\n"))
	if last := len(lines) - 1; cut && !isEvent(bytes.TrimSpace(lines[last])) {
		lines = lines[:last]
	}
	for i, line := range lines {
		if lines[i] = bytes.TrimSpace(line); len(lines[i]) > 0 && !isEvent(lines[i]) {
			return data
		}
	}
	if len(lines) == 0 {
		return nil
	}
	ev.parts = lines[1:]
	return lines[0]
}

// isEvent reports whether data is that of one event.
func isEvent(data []byte) bool { return string(data) == endMark || wire.Valid(data) }

// readNamed hands events to take until stopped is set: the loop of the wires on
// which an event of their own ends an answer, and not [DONE]. known is set once
// an event of the wire has come.
func (ev *events) readNamed(take func(name string, data []byte) error, known, stopped *bool) error {
	for !*stopped {
		name, data, err := ev.next()
		if err != nil {
			ev.done = false
			ev.any = ev.any && *known
			return ev.judge(false, err)
		}
		if err := take(name, data); err != nil {
			return err
		}
	}
	ev.done = true
	return ev.judge(true, nil)
}

// judge decides what the end of the events means: an answer is complete when
// it is finished or the end mark came. What goes wrong after that is nobody's
// concern, unless the caller has gone.
func (ev *events) judge(finished bool, err error) error {
	x := ev.x
	switch {
	case x.caller.Err() != nil:
		return x.caller.Err()
	case finished || errors.Is(err, io.EOF) && ev.done:
		x.whole = ev.done
		return nil
	case errors.Is(err, io.EOF) && !ev.any:
		return x.unusable("answered with nothing that is a model's answer")
	case errors.Is(err, io.EOF):
		return x.cut()
	}
	return x.broken(err)
}
