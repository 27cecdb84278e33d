package rpc_test

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

// within waits for a signal; the limit only bounds a test that hangs.
func within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("in vain: waited for %s", what)
	}
}

// blocking is a handler that says when it has begun, and ends when its context
// does or when it is released.
type blocking struct{ begun, ended, release chan struct{} }

func newBlocking() *blocking {
	return &blocking{make(chan struct{}, 9), make(chan struct{}, 9), make(chan struct{})}
}

func (b *blocking) getSoft(ctx context.Context, _ proto.GetSoft) (proto.SoftMemory, error) {
	b.begun <- struct{}{}
	select {
	case <-ctx.Done():
		b.ended <- struct{}{}
		return proto.SoftMemory{}, ctx.Err()
	case <-b.release:
		return proto.SoftMemory{Content: "released"}, nil
	}
}

func (b *blocking) register(s *rpc.Server) { rpc.Handle(s, proto.MemGetSoft, b.getSoft) }

const getSoft = `{"type":"get_soft"}`

func TestHangUpCancels(t *testing.T) {
	b := newBlocking()
	path, _ := start(t, "mem", b.register)
	for _, halfFirst := range []bool{false, true} {
		nc := dial(t, path)
		send(t, nc, getSoft)
		within(t, "the handler", b.begun)
		if halfFirst {
			nc.CloseWrite()
		}
		nc.Close()
		within(t, "cancellation", b.ended)
	}
}

func TestHangUpWithUnreadRequests(t *testing.T) {
	b := newBlocking()
	path, _ := start(t, "mem", b.register)
	nc := dial(t, path)
	send(t, nc, getSoft)
	send(t, nc, getSoft)
	within(t, "the handler", b.begun)
	nc.Close()
	within(t, "cancellation", b.ended)
}

func TestHalfCloseStillAnswers(t *testing.T) {
	b := newBlocking()
	path, _ := start(t, "mem", b.register)
	nc := dial(t, path)
	send(t, nc, getSoft)
	nc.CloseWrite()
	within(t, "the handler", b.begun)
	select { // longer than a request runs before its connection is watched
	case <-b.ended:
		t.Error("the half-close cancelled the request")
	case <-time.After(50 * time.Millisecond):
	}
	close(b.release)
	if got := receive(t, nc); got != `{"type":"soft_memory","content":"released"}` {
		t.Errorf("got %s", got)
	}
	if got := receive(t, nc); got != "" {
		t.Errorf("after the answer: %s, want the end", got)
	}
}

