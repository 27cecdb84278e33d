package rpc_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

func TestHangUpCancels(t *testing.T) {
	b := rpctest.NewBlock()
	path, _ := rpctest.New(t, "mem", "", blocking(b))
	for _, halfFirst := range []bool{false, true} {
		nc := rpctest.Dial(t, path)
		nc.Send(getSoft)
		b.Begun(t)
		if halfFirst {
			nc.HalfClose()
		}
		nc.Close()
		b.Canceled(t)
	}
}

func TestHangUpWithUnreadRequests(t *testing.T) {
	b := rpctest.NewBlock()
	path, _ := rpctest.New(t, "mem", "", blocking(b))
	nc := rpctest.Dial(t, path)
	nc.Send(getSoft)
	nc.Send(getSoft)
	b.Begun(t)
	nc.Close()
	b.Canceled(t)
}

func TestHalfCloseStillAnswers(t *testing.T) {
	b := rpctest.NewBlock()
	path, _ := rpctest.New(t, "mem", "", blocking(b))
	nc := rpctest.Dial(t, path)
	nc.Send(getSoft)
	nc.HalfClose()
	b.Begun(t)
	<-time.After(50 * time.Millisecond) // longer than watchAfter
	b.Release()
	if got := nc.Receive(); got != `{"type":"soft_memory","content":"released"}` {
		t.Errorf("got %s", got)
	}
	if got := nc.Receive(); got != "" {
		t.Errorf("after the answer: %s, want the end", got)
	}
}

