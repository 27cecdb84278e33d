package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

func soft(content string) func(*rpc.Server) {
	return func(s *rpc.Server) {
		rpc.Handle(s, proto.MemGetSoft, func(context.Context, proto.GetSoft) (proto.SoftMemory, error) {
			return proto.SoftMemory{Content: content}, nil
		})
	}
}

func call(ctx context.Context, c *rpc.Client) (string, error) {
	rep, err := rpc.Call(ctx, c, proto.MemGetSoft, proto.GetSoft{})
	return rep.Content, err
}

func TestConnectionsAreKept(t *testing.T) {
	path, _ := rpctest.New(t, "mem", "", soft("x"))
	c := rpctest.Client(t, "mem", path)
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

// TestRestartedServer: an idle connection to a server that has ended is not used
// again.
func TestRestartedServer(t *testing.T) {
	path := rpctest.Play(t, "", func(n int, nc *rpctest.Conn) {
		if nc.Receive() != "" {
			nc.Send(fmt.Sprintf(`{"type":"soft_memory","content":"%d"}`, n))
		}
	})
	c := rpctest.Client(t, "mem", path)
	for _, want := range []string{"0", "1", "2"} {
		if got, err := call(t.Context(), c); got != want || err != nil {
			t.Fatalf("got %q, %v, want %s", got, err, want)
		}
	}
}

// TestSentAgain: a request that the peer did not read is sent again.
func TestSentAgain(t *testing.T) {
	path := rpctest.Play(t, "", func(n int, nc *rpctest.Conn) {
		if n == 0 {
			io.ReadFull(nc, make([]byte, 1)) // the rest stays unread: the client sees a reset
			return
		}
		if nc.Receive() != "" {
			nc.Send(`{"type":"soft_memory","content":"second"}`)
		}
	})
	c := rpctest.Client(t, "mem", path)
	if got, err := call(t.Context(), c); got != "second" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestSentAgainOnNewConnection: the second try does not use another kept connection,
// which the same peer may be closing too.
func TestSentAgainOnNewConnection(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	path := rpctest.Play(t, "", func(n int, nc *rpctest.Conn) {
		nc.Receive()
		if n < 2 {
			both.Done()
			both.Wait()
		}
		nc.Send(fmt.Sprintf(`{"type":"soft_memory","content":"%d"}`, n))
		io.ReadFull(nc, make([]byte, 1)) // the rest stays unread
	})
	c := rpctest.Client(t, "mem", path)
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			_, err := call(t.Context(), c)
			zinotest.Must(t, err)
		})
	}
	calls.Wait()
	if got, err := call(t.Context(), c); got != "2" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestNeverRead: a peer that closes the second connection unread too hung up.
func TestNeverRead(t *testing.T) {
	path := rpctest.Play(t, "", func(_ int, nc *rpctest.Conn) { io.ReadFull(nc, make([]byte, 1)) })
	_, err := call(t.Context(), rpctest.Client(t, "mem", path))
	zinotest.Error(t, err, proto.ErrUnavailable, "mem hung up before its answer was complete")
	zinotest.Error(t, err, rpc.ErrHungUp)
}

// TestDeadlineWhileConnecting: a deadline that passes during the dial is a timeout,
// not a peer that cannot be reached.
func TestDeadlineWhileConnecting(t *testing.T) {
	c := rpctest.Client(t, "mem", rpctest.Play(t, "", func(int, *rpctest.Conn) {}))
	for i := range 1000 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Microsecond/4)
		if _, err := call(ctx, c); errors.Is(err, rpc.ErrConnect) {
			t.Errorf("deadline %d: %v", i, err)
		}
		cancel()
	}
}

// TestNotSentAgain: a peer that read the request may have acted on it.
func TestNotSentAgain(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing": "", "half a header": "\x00\x00", "half a packet": "\x00\x00\x00\x0f{\"ty", "a chunk": string(rpctest.Frame(`{"type":"keepalive"}`)),
	} {
		var mu sync.Mutex
		received := 0
		path := rpctest.Play(t, "", func(_ int, nc *rpctest.Conn) {
			if nc.Receive() != "" {
				mu.Lock()
				received++
				mu.Unlock()
				nc.Write(answer)
			}
		})
		c := &rpc.Client{Service: "mem", Path: path}
		_, err := call(t.Context(), c)
		mu.Lock()
		if received != 1 || !errors.Is(err, proto.ErrUnavailable) || !errors.Is(err, rpc.ErrHungUp) || err.Error() != "mem hung up before its answer was complete" {
			t.Errorf("%s: received %d times, error %v", name, received, err)
		}
		mu.Unlock()
		c.Close()
	}
}

