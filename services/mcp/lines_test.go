package mcp

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"zino/pkg/zinotest"
)

// collect returns the messages of an output, fed in pieces of n bytes.
func collect(output string, limit, n int) (l *lines, messages []string) {
	l = &lines{max: limit, emit: func(m jsonrpc.Message) {
		data, err := jsonrpc.EncodeMessage(m)
		if err != nil {
			data = []byte(err.Error())
		}
		messages = append(messages, string(data))
	}}
	for len(output) > 0 {
		k := min(n, len(output))
		l.feed([]byte(output[:k]))
		output = output[k:]
	}
	return l, messages
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 20_000)
	for name, test := range map[string]struct {
		output, want string
		dropped      int64
	}{
		"a log line":             {"Server started\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n", `"id":1,"result":{}`, 1},
		"blank lines, CR":        {"\n \r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\n", `"id":1,"result":{}`, 0},
		"not JSON":               {"{oops}\n[1]\nnull\n{\"a\":1}\n", "", 4},
		"id first":               {`{"jsonrpc":"2.0","id":7,"result":{"text":"` + long + "\"}}\n", `"id":7,"error":{"code":-32050`, 0},
		"id last":                {`{"result":{"text":"` + long + "\"},\"jsonrpc\":\"2.0\",\"id\":7}\n", `"id":7,"error":{"code":-32050`, 0},
		"id and version last":    {`{"result":{"text":"` + long + "\"}, \"id\" : \"a\\\"b\" , \"jsonrpc\":\"2.0\"}\n", `"id":"a\"b","error":{"code":-32050`, 0},
		"an id inside":           {`{"jsonrpc":"2.0","result":{"id":9,"text":"` + long + "\"},\"id\":7}\n", `"id":7,"error":{"code":-32050`, 0},
		"an id in a text":        {`{"result":{"text":"` + long + `{\"id\":9}` + "\"},\"jsonrpc\":\"2.0\",\"id\":7}\n", `"id":7,"error":{"code":-32050`, 0},
		"a request":              {`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":"` + long + "\"}\n", "", 1},
		"no id":                  {long + "\n", "", 1},
		"too long, then another": {long + "\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n", `"id":1,"result":{}`, 1},
		"nested too deeply":      {`{"jsonrpc":"2.0","id":7,"result":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + "}\n", `"id":7,"error":{"code":-32051`, 0},
		"an error of a text":     {`{"jsonrpc":"2.0","id":7,"error":"no"}` + "\n", `"id":7,"error":{"code":-32051`, 0},
		"a log line with an id":  {`{"level":30,"id":7,"msg":"started"}` + "\n", "", 1},
		"no end":                 {`{"jsonrpc":"2.0","id":1,"result":{}}`, "", 0},
	} {
		for _, n := range []int{1, 7, 4096, 1 << 20} {
			l, messages := collect(test.output, 10_000, n)
			got := strings.Join(messages, "\n")
			if !strings.Contains(got, test.want) || (test.want == "") != (got == "") || l.dropped != test.dropped || len(messages) > 1 {
				t.Errorf("%s, in pieces of %d: %s, dropped %d", name, n, got, l.dropped)
			}
		}
	}
}

// FuzzLines: any output gives the same messages in any pieces, and never more than a bounded
// buffer.
func FuzzLines(f *testing.F) {
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\nlog\n{\"id\":"), 3)
	f.Add([]byte("{\"result\":\""+strings.Repeat("y", 300)+"\",\"id\":5}\n"), 1)
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":\""+strings.Repeat("y", 300)+"\"}\n{}\n"), 100)
	f.Fuzz(func(t *testing.T, output []byte, n int) {
		whole, want := collect(string(output), 200, max(1, len(output)))
		parts, got := collect(string(output), 200, 1+(n&0xff))
		if strings.Join(want, "\n") != strings.Join(got, "\n") || whole.dropped != parts.dropped {
			t.Errorf("%q\n%q", want, got)
		}
		if len(parts.buf) > edge+200 || len(parts.tail) > edge {
			t.Errorf("%d and %d bytes are kept", len(parts.buf), len(parts.tail))
		}
	})
}

// TestLongLineFreed: a line that is too long is not kept.
func TestLongLineFreed(t *testing.T) {
	l, _ := collect(strings.Repeat("z", 1<<20), 1<<16, 32<<10)
	if cap(l.buf) > 2*edge || cap(l.tail) > 4*edge {
		t.Errorf("%d and %d bytes are kept", cap(l.buf), cap(l.tail))
	}
	zinotest.Equal(t, "bytes", l.long, 1<<20)
}