func TestRequestsSentAhead(t *testing.T) {
	b := rpctest.NewBlock()
	path, _ := rpctest.New(t, "mem", "", blocking(b))
	nc := rpctest.Dial(t, path)
	nc.Write(rpctest.Frame(getSoft) + rpctest.Frame(`{"type":"ping"}`) + rpctest.Frame(`{"type":"nope"}`))
	b.Begun(t)
	b.Release()
	for _, want := range []string{`"soft_memory"`, `"pong"`, `"Unknown message type: nope"`} {
		if got := nc.Receive(); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestMalformed(t *testing.T) {
	path, _ := rpctest.New(t, "mem", "", func(s *rpc.Server) {
		rpc.Handle(s, proto.MemGetHistory, func(context.Context, proto.GetHistory) (proto.History, error) {
			t.Error("the handler was called")
			return proto.History{}, nil
		})
	})
	nc := rpctest.Dial(t, path)
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
		nc.Send(payload)
		got := nc.Receive()
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
		nc.Send(payload)
		if got := nc.Receive(); got != want {
			t.Errorf("%q: %s, want %s", payload, got, want)
		}
	}
}

func TestTooLarge(t *testing.T) {
	path, _ := rpctest.New(t, "mem", "", func(*rpc.Server) {})
	nc := rpctest.Dial(t, path)
	nc.Write("\x01\x00\x00\x00")
	if got := nc.Receive(); !strings.Contains(got, `"message":"Request refused: a packet of 16777216 bytes is too large: the limit is 16777215.","code":"too_large"`) {
		t.Errorf("got %s", got)
	}
	if got := nc.Receive(); got != "" {
		t.Errorf("after the error: %s", got)
	}
}

// TestCut: a stream that ends inside a frame gets no reply.
func TestCut(t *testing.T) {
	path, _ := rpctest.New(t, "mem", "", func(*rpc.Server) {})
	whole := rpctest.Frame(`{"type":"ping"}`)
	for n := range len(whole) {
		nc := rpctest.Dial(t, path)
		nc.Write(whole[:n])
		nc.HalfClose()
		if got := nc.Receive(); got != "" {
			t.Errorf("after %d bytes: %s, want the end", n, got)
		}
	}
}

func TestStall(t *testing.T) {
	path, _ := rpctest.New(t, "mem", "", func(s *rpc.Server) { s.SetLimits(50*time.Millisecond, time.Hour) })
	quiet := rpctest.Dial(t, path)
	for _, part := range []string{"\x00", "\x00\x00\x00\x0f{", "\x00\x01\x00\x00{"} {
		nc := rpctest.Dial(t, path)
		nc.Write(part)
		if got := nc.Receive(); got != "" {
			t.Errorf("%q: %s, want the end", part, got)
		}
	}
	quiet.Send(`{"type":"ping"}`) // the wait between requests has no limit
	if got := quiet.Receive(); !strings.Contains(got, "pong") {
		t.Errorf("got %s", got)
	}
}

func TestPanicIsAnError(t *testing.T) {
	path, _ := rpctest.New(t, "mem", "", func(s *rpc.Server) {
		rpc.Handle(s, proto.MemGetSoft, func(context.Context, proto.GetSoft) (proto.SoftMemory, error) { panic("oh") })
	})
	nc := rpctest.Dial(t, path)
	nc.Send(getSoft)
	if got := nc.Receive(); !strings.Contains(got, `"message":"mem get_soft: the service failed; its log says more","code":"internal"`) {
		t.Errorf("got %s", got)
	}
	nc.Send(`{"type":"ping"}`)
	if got := nc.Receive(); !strings.Contains(got, "pong") {
		t.Errorf("got %s", got)
	}
}

func TestKeepalive(t *testing.T) {
	b := rpctest.NewBlock()
	path, _ := rpctest.New(t, "mem", "", func(s *rpc.Server) {
		s.SetLimits(time.Minute, 5*time.Millisecond)
		blocking(b)(s)
	})
	nc := rpctest.Dial(t, path)
	nc.Send(`{"type":"get_soft","meta":{"keepalive":true}}`)
	for range 3 {
		if got := nc.Receive(); got != `{"type":"keepalive"}` {
			t.Fatalf("got %s", got)
		}
	}
	b.Release()
	got := nc.Receive()
	for got == `{"type":"keepalive"}` {
		got = nc.Receive()
	}
	if !strings.Contains(got, "released") {
		t.Errorf("got %s", got)
	}
}

func TestDrain(t *testing.T) {
	b := rpctest.NewBlock()
	path, s := rpctest.New(t, "mem", "", blocking(b))
	working, idle := rpctest.Dial(t, path), rpctest.Dial(t, path)
	idle.Send(`{"type":"ping"}`)
	idle.Receive()
	working.Send(getSoft)
	b.Begun(t)
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	if got := idle.Receive(); got != "" {
		t.Errorf("an idle connection got %s, want the end", got)
	}
	b.Release()
	if got := working.Receive(); !strings.Contains(got, "released") {
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
	b := rpctest.NewBlock()
	path, s := rpctest.New(t, "mem", "", blocking(b))
	nc := rpctest.Dial(t, path)
	nc.Send(getSoft)
	b.Begun(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); err == nil {
		t.Error("no error although a request was cancelled")
	}
	if got := nc.Receive(); !strings.Contains(got, `"code":"canceled"`) {
		t.Errorf("got %s", got)
	}
}

// TestDrainHalf: an incomplete frame does not delay a shutdown. One that is
// completed in time is answered.
func TestDrainHalf(t *testing.T) {
	for _, tt := range []struct {
		name  string
		half  time.Duration
		first int // bytes before the shutdown
		whole bool
	}{
		{"inside the head", time.Millisecond, 2, false},
		{"inside the body", time.Millisecond, 9, false},
		{"completed in time", time.Hour, 9, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path, s := rpctest.New(t, "mem", "", func(s *rpc.Server) {
				s.SetLimits(time.Hour, time.Hour)
				s.SetHalf(tt.half)
			})
			nc := rpctest.Dial(t, path)
			ping := rpctest.Frame(`{"type":"ping","x":1}`)
			nc.Write(ping[:tt.first])
			until(t, func() bool { return s.Reading() == 1 })
			done := make(chan struct{})
			go func() { defer close(done); s.Shutdown(context.Background()) }()
			<-s.Draining()
			if tt.whole {
				nc.Write(ping[tt.first:])
			}
			if got := nc.Receive(); (got != "") != tt.whole {
				t.Errorf("got %q", got)
			}
			zinotest.Receive(t, "the end", done)
		})
	}
}

// TestDrainHalfBegun: the same for a frame that begins during the drain.
func TestDrainHalfBegun(t *testing.T) {
	path, s := rpctest.New(t, "mem", "", func(s *rpc.Server) {
		s.SetLimits(time.Hour, time.Hour)
		s.SetFresh(time.Hour)
		s.SetHalf(time.Millisecond)
	})
	nc := rpctest.Dial(t, path)
	until(t, func() bool { return s.Connections() == 1 })
	done := make(chan struct{})
	go func() { defer close(done); s.Shutdown(context.Background()) }()
	<-s.Draining()
	nc.Write(rpctest.Frame(`{"type":"ping"}`)[:9])
	if got := nc.Receive(); got != "" {
		t.Errorf("got %q", got)
	}
	zinotest.Receive(t, "the end", done)
}

// unfinished sends half of a frame of 2 MiB, after which the server has allocated memory
// for all of it.
func unfinished(t *testing.T, path string) (nc *rpctest.Conn, rest string) {
	t.Helper()
	all := rpctest.Frame(`{"type":"ping","x":"` + strings.Repeat("x", 2<<20) + `"}`)
	nc = rpctest.Dial(t, path)
	nc.Write(all[:1<<20+1<<10])
	return nc, all[1<<20+1<<10:]
}

// TestUnfinishedFrames: the memory of incomplete frames is bounded, of one user
// and of all, and free again when they are complete or abandoned.
func TestUnfinishedFrames(t *testing.T) {
	for name, limits := range map[string][2]int{"of a user": {5 << 20, 1 << 30}, "of all": {1 << 30, 5 << 20}} {
		t.Run(name, func(t *testing.T) {
			path, s := rpctest.New(t, "mem", "", func(s *rpc.Server) {
				s.SetLimits(time.Hour, time.Hour)
				s.SetFrameBytes(limits[0], limits[1])
			})
			first, rest := unfinished(t, path)
			second, _ := unfinished(t, path)
			until(t, func() bool { return s.FrameBytes() >= 4<<20 })
			refused, more := unfinished(t, path)
			go refused.Write(more) // like a client that writes before it reads
			if got := refused.Receive(); !strings.Contains(got, "requests that are not complete. Try again later.") || !strings.Contains(got, `"code":"busy"`) {
				t.Errorf("got %s", got)
			}
			first.Write(rest)
			if got := first.Receive(); !strings.Contains(got, `"pong"`) {
				t.Errorf("got %s", got)
			}
			second.Close()
			until(t, func() bool { return s.FrameBytes() == 0 })
			again, rest := unfinished(t, path)
			again.Write(rest)
			if got := again.Receive(); !strings.Contains(got, `"pong"`) {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}

// TestIdleConnections: the oldest idle connections make room for new ones. Those
// with a request in flight stay.
func TestIdleConnections(t *testing.T) {
	for name, limits := range map[string][2]int{"of a user": {3, 100}, "of all": {100, 3}} {
		t.Run(name, func(t *testing.T) {
			b := rpctest.NewBlock()
			path, s := rpctest.New(t, "mem", "", func(s *rpc.Server) {
				blocking(b)(s)
				s.SetFresh(time.Millisecond)
				s.SetHalf(time.Millisecond)
				s.SetIdle(limits[0], limits[1])
			})
			working, half, quiet := rpctest.Dial(t, path), rpctest.Dial(t, path), rpctest.Dial(t, path)
			working.Send(getSoft)
			b.Begun(t)
			half.Write("\x00\x00")
			until(t, func() bool { return s.Reading() == 1 })
			idle := func(nc *rpctest.Conn) {
				ping(t, nc)
				until(t, func() bool { return s.Handling() == 1 }) // the pong arrives first
			}
			idle(quiet)
			for range 4 {
				idle(rpctest.Dial(t, path))
			}
			for _, nc := range []*rpctest.Conn{half, quiet} {
				if n, err := nc.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("an old connection: read %d bytes, %v", n, err)
				}
			}
			b.Release()
			if got := working.Receive(); !strings.Contains(got, "released") {
				t.Errorf("got %s", got)
			}
			until(t, func() bool { return s.Connections() <= 4 })
		})
	}
}

func ping(t *testing.T, nc *rpctest.Conn) {
	t.Helper()
	nc.Send(`{"type":"ping"}`)
	if got := nc.Receive(); !strings.Contains(got, `"pong"`) {
		t.Errorf("got %s", got)
	}
}
