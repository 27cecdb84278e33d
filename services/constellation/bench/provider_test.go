package bench_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"zino/services/rtr/wire"
)

// tokensOfStream is the number of tokens of a measured stream.
const tokensOfStream = 2000

// wires are streams in each provider's format: the beginning, the event of a token and
// the end. Gemini sends several tokens per event.
var wires = []struct {
	name            string
	infer           wire.Func
	begin, say, end string
}{
	{
		"openai", wire.OpenAI, "",
		`data: {"id":"chatcmpl-9","object":"chat.completion.chunk","created":1794268190,"model":"gpt-6-luna","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":" bread"},"logprobs":null,"finish_reason":null}]}` + "\n\n",
		`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n",
	},
	{
		"anthropic", wire.Anthropic,
		"event: message_start\n" + `data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":9,"output_tokens":1}}}` + "\n\n" +
			"event: content_block_start\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n",
		"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" bread"}}` + "\n\n",
		"event: content_block_stop\n" + `data: {"type":"content_block_stop","index":0}` + "\n\n" +
			"event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2000}}` + "\n\n" +
			"event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n",
	},
	{
		"gemini", wire.Gemini, "",
		`data: {"candidates":[{"content":{"parts":[{"text":" bread bread bread bread"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":5,"totalTokenCount":14},"modelVersion":"gemini-flash"}` + "\n\n",
		`data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}]}` + "\n\n",
	},
	{
		"ollama", wire.Ollama, "",
		`{"model":"qwen3","created_at":"2026-11-21T13:00:00.123456789Z","message":{"role":"assistant","content":" bread"},"done":false}` + "\n",
		`{"model":"qwen3","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":2000}` + "\n",
	},
}

// canned answers every request on a new connection with the same body, without pauses,
// and counts its CPU time.
type canned struct {
	net.Listener
	body []byte
	cpu  atomic.Int64
}

func (s *canned) serve() {
	runtime.LockOSThread()
	head := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", len(s.body))
	for {
		nc, err := s.Accept()
		if err != nil {
			return
		}
		started := threadCPU()
		if takeRequest(nc) == nil {
			nc.Write(append(head[:len(head):len(head)], s.body...)) // the reader reports missing bytes
		}
		nc.Close()
		s.cpu.Add(threadCPU() - started)
	}
}

// takeRequest reads a request with a short body.
func takeRequest(nc net.Conn) error {
	in, length := bufio.NewReader(nc), 0
	for {
		text, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if value, ok := strings.CutPrefix(text, "Content-Length: "); ok {
			fmt.Sscan(value, &length) // nothing else sends to this server
		}
		if text == "\r\n" {
			_, err := in.Discard(length)
			return err
		}
	}
}

// processCPU returns the CPU time of this process in nanoseconds.
func processCPU() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts) // cannot fail: every kernel has it
	return ts.Nano()
}

// perToken returns the CPU time of f per token, without the server's.
func (s *canned) perToken(f func() error) (float64, error) {
	runtime.GC()
	started := processCPU() - s.cpu.Load()
	err := f()
	return float64(processCPU()-s.cpu.Load()-started) / tokensOfStream, err
}

// counting is a sink that counts bytes of text.
type counting int

// Event counts the bytes of text.
func (c *counting) Event(e wire.Event) error {
	if e.Kind == wire.Text {
		*c += counting(len(e.Delta))
	}
	return nil
}

// Flush does nothing.
func (c *counting) Flush() error { return nil }

// benchProviders compares reading each wire format with a plain TCP read of the same
// bytes.
func benchProviders(b *bench) (lines []line, err error) {
	for _, w := range wires {
		s := &canned{body: []byte(w.begin + strings.Repeat(w.say, tokensOfStream/strings.Count(w.say, " bread")) + w.end)}
		if s.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return lines, err
		}
		go s.serve()
		l, err := b.readWire(s, w.name, w.infer)
		s.Close()
		if err != nil {
			return lines, fmt.Errorf("%s: %w", w.name, err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func (b *bench) readWire(s *canned, name string, infer wire.Func) (line, error) {
	base, err := url.Parse("http://" + s.Addr().String() + "/v1")
	if err != nil {
		return line{}, err
	}
	client := wire.NewClient()
	defer client.CloseIdleConnections()
	ep := wire.NewEndpoint(client, base, "", time.Minute)
	var cpus, floors []float64
	for range max(3, b.scale(100)) {
		cpu, err := s.perToken(func() error { return readOnce(ep, infer) })
		if err != nil {
			return line{}, err
		}
		floor, err := s.perToken(func() error { return rawRead(s) })
		if err != nil {
			return line{}, err
		}
		cpus, floors = append(cpus, cpu), append(floors, floor)
	}
	return line{
		name: "read a stream, " + name + ", a token", goals: []goal{atMost(2*median(floors) + 1000)}, note: "goal: twice the floor and 1 us",
	}.over(cpus, floors), nil
}

// readOnce reads the whole stream with a provider's reader.
func readOnce(ep *wire.Endpoint, infer wire.Func) error {
	raw := json.RawMessage(`[{"role":"user","content":"hi"}]`)
	messages, err := wire.ReadMessages(raw)
	if err != nil {
		return err
	}
	var n counting
	req := wire.Request{Model: "m", Raw: raw, Messages: messages, Stream: true, MaxTokens: 100, Traits: wire.Traits{MaxTokensField: "max_tokens"}}
	if err := infer(context.Background(), ep, &req, &n); err != nil {
		return err
	}
	if int(n) != len(" bread")*tokensOfStream {
		return fmt.Errorf("%d bytes of text came", n)
	}
	return nil
}

// rawRead is the floor: it reads and discards the same bytes.
func rawRead(s *canned) error {
	nc, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		return err
	}
	defer nc.Close()
	if _, err := io.WriteString(nc, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		return err
	}
	buf := make([]byte, 4096)
	for {
		if _, err := nc.Read(buf); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}
