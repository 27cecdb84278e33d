package rtr

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"

	"zino/pkg/sse"
)

// events is the body that go-openai reads: one line "data: …\n" for each event
// of the provider's stream, whatever form the stream has.
type events struct {
	x     *exchange
	in    *sse.Reader // nil for an answer that came whole
	line  []byte      // what is left of the line under way
	buf   []byte
	any   bool // an event has come
	done  bool // the end mark [DONE] has come, or the answer came whole
	whole bool // the provider answered with JSON, not with a stream
}

// open looks at the beginning of the answer and not at its content type, which
// is wrong too often, to tell a stream from JSON and from a web page.
func (x *exchange) open() (*events, error) {
	in := bufio.NewReader(x)
	first, err := firstByte(in)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch first {
	case '{', '[':
		return x.openWhole(in)
	case '<':
		return nil, x.unusable("answered with a web page, not with a model's answer")
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
	if err != nil {
		return nil, err
	}
	if len(body) > sse.MaxEvent {
		return nil, x.tooLarge()
	}
	if !json.Valid(body) {
		return nil, x.unusable("answered with JSON that is broken or cut off")
	}
	ev := &events{x: x, done: true, whole: true, any: true}
	ev.take(body)
	return ev, nil
}

// Read gives lines to go-openai.
func (ev *events) Read(p []byte) (int, error) {
	for len(ev.line) == 0 {
		if ev.in == nil {
			return 0, io.EOF
		}
		if err := ev.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, ev.line)
	ev.line = ev.line[n:]
	return n, nil
}

func (ev *events) next() error {
	event, err := ev.in.Next()
	if err != nil {
		return err
	}
	data := bytes.TrimSpace(event.Data)
	switch {
	case len(data) == 0:
		return nil
	case string(data) == "[DONE]":
		ev.done = true
	case event.Cut && !json.Valid(data):
		return nil // the end of the input follows and is reported as such
	case event.Name == "error":
		return ev.x.failed(data)
	}
	ev.any = true
	ev.take(data)
	return nil
}

// take makes data the line to be read. go-openai would take a line that begins
// with {"error": for an error of its own making, and forget half of it; a
// blank after the brace keeps it from that, and our own reading sees the error
// wherever its key stands.
func (ev *events) take(data []byte) {
	ev.buf = append(ev.buf[:0], "data: "...)
	start := len(ev.buf)
	if data[0] == '{' {
		ev.buf = append(ev.buf, "{ "...)
		data = data[1:]
	}
	ev.buf = append(ev.buf, data...)
	for i, c := range ev.buf[start:] {
		if c == '\n' || c == '\r' {
			ev.buf[start+i] = ' ' // raw line ends stand only between JSON's tokens
		}
	}
	ev.buf = append(ev.buf, '\n')
	ev.line = ev.buf
}

// Close has nothing to do: the exchange closes the provider's body.
func (ev *events) Close() error { return nil }
