package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	// edge is how many bytes of both ends of a line that is too long are searched for its
	// id.
	edge = 4 << 10
	// codeTooLong is the JSON-RPC error in place of a message that is too long.
	codeTooLong = -32050
	// codeUnreadable is the one in place of an answer that is not of JSON-RPC, or nested too
	// deeply.
	codeUnreadable = -32051
)

// lines splits the output of a server into messages. A line that is not a JSON object, such
// as one that the server logs, is dropped and counted: the SDK would end the session. A line
// over max bytes becomes an error for its id.
type lines struct {
	max     int
	emit    func(jsonrpc.Message)
	dropped int64

	buf  []byte // of the line so far; of one that is too long its first bytes
	over bool   // the line is too long
	long int    // its bytes
	tail []byte // its last bytes
}

// feed adds output.
func (l *lines) feed(text []byte) {
	for len(text) > 0 {
		part, rest, ended := bytes.Cut(text, []byte("\n"))
		text = rest
		if !l.over && len(l.buf)+len(part) > l.max {
			l.over, l.long, l.tail = true, len(l.buf), append([]byte(nil), l.buf[max(0, len(l.buf)-edge):]...)
			l.buf = append([]byte(nil), l.buf[:min(len(l.buf), edge)]...) // the rest is freed
		}
		if l.over {
			l.long += len(part)
			l.buf = append(l.buf, part[:min(len(part), edge-len(l.buf))]...)
			l.tail = append(l.tail, part[max(0, len(part)-edge):]...)
			l.tail = append([]byte(nil), l.tail[max(0, len(l.tail)-edge):]...)
		} else {
			l.buf = append(l.buf, part...)
		}
		if ended {
			l.end()
		}
	}
}

// end handles a whole line.
func (l *lines) end() {
	line := bytes.TrimSpace(l.buf)
	if l.over {
		if id, ok := idOf(line, l.tail); ok {
			l.emit(&jsonrpc.Response{ID: id, Error: &jsonrpc.Error{
				Code: codeTooLong, Message: fmt.Sprintf("the answer has %d bytes, more than the %d that are accepted", l.long, l.max),
			}})
		} else {
			atomic.AddInt64(&l.dropped, 1)
		}
		l.buf, l.tail, l.long, l.over = nil, nil, 0, false
		return
	}
	if len(line) > 0 {
		message, err := decodeMessage(line)
		if err != nil {
			message = unreadable(line, err)
		}
		if message != nil {
			l.emit(message)
		} else {
			atomic.AddInt64(&l.dropped, 1)
		}
	}
	if l.buf = l.buf[:0]; cap(l.buf) > 1<<20 {
		l.buf = nil
	}
}

func decodeMessage(line []byte) (jsonrpc.Message, error) {
	if line[0] != '{' || !json.Valid(line) {
		return nil, fmt.Errorf("not an object")
	}
	return jsonrpc.DecodeMessage(line)
}

// unreadable returns an error for the call whose answer cannot be decoded, such as one that is
// nested too deeply; nil if the line is not an answer.
func unreadable(line []byte, err error) jsonrpc.Message {
	var answer struct {
		Version string          `json:"jsonrpc"`
		ID      any             `json:"id"`
		Method  json.RawMessage `json:"method"`
	}
	if json.Unmarshal(line, &answer) != nil || answer.Version != "2.0" || answer.Method != nil {
		return nil
	}
	id, idErr := jsonrpc.MakeID(answer.ID)
	if idErr != nil || !id.IsValid() {
		return nil
	}
	return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: codeUnreadable, Message: "the answer cannot be read: " + err.Error()}}
}

// idAtEnd matches the end of a response whose id stands behind its result.
var idAtEnd = regexp.MustCompile(`[,}\]"\s]"?id"\s*:\s*(-?[0-9]+|"(?:[^"\\]|\\.)*")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

// idOf returns the id of a response of which only both ends are known. A request or a
// notification has none.
func idOf(head, tail []byte) (id jsonrpc.ID, ok bool) {
	raw, method := idInHead(head)
	if method {
		return id, false
	}
	if raw == nil {
		if m := idAtEnd.FindSubmatch(tail); m != nil {
			raw = m[1]
		}
	}
	var value any
	if raw == nil || json.Unmarshal(raw, &value) != nil {
		return id, false
	}
	id, err := jsonrpc.MakeID(value)
	return id, err == nil && id.IsValid()
}

// idInHead returns the id among the first members of an object, and whether there is a
// method.
func idInHead(head []byte) (id []byte, method bool) {
	d := json.NewDecoder(bytes.NewReader(head))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return id, method
		}
		var value json.RawMessage
		if key == "method" {
			return id, true
		}
		if d.Decode(&value) != nil {
			return id, method
		}
		if key == "id" {
			id = value
		}
	}
	return id, method
}