// TestSilence: a peer that sends keepalives has the idle timeout; others, which
// may implement the specification only, have more time.
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
			path := rpctest.Play(t, "", func(_ int, nc *rpctest.Conn) {
				if request := nc.Receive(); request == "" || strings.Contains(request, `"ping"`) {
					nc.Send(test.pong)
					return
				}
				if test.first != "" {
					nc.Send(test.first)
				}
				io.Copy(io.Discard, nc)
			})
			c := rpctest.Client(t, "mem", path)
			c.Silence = 30 * time.Millisecond
			c.Slow = 60 * time.Millisecond
			if _, err := call(t.Context(), c); !errors.Is(err, proto.ErrTimeout) || err.Error() != test.want {
				t.Errorf("error = %v, want %s", err, test.want)
			}
		})
	}
}

// TestSpecificationOnly: a peer without keepalives may answer after the idle
// timeout, also if it does not answer pings while it works.
func TestSpecificationOnly(t *testing.T) {
	for _, pong := range []string{`{"type":"pong"}`, ""} {
		asked := make(chan bool, 1)
		path := rpctest.Play(t, "", func(_ int, nc *rpctest.Conn) {
			request := nc.Receive()
			if strings.Contains(request, `"ping"`) {
				if pong != "" {
					nc.Send(pong)
				}
				asked <- true // the limit has passed
				return
			}
			<-asked
			nc.Send(`{"type":"soft_memory","content":"late"}`)
		})
		c := &rpc.Client{Service: "mem", Path: path, Silence: 30 * time.Millisecond}
		if got, err := call(t.Context(), c); got != "late" || err != nil {
			t.Errorf("pong %q: got %q, %v", pong, got, err)
		}
		c.Close()
	}
}

