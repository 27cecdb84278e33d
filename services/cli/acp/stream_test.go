package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"strconv"
	"strings"
	"testing"

	"github.com/sourcegraph/jsonrpc2"
)

// TestStream checks that lines that are no messages are answered, and the others read.
func TestStream(t *testing.T) {
	const request = `{"jsonrpc":"2.0","id":0,"method":"m","params":{"a":"<b>"}}`
	for _, tt := range []struct {
		in       string
		messages int
		answers  string // codes
	}{
		{request + "\n", 1, ""},
		{"\n \r\n" + request, 1, ""},
		{"{\n" + request + "\n", 1, "-32700"},
		{`{"id":1,"method":"m"}` + "\n" + request + "\n", 1, "-32600"},
		{"[]\nnull\n7\n" + request + "\n", 1, "-32600 -32600 -32600"},
		{`{"jsonrpc":"2.0"}` + "\n", 0, "-32600"},
		{`{"jsonrpc":"2.0","id":-1,"method":"m"}` + "\n" + `{"jsonrpc":"2.0","id":{},"method":"m"}` + "\n", 0, "-32600 -32600"},
		{`{"jsonrpc":"2.0","id":1,"result":null,"error":null}` + "\n", 0, ""},
		{strings.Repeat("x", maxLine+1) + "\n" + request + "\n", 1, "-32600"},
	} {
		var out bytes.Buffer
		s := newStream(strings.NewReader(tt.in), &out)
		n := 0
		for {
			var m json.RawMessage
			if err := s.ReadObject(&m); err != nil {
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				break
			}
			if bytes.Contains(m, []byte(`"method":"m"`)) && bytes.Contains(m, []byte(`"id":0`)) {
				n++
			}
		}
		var codes []string
		for line := range strings.Lines(out.String()) {
			var r struct {
				ID    any            `json:"id"`
				Error jsonrpc2.Error `json:"error"`
			}
			if json.Unmarshal([]byte(line), &r) != nil || r.ID != nil {
				t.Errorf("answered %s", line)
			}
			codes = append(codes, strconv.FormatInt(r.Error.Code, 10))
		}
		if got := strings.Join(codes, " "); n != tt.messages || got != tt.answers && !strings.Contains(tt.in, `"id":-1`) {
			t.Errorf("%.80q: %d messages, answers %q", tt.in, n, got)
		}
	}
}

// TestStreamEscapesNoHTML checks what the library writes.
func TestStreamEscapesNoHTML(t *testing.T) {
	var out bytes.Buffer
	err := newStream(nil, &out).WriteObject(object{"a": json.RawMessage(`"\u003cb\u003e \\\u0026 \\\\u003c"`)})
	if want := `{"a":"<b> \\& \\\\u003c"}` + "\n"; err != nil || out.String() != want {
		t.Errorf("%v, wrote %s, want %s", err, out.String(), want)
	}
}

// FuzzStream checks that the library reads every message that the stream passes on.
func FuzzStream(f *testing.F) {
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"m"}`, `{"jsonrpc":"2.0","method":"m","params":[]}`, `{"jsonrpc":"2.0","id":"a","result":null}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","id":null,"method":"m"}`, "[]", "{", "\xff",
	} {
		f.Add([]byte(line + "\n"))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		s := newStream(bytes.NewReader(in), io.Discard)
		conn := jsonrpc2.NewConn(t.Context(), s, handler(func(context.Context, *jsonrpc2.Request) {}), jsonrpc2.SetLogger(log.New(io.Discard, "", 0)))
		<-conn.DisconnectNotify()
	})
}