func TestRequestsSentAhead(t *testing.T) {
	b := newBlocking()
	path, _ := start(t, "mem", b.register)
	nc := dial(t, path)
	ahead := append(frame(getSoft), frame(`{"type":"ping"}`)...)
	if _, err := nc.Write(append(ahead, frame(`{"type":"nope"}`)...)); err != nil {
		t.Fatal(err)
	}
	within(t, "the handler", b.begun)
	close(b.release)
	for _, want := range []string{`"soft_memory"`, `"pong"`, `"Unknown message type: nope"`} {
		if got := receive(t, nc); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestMalformed(t *testing.T) {
	path, _ := start(t, "mem", func(s *rpc.Server) {
		rpc.Handle(s, proto.MemGetHistory, func(context.Context, proto.GetHistory) (proto.History, error) {
			t.Error("the handler was called")
			return proto.History{}, nil
		})
	})
	nc := dial(t, path)
	for payload, want := range map[string]string{
		``:                                   `expected a JSON object`,
		`[]`:                                 `expected a JSON object`,
		`"x"`:                                `expected a JSON object`,
		`{`:                                  `malformed JSON`,
		`{"type":"ping"}}`:                   `malformed JSON`,
		`{"type":5}`:                         `expected a string, found a number`,
		`{"type":"get_history","limit":"x"}`: `expected a number, found a string`,
		`{"type":"get_history","limit":1.5}`: `expected a whole number`,
		`{"type":"get_history","channel_id":[1]}`:            `expected a string, found a list`,
		"{\"type\":\"get_history\",\"channel_id\":\"\xff\"}": `not valid UTF-8`,
		`{"type":"get_history","x":tru}`:                     `malformed JSON`,
		`{"type":"get_history","meta":{"trace":"a b"}}`:      `trace must be`,
		`{"type":"get_history","meta":{"deadline_ms":-1}}`:   `deadline_ms must be`,
		`{"type":"get_history","meta":{"deadline_ms":0}}`:    `deadline_ms must be 1 to 86400000`,
		`{"type":"get_history","meta":{"deadline_ms":"0"}}`:  `deadline_ms must be`,
	} {
		send(t, nc, payload)
		got := receive(t, nc)
		if !strings.HasPrefix(got, `{"type":"error","message":"Invalid request: `) || !strings.Contains(got, want) || !strings.Contains(got, `"code":"invalid"`) {
			t.Errorf("%q: %s, want %s", payload, got, want)
		}
	}
	for payload, want := range map[string]string{
		`{}`:                 `{"type":"error","message":"Unknown message type: ","code":"unknown","service":"mem"}`,
		`{"type":null}`:      `{"type":"error","message":"Unknown message type: ","code":"unknown","service":"mem"}`,
		`{"type":"é\u003c"}`: `{"type":"error","message":"Unknown message type: é<","code":"unknown","service":"mem"}`,
		`{"Type":"ping"}`:    `{"type":"error","message":"Unknown message type: ","code":"unknown","service":"mem"}`,
	} {
		send(t, nc, payload)
		if got := receive(t, nc); got != want {
			t.Errorf("%q: %s, want %s", payload, got, want)
		}
	}
}

func TestTooLarge(t *testing.T) {
	path, _ := start(t, "mem", func(*rpc.Server) {})
	nc := dial(t, path)
	if _, err := nc.Write(binary.BigEndian.AppendUint32(nil, 1<<24)); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, nc); !strings.Contains(got, `"message":"Request refused: a packet of 16777216 bytes is too large: the limit is 16777215.","code":"too_large"`) {
		t.Errorf("got %s", got)
	}
	if got := receive(t, nc); got != "" {
		t.Errorf("the connection goes on with %s", got)
	}
}

// TestCut ends the stream at every place inside a frame: no reply, no harm.
func TestCut(t *testing.T) {
	path, _ := start(t, "mem", func(*rpc.Server) {})
	whole := frame(`{"type":"ping"}`)
	for n := range len(whole) {
		nc := dial(t, path)
		if _, err := nc.Write(whole[:n]); err != nil {
			t.Fatal(err)
		}
		nc.CloseWrite()
		if got := receive(t, nc); got != "" {
			t.Errorf("after %d bytes: %s, want the end", n, got)
		}
	}
}

func TestStall(t *testing.T) {
	path, _ := start(t, "mem", func(s *rpc.Server) { s.SetLimits(50*time.Millisecond, time.Hour) })
	quiet := dial(t, path)
	for _, part := range []string{"\x00", "\x00\x00\x00\x0f{", "\x00\x01\x00\x00{"} {
		nc := dial(t, path)
		if _, err := nc.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
		if got := receive(t, nc); got != "" {
			t.Errorf("%q: %s, want the end", part, got)
		}
	}
	send(t, quiet, `{"type":"ping"}`) // nothing limits the wait between requests
	if got := receive(t, quiet); !strings.Contains(got, "pong") {
		t.Errorf("got %s", got)
	}
}

func TestPanicIsAnError(t *testing.T) {
	path, _ := start(t, "mem", func(s *rpc.Server) {
		rpc.Handle(s, proto.MemGetSoft, func(context.Context, proto.GetSoft) (proto.SoftMemory, error) { panic("oh") })
	})
	nc := dial(t, path)
	send(t, nc, getSoft)
	if got := receive(t, nc); !strings.Contains(got, `"message":"mem get_soft: the service failed; its log says more","code":"internal"`) {
		t.Errorf("got %s", got)
	}
	send(t, nc, `{"type":"ping"}`)
	if got := receive(t, nc); !strings.Contains(got, "pong") {
		t.Errorf("got %s", got)
	}
}

func TestKeepalive(t *testing.T) {
	b := newBlocking()
	path, _ := start(t, "mem", func(s *rpc.Server) {
		s.SetLimits(time.Minute, 5*time.Millisecond)
		b.register(s)
	})
	nc := dial(t, path)
	send(t, nc, `{"type":"get_soft","meta":{"keepalive":true}}`)
	for range 3 {
		if got := receive(t, nc); got != `{"type":"keepalive"}` {
			t.Fatalf("got %s", got)
		}
	}
	close(b.release)
	got := receive(t, nc)
	for got == `{"type":"keepalive"}` {
		got = receive(t, nc)
	}
	if !strings.Contains(got, "released") {
		t.Errorf("got %s", got)
	}
}

func TestDrain(t *testing.T) {
	b := newBlocking()
	path, s := start(t, "mem", b.register)
	working, idle := dial(t, path), dial(t, path)
	send(t, idle, `{"type":"ping"}`)
	receive(t, idle)
	send(t, working, getSoft)
	within(t, "the handler", b.begun)
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	if got := receive(t, idle); got != "" {
		t.Errorf("an idle connection got %s, want the end", got)
	}
	close(b.release)
	if got := receive(t, working); !strings.Contains(got, "released") {
		t.Errorf("got %s", got)
	}
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("a drained server accepts")
	}
}

func TestDrainCancelsInTheEnd(t *testing.T) {
	b := newBlocking()
	path, s := start(t, "mem", b.register)
	nc := dial(t, path)
	send(t, nc, getSoft)
	within(t, "the handler", b.begun)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); err == nil {
		t.Error("Shutdown hides that a request was cancelled")
	}
	if got := receive(t, nc); !strings.Contains(got, `"code":"canceled"`) {
		t.Errorf("got %s", got)
	}
}
