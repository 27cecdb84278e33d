package acp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/sourcegraph/jsonrpc2"
)

// maxLine is the size of the longest line that is read, without its end. The npm SDK reads
// lines of twice the size.
const maxLine = 16 << 20

// stream is a stream of JSON-RPC messages, one a line. It answers lines that are none, and
// goes on.
type stream struct {
	r  *bufio.Reader
	mu sync.Mutex // of w
	w  io.Writer
}

func newStream(r io.Reader, w io.Writer) *stream {
	return &stream{r: bufio.NewReaderSize(r, 64<<10), w: w}
}

// WriteObject writes a message. Of an error about a request without an id, the id is null.
func (s *stream) WriteObject(v any) error {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.w.Write(unescaped(line.Bytes()))
	return err
}

// unescaped returns JSON without the escapes for HTML, which the library makes.
func unescaped(line []byte) []byte {
	for _, c := range []struct{ escape, char string }{{`\u003c`, "<"}, {`\u003e`, ">"}, {`\u0026`, "&"}} {
		var plain []byte
		for {
			i := bytes.Index(line, []byte(c.escape))
			if i < 0 {
				break
			}
			before := bytes.TrimRight(line[:i], `\`)
			if (i-len(before))%2 == 0 {
				plain = append(append(plain, line[:i]...), c.char...)
			} else { // the backslash is one of the text
				plain = append(plain, line[:i+len(c.escape)]...)
			}
			line = line[i+len(c.escape):]
		}
		line = append(plain, line...)
	}
	return line
}

// ReadObject reads the next message.
func (s *stream) ReadObject(v any) error {
	for {
		line, long, err := s.line()
		if err != nil {
			return err
		}
		code, what := int64(0), ""
		switch line = bytes.TrimSpace(line); {
		case long:
			code, what = jsonrpc2.CodeInvalidRequest, "the line has more than 16 MiB"
		case len(line) == 0:
			continue
		case !json.Valid(line):
			code, what = jsonrpc2.CodeParseError, "the line is not JSON"
		case !isMessage(line):
			code, what = jsonrpc2.CodeInvalidRequest, "the line is not a JSON-RPC 2.0 message"
		default:
			if err := json.Unmarshal(line, v); err == nil {
				return nil
			}
			code, what = jsonrpc2.CodeInvalidRequest, "the line is not a JSON-RPC 2.0 message"
		}
		if err := s.WriteObject(refusal{"2.0", nil, jsonrpc2.Error{Code: code, Message: what}}); err != nil {
			return err
		}
	}
}

// refusal answers a line that names no request.
type refusal struct {
	Version string         `json:"jsonrpc"`
	ID      *struct{}      `json:"id"`
	Error   jsonrpc2.Error `json:"error"`
}

// isMessage reports whether JSON is a request, a notification or a response. The library
// dereferences what is neither.
func isMessage(line []byte) bool {
	var m struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  *string         `json:"method"`
		Params  json.RawMessage `json:"params"`
		Result  json.RawMessage `json:"result"`
		Error   *jsonrpc2.Error `json:"error"`
	}
	if json.Unmarshal(line, &m) != nil || m.Version != "2.0" {
		return false
	}
	if m.Method != nil {
		return *m.Method != "" && m.Result == nil && m.Error == nil && (len(m.Params) == 0 || m.Params[0] == '{' || m.Params[0] == '[' || m.Params[0] == 'n') && string(m.ID) != "null"
	}
	return len(m.ID) > 0 && string(m.ID) != "null" && (m.Result != nil) != (m.Error != nil)
}

// line reads a line. One that is too long is read to its end and dropped.
func (s *stream) line() (line []byte, long bool, err error) {
	for {
		part, err := s.r.ReadSlice('\n')
		if !long {
			line = append(line, part...)
		}
		if len(bytes.TrimSuffix(line, []byte("\n"))) > maxLine {
			line, long = nil, true
		}
		switch {
		case err == nil:
			return line, long, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && (len(bytes.TrimSpace(line)) > 0 || long): // a last line without its end
			return line, long, nil
		default:
			return nil, false, err
		}
	}
}

// Close does nothing: standard input and output end with the process.
func (s *stream) Close() error { return nil }
