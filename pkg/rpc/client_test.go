package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

func soft(content string) func(*rpc.Server) {
	return func(s *rpc.Server) {
		rpc.Handle(s, proto.MemGetSoft, func(context.Context, proto.GetSoft) (proto.SoftMemory, error) {
			return proto.SoftMemory{Content: content}, nil
		})
	}
}

// raw plays a server that speaks bytes: play gets each connection in turn.
func raw(t *testing.T, play func(n int, nc *net.UnixConn)) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 1; ; n++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer nc.Close()
				play(n, nc.(*net.UnixConn))
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait(); os.RemoveAll(dir) })
	return path
}

// take reads one request from a raw connection, takeText its payload, too.
func take(nc net.Conn) error {
	_, err := takeText(nc)
	return err
}

func takeText(nc net.Conn) (string, error) {
	var head [4]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil {
		return "", err
	}
	payload := make([]byte, int(head[2])<<8|int(head[3]))
	_, err := io.ReadFull(nc, payload)
	return string(payload), err
}

func call(ctx context.Context, c *rpc.Client) (string, error) {
	rep, err := rpc.Call(ctx, c, proto.MemGetSoft, proto.GetSoft{})
	return rep.Content, err
}

func TestConnectionsAreKept(t *testing.T) {
	path, _ := start(t, "mem", soft("x"))
	c := &rpc.Client{Service: "mem", Path: path}
	defer c.Close()
	for range 3 {
		if _, err := call(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	stats, err := rpc.Call(t.Context(), c, proto.GetStats, proto.StatsRequest{})
	if err != nil || stats.Connections != 1 || stats.Requests != 3 {
		t.Errorf("stats = %+v, %v, want 3 requests over 1 connection", stats, err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got, err := call(t.Context(), c); got != "x" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	wg.Wait()
	if n := c.Idle(); n == 0 || n > 4 {
		t.Errorf("%d connections are kept, want 1 to 4", n)
	}
}

// TestRestartedServer shows that a kept connection to a server that has gone is
// not used again.
func TestRestartedServer(t *testing.T) {
	path := raw(t, func(n int, nc *net.UnixConn) {
		if take(nc) == nil {
			nc.Write(frame(fmt.Sprintf(`{"type":"soft_memory","content":"%d"}`, n)))
		}
	})
	c := &rpc.Client{Service: "mem", Path: path}
	defer c.Close()
	for _, want := range []string{"1", "2", "3"} {
		if got, err := call(t.Context(), c); got != want || err != nil {
			t.Fatalf("got %q, %v, want %s", got, err, want)
		}
	}
}

// TestSentAgain: a peer that closes with the request unread did not take it.
func TestSentAgain(t *testing.T) {
	path := raw(t, func(n int, nc *net.UnixConn) {
		if n == 1 {
			io.ReadFull(nc, make([]byte, 1)) // the rest stays unread: the client sees a reset
			return
		}
		if take(nc) == nil {
			nc.Write(frame(`{"type":"soft_memory","content":"second"}`))
		}
	})
	c := &rpc.Client{Service: "mem", Path: path}
	defer c.Close()
	if got, err := call(t.Context(), c); got != "second" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestNotSentAgain: a peer that took the request may have acted on it.
func TestNotSentAgain(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing": "", "half a header": "\x00\x00", "half a packet": "\x00\x00\x00\x0f{\"ty", "a chunk": string(frame(`{"type":"keepalive"}`)),
	} {
		var mu sync.Mutex
		taken := 0
		path := raw(t, func(_ int, nc *net.UnixConn) {
			if take(nc) == nil {
				mu.Lock()
				taken++
				mu.Unlock()
				io.WriteString(nc, answer)
			}
		})
		c := &rpc.Client{Service: "mem", Path: path}
		_, err := call(t.Context(), c)
		mu.Lock()
		if taken != 1 || !errors.Is(err, proto.ErrUnavailable) || err.Error() != "mem hung up before its answer was complete" {
			t.Errorf("%s: taken %d times, error %v", name, taken, err)
		}
		mu.Unlock()
		c.Close()
	}
}

// TestSilence: a peer known to send keepalives has the limit of silence; others,
// which may implement the specification alone, have more time.
func TestSilence(t *testing.T) {
	for name, test := range map[string]struct {
		pong  string // "": pings are not answered
		first string // packet before the silence
		want  string
	}{
		"pong with proto":           {`{"type":"pong","proto":11}`, "", "mem said nothing for 30ms"},
		"pong without proto":        {`{"type":"pong"}`, "", "mem said nothing for 60ms"},
		"no service for pings":      {`{"type":"error","message":"Unknown message type: ping"}`, "", "mem said nothing for 60ms"},
		"keepalive":                 {`{"type":"pong"}`, `{"type":"keepalive"}`, "mem said nothing for 30ms"},
		"keepalive of another form": {`{"type":"pong"}`, `{ "n": 1, "type": "keepalive" }`, "mem said nothing for 30ms"},
	} {
		t.Run(name, func(t *testing.T) {
			path := raw(t, func(_ int, nc *net.UnixConn) {
				if request, err := takeText(nc); err != nil || strings.Contains(request, `"ping"`) {
					nc.Write(frame(test.pong))
					return
				}
				if test.first != "" {
					nc.Write(frame(test.first))
				}
				io.Copy(io.Discard, nc)
			})
			c := &rpc.Client{Service: "mem", Path: path, Silence: 30 * time.Millisecond, Slow: 60 * time.Millisecond}
			defer c.Close()
			if _, err := call(t.Context(), c); !errors.Is(err, proto.ErrTimeout) || err.Error() != test.want {
				t.Errorf("error = %v, want %s", err, test.want)
			}
		})
	}
}

// TestSpecificationAlone: a peer that knows no keepalive answers after the limit
// of silence, and so does one that answers no ping while it works.
func TestSpecificationAlone(t *testing.T) {
	for _, pong := range []string{`{"type":"pong"}`, ""} {
		asked := make(chan bool, 1)
		path := raw(t, func(_ int, nc *net.UnixConn) {
			request, err := takeText(nc)
			if err == nil && strings.Contains(request, `"ping"`) {
				if pong != "" {
					nc.Write(frame(pong))
				}
				asked <- true // the limit has passed
				return
			}
			<-asked
			nc.Write(frame(`{"type":"soft_memory","content":"late"}`))
		})
		c := &rpc.Client{Service: "mem", Path: path, Silence: 30 * time.Millisecond}
		if got, err := call(t.Context(), c); got != "late" || err != nil {
			t.Errorf("pong %q: got %q, %v", pong, got, err)
		}
		c.Close()
	}
}

// TestFrozenPeer: a peer that was seen to send keepalives and answers no ping
// any more has the limit of silence.
func TestFrozenPeer(t *testing.T) {
	var frozen atomic.Bool
	path := raw(t, func(_ int, nc *net.UnixConn) {
		for {
			request, err := takeText(nc)
			switch {
			case err != nil:
				return
			case frozen.Load():
			case strings.Contains(request, `"ping"`):
				nc.Write(frame(`{"type":"pong","proto":1}`))
				frozen.Store(true)
			default:
				nc.Write(frame(`{"type":"soft_memory","content":"x"}`))
			}
		}
	})
	c := &rpc.Client{Service: "mem", Path: path, Silence: 30 * time.Millisecond}
	defer c.Close()
	c.SetPongLimit(30 * time.Millisecond)
	if got, err := call(t.Context(), c); got != "x" || err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
	if _, err := call(t.Context(), c); !errors.Is(err, proto.ErrTimeout) || err.Error() != "mem said nothing for 30ms" {
		t.Errorf("error = %v", err)
	}
}

// TestForeignServer: nothing is sent to a server that another user runs.
func TestForeignServer(t *testing.T) {
	const foreign = 54321
	read := make(chan int64, 1)
	play := func(_ int, nc *net.UnixConn) {
		n, _ := io.Copy(io.Discard, nc)
		read <- n
	}
	c := &rpc.Client{Service: "mem"}
	uid := os.Getuid()
	if uid == 0 {
		asUser(t, foreign, func() { c.Path = raw(t, play) })
		uid = foreign
	} else {
		c.Path = raw(t, play)
		c.SetUID(foreign)
	}
	_, err := call(t.Context(), c)
	want := fmt.Sprintf("the socket %s is served by uid %d (", c.Path, uid)
	if !errors.Is(err, proto.ErrDenied) || errors.Is(err, rpc.ErrConnect) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error = %v, want %s…", err, want)
	}
	if n := <-read; n != 0 {
		t.Errorf("%d bytes were sent", n)
	}
}

// asUser runs f on a thread of that user's. The kernel keeps the user of the
// thread that listens for those who connect.
func asUser(t *testing.T, uid int, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	become := func(uid int) {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			t.Fatal(errno)
		}
	}
	become(uid)
	defer become(0)
	f()
}

// TestWrongReply: an answer of another method's type is none, and the connection
// is of no further use. One without a type is what it is taken for.
func TestWrongReply(t *testing.T) {
	for answer, want := range map[string]string{
		`{"type":"weird"}`:                     `mem answered with a packet of type "weird": "soft_memory" was expected`,
		`{"type":"ok","content":"no"}`:         `mem answered with a packet of type "ok": "soft_memory" was expected`,
		`{"content":"x"}`:                      "",
		`{"type":null,"content":"x"}`:          "",
		`{"type":"soft_memory","content":"x"}`: "",
	} {
		t.Run(answer, func(t *testing.T) {
			path := raw(t, func(_ int, nc *net.UnixConn) {
				nc.Read(make([]byte, 4096))
				nc.Write(frame(answer))
			})
			c := &rpc.Client{Service: "mem", Path: path}
			defer c.Close()
			got, err := call(t.Context(), c)
			if said := fmt.Sprint(err); want != "" && (said != want || c.Idle() != 0) || want == "" && (err != nil || got != "x") {
				t.Errorf("got %q, %v, want %q; %d connections are kept", got, err, want, c.Idle())
			}
		})
	}
}

// TestKeepaliveBreaksSilence: a peer that keeps saying that it works may take
// longer than the limit of silence.
func TestKeepaliveBreaksSilence(t *testing.T) {
	t.Parallel() // it has to last longer than the limit, which is long for a loaded machine
	b := newBlocking()
	path, _ := start(t, "mem", func(s *rpc.Server) {
		s.SetLimits(time.Minute, 5*time.Millisecond)
		b.register(s)
	})
	c := &rpc.Client{Service: "mem", Path: path, Silence: 2 * time.Second}
	defer c.Close()
	timer := time.AfterFunc(2500*time.Millisecond, func() { close(b.release) })
	defer timer.Stop()
	if got, err := call(t.Context(), c); got != "released" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestCancelHangsUp(t *testing.T) {
	b := newBlocking()
	path, _ := start(t, "mem", b.register)
	c := &rpc.Client{Service: "mem", Path: path}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := call(ctx, c); done <- err }()
	within(t, "the handler", b.begun)
	cancel()
	within(t, "cancellation", b.ended)
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
	if c.Idle() != 0 {
		t.Error("a cancelled connection was kept")
	}
}

func TestConnectError(t *testing.T) {
	gone := &rpc.Client{Service: "rtr", Path: "/nonexistent/rtr.sock"}
	_, err := call(t.Context(), gone)
	if !errors.Is(err, rpc.ErrConnect) || !errors.Is(err, proto.ErrUnavailable) || !strings.HasPrefix(err.Error(), "Could not connect to rtr: ") {
		t.Errorf("error = %v", err)
	}
	path, _ := start(t, "mem", func(s *rpc.Server) {
		rpc.Handle(s, proto.MemGetSoft, func(ctx context.Context, _ proto.GetSoft) (proto.SoftMemory, error) {
			_, err := call(ctx, gone)
			return proto.SoftMemory{}, err
		})
	})
	c := &rpc.Client{Service: "mem", Path: path}
	defer c.Close()
	_, err = call(t.Context(), c)
	if errors.Is(err, rpc.ErrConnect) || !errors.Is(err, proto.ErrUnavailable) || !strings.HasPrefix(err.Error(), "Could not connect to rtr: ") {
		t.Errorf("behind a hop: error = %v", err)
	}
}

// TestTwoHops passes errors, trace, deadline and cancellation over a relay.
func TestTwoHops(t *testing.T) {
	var traces []string
	b := newBlocking()
	far, _ := start(t, "mem", func(s *rpc.Server) {
		b.register(s)
		rpc.Handle(s, proto.MemSetSoft, func(ctx context.Context, _ proto.SetSoft) (proto.Empty, error) {
			deadline, ok := ctx.Deadline()
			if left := time.Until(deadline); !ok || left <= 0 || left > time.Minute {
				t.Errorf("time left: %v, %v", left, ok)
			}
			traces = append(traces, rpc.Trace(ctx))
			return proto.Empty{}, errors.New("no space left on device")
		})
	})
	c := &rpc.Client{Service: "mem", Path: far}
	defer c.Close()
	near, _ := start(t, "sys", func(s *rpc.Server) {
		rpc.Handle(s, proto.SysSetSoftMemory, func(ctx context.Context, _ proto.SetSoftMemory) (proto.SystemPrompt, error) {
			traces = append(traces, rpc.Trace(ctx))
			_, err := rpc.Call(ctx, c, proto.MemSetSoft, proto.SetSoft{})
			return proto.SystemPrompt{}, fmt.Errorf("cannot be kept: %w", err)
		})
		rpc.Handle(s, proto.SysGet, func(ctx context.Context, _ proto.GetPrompt) (proto.SystemPrompt, error) {
			_, err := call(ctx, c)
			return proto.SystemPrompt{}, err
		})
	})
	nc := dial(t, near)
	send(t, nc, `{"type":"set_soft_memory","meta":{"trace":"abc-1","deadline_ms":60000}}`)
	want := `{"type":"error","message":"sys set_soft_memory: cannot be kept: mem set_soft: no space left on device","code":"internal","service":"mem"}`
	if got := receive(t, nc); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(traces) != 2 || traces[0] != "abc-1" || traces[1] != "abc-1" {
		t.Errorf("traces = %q", traces)
	}
	send(t, nc, `{"type":"get"}`)
	within(t, "the far handler", b.begun)
	nc.Close()
	within(t, "cancellation over two hops", b.ended)
	nc = dial(t, near)
	send(t, nc, `{"type":"get","meta":{"deadline_ms":20}}`)
	if got := receive(t, nc); !strings.Contains(got, `"code":"timeout"`) {
		t.Errorf("got %s", got)
	}
}