// TestFrozenPeer: a peer that has sent keepalives and answers no pings any more
// has the idle timeout.
func TestFrozenPeer(t *testing.T) {
	var frozen atomic.Bool
	path := rpctest.Play(t, "", func(_ int, nc *rpctest.Conn) {
		for {
			request := nc.Receive()
			switch {
			case request == "":
				return
			case frozen.Load():
			case strings.Contains(request, `"ping"`):
				nc.Send(`{"type":"pong","proto":1}`)
				frozen.Store(true)
			default:
				nc.Send(`{"type":"soft_memory","content":"x"}`)
			}
		}
	})
	c := rpctest.Client(t, "mem", path)
	c.Silence = 30 * time.Millisecond
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
	play := func(_ int, nc *rpctest.Conn) {
		n, _ := io.Copy(io.Discard, nc)
		read <- n
	}
	c := &rpc.Client{Service: "mem"}
	uid := os.Getuid()
	if uid == 0 {
		zinotest.AsUser(t, foreign, func() { c.Path = rpctest.Play(t, "", play) })
		uid = foreign
	} else {
		c.Path = rpctest.Play(t, "", play)
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

// TestWrongReply: an answer of another method's type is an error, and the
// connection is closed. One without a type is accepted.
func TestWrongReply(t *testing.T) {
	for answer, want := range map[string]string{
		`{"type":"weird"}`:                     `mem answered with a packet of type "weird": "soft_memory" was expected`,
		`{"type":"ok","content":"no"}`:         `mem answered with a packet of type "ok": "soft_memory" was expected`,
		`{"content":"x"}`:                      "",
		`{"type":null,"content":"x"}`:          "",
		`{"type":"soft_memory","content":"x"}`: "",
	} {
		t.Run(answer, func(t *testing.T) {
			path := rpctest.Play(t, "", func(_ int, nc *rpctest.Conn) {
				nc.Read(make([]byte, 4096))
				nc.Send(answer)
			})
			c := rpctest.Client(t, "mem", path)
			got, err := call(t.Context(), c)
			if said := fmt.Sprint(err); want != "" && (said != want || c.Idle() != 0) || want == "" && (err != nil || got != "x") {
				t.Errorf("got %q, %v, want %q; %d connections are kept", got, err, want, c.Idle())
			}
		})
	}
}

// TestKeepaliveBreaksSilence: a peer that sends keepalives may take longer than
// the idle timeout.
func TestKeepaliveBreaksSilence(t *testing.T) {
	t.Parallel() // it takes 2.5 s: a shorter timeout fails on busy hosts
	b := rpctest.NewBlock()
	path, _ := rpctest.New(t, "mem", "", func(s *rpc.Server) {
		s.SetLimits(time.Minute, 5*time.Millisecond)
		blocking(b)(s)
	})
	c := rpctest.Client(t, "mem", path)
	c.Silence = 2 * time.Second
	timer := time.AfterFunc(2500*time.Millisecond, func() { b.Release() })
	defer timer.Stop()
	if got, err := call(t.Context(), c); got != "released" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestCancelHangsUp(t *testing.T) {
	b := rpctest.NewBlock()
	path, _ := rpctest.New(t, "mem", "", blocking(b))
	c := rpctest.Client(t, "mem", path)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := call(ctx, c); done <- err }()
	b.Begun(t)
	cancel()
	b.Canceled(t)
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
	path, _ := rpctest.New(t, "mem", "", func(s *rpc.Server) {
		rpc.Handle(s, proto.MemGetSoft, func(ctx context.Context, _ proto.GetSoft) (proto.SoftMemory, error) {
			_, err := call(ctx, gone)
			return proto.SoftMemory{}, err
		})
	})
	c := rpctest.Client(t, "mem", path)
	_, err = call(t.Context(), c)
	if errors.Is(err, rpc.ErrConnect) || !errors.Is(err, proto.ErrUnavailable) || !strings.HasPrefix(err.Error(), "Could not connect to rtr: ") {
		t.Errorf("behind a hop: error = %v", err)
	}
}

// TestTwoHops passes errors, trace, deadline and cancellation over a relay.
func TestTwoHops(t *testing.T) {
	var traces []string
	b := rpctest.NewBlock()
	far, _ := rpctest.New(t, "mem", "", func(s *rpc.Server) {
		blocking(b)(s)
		rpc.Handle(s, proto.MemSetSoft, func(ctx context.Context, _ proto.SetSoft) (proto.Empty, error) {
			deadline, ok := ctx.Deadline()
			if left := time.Until(deadline); !ok || left <= 0 || left > time.Minute {
				t.Errorf("time left: %v, %v", left, ok)
			}
			traces = append(traces, rpc.Trace(ctx))
			return proto.Empty{}, errors.New("no space left on device")
		})
	})
	c := rpctest.Client(t, "mem", far)
	near, _ := rpctest.New(t, "sys", "", func(s *rpc.Server) {
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
	nc := rpctest.Dial(t, near)
	nc.Send(`{"type":"set_soft_memory","meta":{"trace":"abc-1","deadline_ms":60000}}`)
	want := `{"type":"error","message":"sys set_soft_memory: cannot be kept: mem set_soft: no space left on device","code":"internal","service":"mem"}`
	if got := nc.Receive(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(traces) != 2 || traces[0] != "abc-1" || traces[1] != "abc-1" {
		t.Errorf("traces = %q", traces)
	}
	nc.Send(`{"type":"get"}`)
	b.Begun(t)
	nc.Close()
	b.Canceled(t)
	nc = rpctest.Dial(t, near)
	nc.Send(`{"type":"get","meta":{"deadline_ms":20}}`)
	if got := nc.Receive(); !strings.Contains(got, `"code":"timeout"`) {
		t.Errorf("got %s", got)
	}
}

// TestBound asks for a socket that is bound, one whose process is gone, and none, and
// checks that the server accepts no connection for that.
func TestBound(t *testing.T) {
	path, _ := rpctest.New(t, "repl", "", func(*rpc.Server) {})
	c := rpctest.Client(t, "repl", path)
	if !c.Bound() {
		t.Error("a socket with a server is not bound")
	}
	if stats, err := rpc.Call(t.Context(), c, proto.GetStats, proto.StatsRequest{}); err != nil || stats.Connections != 1 {
		t.Errorf("%d connections, %v; want that of stats", stats.Connections, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(zinotest.Dir(t), "old")})
	zinotest.Must(t, err)
	l.SetUnlinkOnClose(false)
	old := rpctest.Client(t, "repl", l.Addr().String())
	zinotest.Must(t, l.Close())
	if old.Bound() {
		t.Error("a socket without a process is bound")
	}
	if (&rpc.Client{Service: "repl", Path: path + ".none"}).Bound() {
		t.Error("a path without a file is bound")
	}
}
