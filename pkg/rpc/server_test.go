package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"reflect"
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

// sink collects streamed text.
type sink struct{ bytes.Buffer }

func (s *sink) Text(delta []byte) error { s.Write(delta); return nil }
func (s *sink) Flush() error            { return nil }

func infer(ctx context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
	for _, delta := range []string{"one ", "two ", "<tool_call>"} {
		if err := out.Text([]byte(delta)); err != nil {
			return proto.Text{}, err
		}
	}
	return proto.Text{Content: "one two <tool_call>"}, nil
}

func TestCall(t *testing.T) {
	path, _ := rpctest.New(t, "mem", "", func(s *rpc.Server) {
		rpc.Handle(s, proto.MemGetHistory, func(_ context.Context, req proto.GetHistory) (proto.History, error) {
			if req.ChannelID == "" {
				return proto.History{}, &proto.Error{Code: proto.CodeInvalid, Message: "channel_id required"}
			}
			return proto.History{Messages: proto.Raw(`[{"role":"user","content":"` + strings.Repeat("x", req.Limit) + `"}]`)}, nil
		})
	})
	c := rpctest.Client(t, "mem", path)
	for _, size := range []int{1, 5000, 3 << 20} {
		h, err := rpc.Call(t.Context(), c, proto.MemGetHistory, proto.GetHistory{ChannelID: "a", Limit: size})
		if err != nil || len(h.Messages) != size+30 {
			t.Fatalf("size %d: got %d bytes, error %v", size, len(h.Messages), err)
		}
	}
	_, err := rpc.Call(t.Context(), c, proto.MemGetHistory, proto.GetHistory{})
	if !errors.Is(err, proto.ErrInvalid) || err.Error() != "channel_id required" {
		t.Errorf("error = %v", err)
	}
	_, err = rpc.Call(t.Context(), c, proto.MemGetHistory, proto.GetHistory{ChannelID: "a", Limit: 17 << 20})
	if !errors.Is(err, proto.ErrTooLarge) {
		t.Errorf("an answer above the limit: error = %v", err)
	}
}

func TestCallText(t *testing.T) {
	path, _ := rpctest.New(t, "rtr", "", func(s *rpc.Server) { rpc.HandleText(s, proto.RtrInfer, infer) })
	c := rpctest.Client(t, "rtr", path)
	for _, stream := range []bool{true, false} {
		var got sink
		text, err := rpc.CallText(t.Context(), c, proto.RtrInfer, proto.Infer{Stream: stream}, &got)
		if err != nil || text.Content != "one two <tool_call>" {
			t.Fatalf("stream %v: %q, %v", stream, text.Content, err)
		}
		if stream != (got.String() == text.Content) {
			t.Errorf("stream %v: streamed %q", stream, got.String())
		}
	}
}

func TestPing(t *testing.T) {
	path, _ := rpctest.New(t, "sys", "", func(*rpc.Server) {})
	nc := rpctest.Dial(t, path)
	for _, ping := range []string{`{"type":"ping"}`, ` { "type" : "ping" } `, `{"type":"ping","meta":{"trace":"a"}}`} {
		nc.Send(ping)
		if got := nc.Receive(); !strings.HasPrefix(got, `{"type":"pong","service":"sys","version":`) {
			t.Errorf("%s: %s", ping, got)
		}
	}
}

// serveOn serves s on a new socket until the test ends.
func serveOn(t *testing.T, s *rpc.Server) (path string) {
	t.Helper()
	path, _ = rpctest.Serve(t, s, "")
	return path
}

// blocking registers get_soft, which returns when b is released.
func blocking(b *rpctest.Block) func(*rpc.Server) {
	return func(s *rpc.Server) {
		rpc.Handle(s, proto.MemGetSoft, func(ctx context.Context, _ proto.GetSoft) (proto.SoftMemory, error) {
			return proto.SoftMemory{Content: "released"}, b.Wait(ctx)
		})
	}
}

const (
	getSoft    = `{"type":"get_soft"}`
	pingPacket = `{"type":"ping"}`
	pongPacket = `{"type":"pong","service":"mem","version":"` + rpc.Version + `+dev","proto":`
)

// until waits for a condition on the server.
func until(t *testing.T, condition func() bool) {
	t.Helper()
	zinotest.Eventually(t, "the state of the server", condition)
}

// finishing is a server with work in BeforeShutdown.
type finishing struct {
	begun, release chan struct{}
	done           chan error
}

func newFinishing(s *rpc.Server) *finishing {
	f := &finishing{make(chan struct{}), make(chan struct{}), make(chan error, 1)}
	s.BeforeShutdown(func(context.Context) {
		close(f.begun)
		<-f.release
	})
	return f
}

// shutdown starts to shut s down, and returns when BeforeShutdown has begun.
func (f *finishing) shutdown(t *testing.T, s *rpc.Server) {
	t.Helper()
	go func() { f.done <- s.Shutdown(context.Background()) }()
	zinotest.Receive(t, "BeforeShutdown", f.begun)
}

// end lets the work end, and waits until an idle connection is closed.
func (f *finishing) end(t *testing.T, kept *rpctest.Conn) {
	t.Helper()
	close(f.release)
	if err := <-f.done; err != nil {
		t.Error(err)
	}
	if n, err := kept.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("an idle connection is not closed: %d, %v", n, err)
	}
}

// TestBeforeShutdown: until the work is done, old and new connections are
// answered.
func TestBeforeShutdown(t *testing.T) {
	var f *finishing
	path, s := rpctest.New(t, "mem", "", func(s *rpc.Server) { f = newFinishing(s) })
	kept := rpctest.Dial(t, path)
	kept.Send(pingPacket)
	kept.Receive()
	f.shutdown(t, s)
	for what, nc := range map[string]*rpctest.Conn{"an old connection": kept, "a new one": rpctest.Dial(t, path)} {
		if nc.Send(pingPacket); nc.Receive() == "" {
			t.Errorf("%s was hung up on", what)
		}
	}
	f.end(t, kept)
}

// TestBeforeShutdownKeptOpen: until the work is done, old connections are
// answered; new ones wait for the next process.
func TestBeforeShutdownKeptOpen(t *testing.T) {
	socket := zinotest.Listen(t, "")
	first, second := instance(t, socket), instance(t, socket)
	first.server.KeptOpen()
	f := newFinishing(first.server)
	served := make(chan error, 2)
	go func() { served <- first.server.Serve(first.l) }()
	kept := rpctest.Dial(t, socket.Addr().String())
	kept.Send(pingPacket)
	kept.Receive()
	f.shutdown(t, first.server)
	late := rpctest.Dial(t, socket.Addr().String())
	late.Send(pingPacket)
	if kept.Send(pingPacket); kept.Receive() == "" {
		t.Error("an old connection was closed")
	}
	f.end(t, kept)
	if err := <-served; err != nil {
		t.Error(err)
	}
	go func() { served <- second.server.Serve(second.l) }()
	if late.Receive() == "" {
		t.Error("a connection in the queue was not answered by the next process")
	}
	if err := errors.Join(second.server.Shutdown(t.Context()), <-served); err != nil {
		t.Error(err)
	}
}

// long is a limit that no test reaches.
const long = time.Hour

// retires waits until an unused server has retired.
func retires(t *testing.T, s *rpc.Server) {
	t.Helper()
	until(t, func() bool { return s.Retire(time.Nanosecond) == 0 })
}

// counting registers handlers on a server that counts requests of this process.
func counting(register func(*rpc.Server)) func(*rpc.Server) {
	return func(s *rpc.Server) {
		s.CountOwn()
		register(s)
	}
}

// TestRetireNot: a server in use, or used recently, does not retire.
func TestRetireNot(t *testing.T) {
	b := rpctest.NewBlock()
	path, s := rpctest.New(t, "mem", "", counting(blocking(b)))
	if wait := s.Retire(long); wait <= 0 || wait > long {
		t.Errorf("a new server: %v", wait)
	}
	nc := rpctest.Dial(t, path)
	nc.Send(getSoft)
	b.Begun(t)
	if wait := s.Retire(time.Nanosecond); wait != time.Nanosecond {
		t.Errorf("with a request: %v", wait)
	}
	b.Release()
	nc.Receive()
	if wait := s.Retire(long); wait <= 0 || wait > long {
		t.Errorf("just after a request: %v", wait)
	}
	nc.Send(pingPacket)
	nc.Receive()
	rpctest.Dial(t, path).Send(pingPacket)
	retires(t, s)
}

// TestRetireKeepWhile: work that is not a request delays Retire.
func TestRetireKeepWhile(t *testing.T) {
	var working atomic.Bool
	working.Store(true)
	_, s := rpctest.New(t, "mem", "", func(s *rpc.Server) { s.KeepWhile(working.Load) })
	if wait := s.Retire(time.Nanosecond); wait != time.Nanosecond {
		t.Errorf("with work: %v", wait)
	}
	working.Store(false)
	retires(t, s)
}

// TestRetireOwn: requests of the process itself do not count as use.
func TestRetireOwn(t *testing.T) {
	b := rpctest.NewBlock()
	path, s := rpctest.New(t, "mem", "", blocking(b))
	rpctest.Dial(t, path).Send(getSoft)
	b.Begun(t)
	defer b.Release()
	retires(t, s)
}

// TestRetirePartial: an incomplete request counts as use.
func TestRetirePartial(t *testing.T) {
	path, s := rpctest.New(t, "mem", "", counting(func(*rpc.Server) {}))
	nc := rpctest.Dial(t, path)
	whole := rpctest.Frame(pingPacket)
	nc.Write(whole[:3])
	until(t, func() bool { return s.Retire(time.Nanosecond) == time.Nanosecond })
	nc.Write(whole[3:])
	nc.Receive()
	retires(t, s)
}

// TestRetireQueue: connections after Retire wait for the next process.
func TestRetireQueue(t *testing.T) {
	socket := zinotest.Listen(t, "")
	first, second := instance(t, socket), instance(t, socket)
	served := make(chan error, 2)
	go func() { served <- first.server.Serve(first.l) }()
	kept := rpctest.Dial(t, socket.Addr().String())
	kept.Send(pingPacket)
	kept.Receive()
	retires(t, first.server)
	late := rpctest.Dial(t, socket.Addr().String())
	late.Send(pingPacket)
	zinotest.Must(t, errors.Join(first.server.Shutdown(t.Context()), <-served))
	if n, err := kept.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("an idle connection is not closed: %d, %v", n, err)
	}
	go func() { served <- second.server.Serve(second.l) }()
	if got := late.Receive(); got == "" {
		t.Error("a connection in the queue was not answered by the next process")
	}
	zinotest.Must(t, errors.Join(second.server.Shutdown(t.Context()), <-served))
}

// life is one server on a shared socket, as a process would be.
type life struct {
	server *rpc.Server
	l      net.Listener
}

func instance(t *testing.T, held net.Listener) life {
	t.Helper()
	f, err := held.(*net.UnixListener).File()
	zinotest.Must(t, err)
	defer f.Close()
	l, err := net.FileListener(f)
	zinotest.Must(t, err)
	s := rpc.NewServer("mem", slog.New(slog.DiscardHandler))
	s.CountOwn()
	rpc.Handle(s, proto.MemGetSoft, func(context.Context, proto.GetSoft) (proto.SoftMemory, error) {
		return proto.SoftMemory{Content: "here"}, nil
	})
	return life{s, l}
}

// TestRetireUnderUse: servers retire and are replaced while requests arrive at random
// moments: each is answered, on new connections and on idle ones.
func TestRetireUnderUse(t *testing.T) {
	const limit = 2 * time.Millisecond
	underUse(t, limit, func(l life, done <-chan struct{}) (last bool) {
		for wait := limit; wait > 0 && !last; wait = l.server.Retire(limit) {
			select {
			case <-time.After(wait):
			case <-done:
				last = true
			}
		}
		return last
	})
}

// lives runs servers one after the other and returns their number. run returns when a
// server must shut down, and whether it is the last one.
func lives(t *testing.T, held net.Listener, run func(life) (last bool)) (n int) {
	for {
		n++
		life := instance(t, held)
		served := make(chan error, 1)
		go func() { served <- life.server.Serve(life.l) }()
		last := run(life)
		if err := errors.Join(life.server.Shutdown(context.Background()), <-served); err != nil {
			t.Error(err)
		}
		if last {
			return n
		}
	}
}

// underUse makes requests from four goroutines while servers follow each other.
func underUse(t *testing.T, limit time.Duration, run func(l life, done <-chan struct{}) (last bool)) {
	t.Helper()
	held := zinotest.Listen(t, "")
	done, ended := make(chan struct{}), make(chan int)
	go func() { ended <- lives(t, held, func(l life) bool { return run(l, done) }) }()
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() { use(t, held.Addr().String(), limit) })
	}
	users.Wait()
	close(done)
	if n := <-ended; n < 3 {
		t.Errorf("only %d servers: too few for the test", n)
	}
}

// use makes 50 requests at moments around the limit.
func use(t *testing.T, path string, limit time.Duration) {
	c := rpctest.Client(t, "mem", path)
	for i := range 50 {
		<-time.After(limit/2 + rand.N(limit))
		if i%2 > 0 {
			reply, err := rpc.Call(t.Context(), c, proto.MemGetSoft, proto.GetSoft{})
			if err != nil || reply.Content != "here" {
				t.Errorf("request %d on a kept connection: %v", i, err)
			}
			continue
		}
		if err := ask(path); err != nil {
			t.Errorf("request %d on a new connection: %v", i, err)
		}
	}
}

// ask makes one request without retries.
func ask(path string) error {
	nc, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer nc.Close()
	if rpctest.NewConn(nil, nc).Ask(getSoft) == "" {
		return errors.New("no answer")
	}
	return nil
}

// TestDraining: a handler that only waits returns when Shutdown begins.
func TestDraining(t *testing.T) {
	begun := make(chan struct{})
	path, s := rpctest.New(t, "mem", "", func(s *rpc.Server) {
		rpc.Handle(s, proto.MemGetSoft, func(context.Context, proto.GetSoft) (proto.SoftMemory, error) {
			close(begun)
			<-s.Draining()
			return proto.SoftMemory{Content: "draining"}, nil
		})
	})
	nc := rpctest.Dial(t, path)
	nc.Send(getSoft)
	zinotest.Receive(t, "the handler", begun)
	for range 2 {
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got := nc.Receive(); got != `{"type":"soft_memory","content":"draining"}` {
		t.Errorf("got %s", got)
	}
}

// TestShutdownFresh: the first request of a connection that was accepted before
// the drain is answered; the wait for it is limited.
func TestShutdownFresh(t *testing.T) {
	for _, asks := range []bool{true, false} {
		path, s := rpctest.New(t, "mem", "", func(s *rpc.Server) {
			if asks {
				s.SetFresh(long)
			} else {
				s.SetFresh(time.Millisecond)
			}
		})
		nc := rpctest.Dial(t, path)
		receivePong(t, path) // earlier connections have been accepted now
		stopped := make(chan error, 1)
		go func() { stopped <- s.Shutdown(context.Background()) }()
		zinotest.Receive(t, "the drain", s.Draining())
		if asks {
			nc.Send(pingPacket)
			if nc.Receive() == "" {
				t.Error("the first request is not answered")
			}
		}
		if got := nc.Receive(); got != "" {
			t.Errorf("after the error: %s", got)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}
}

func receivePong(t *testing.T, path string) {
	t.Helper()
	nc := rpctest.Dial(t, path)
	nc.Send(pingPacket)
	nc.Receive()
}

// TestShutdownUnderUse: servers are shut down at random moments during requests, some of
// them without retries: each is answered.
func TestShutdownUnderUse(t *testing.T) {
	const limit = 2 * time.Millisecond
	underUse(t, limit, func(l life, done <-chan struct{}) (last bool) {
		l.server.SetFresh(20 * time.Second) // every connection sends a request
		select {
		case <-time.After(rand.N(limit)):
			return false
		case <-done:
			return true
		}
	})
}

// TestRetireShutdown: concurrent calls of Retire and Shutdown do not deadlock, and the
// server stays shut down.
func TestRetireShutdown(t *testing.T) {
	for range 200 {
		var working atomic.Bool
		_, s := rpctest.New(t, "mem", "", func(s *rpc.Server) { s.KeepWhile(working.Load) })
		var both sync.WaitGroup
		both.Go(func() {
			for range 20 {
				working.Store(!working.Load()) // so that Retire looks twice and continues
				s.Retire(time.Nanosecond)
			}
		})
		both.Go(func() {
			if err := s.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
	}
}

// TestContents: the log has the contents of requests and replies at DEBUG only,
// bounded and without the environments of the caller and its MCP servers; the line of a request has its type
// and the handler's notes.
func TestContents(t *testing.T) {
	for level, want := range map[slog.Level]int{slog.LevelDebug: 1, slog.LevelInfo: 0} {
		log := new(zinotest.Buffer)
		s := rpc.NewServer("daemon", slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level})))
		rpc.HandleText(s, proto.DaemonChat, func(ctx context.Context, req proto.Chat, _ *rpc.Out) (proto.Text, error) {
			rpc.Note(ctx, slog.String("session", req.SessionID))
			return proto.Text{Content: "marked answer"}, nil
		})
		socket := serveOn(t, s)
		c := &rpc.Client{Service: "daemon", Path: socket}
		long := "head mark " + strings.Repeat("x", 1<<20) + " tail mark"
		for _, req := range []proto.Chat{
			{Message: "marked question", SessionID: "s-1", Env: map[string]string{"HIDDEN": "marked variable"}, MCPServers: proto.Raw(`{"mcpServers":{"a":{"env":{"B":"marked variable"}}}}`)},
			{Message: long},
		} {
			if _, err := rpc.CallText(t.Context(), c, proto.DaemonChat, req, nil); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
		if err := s.Shutdown(t.Context()); err != nil { // the last line is logged after the answer
			t.Fatal(err)
		}
		text := log.String()
		for mark, n := range map[string]int{
			"marked question": want, "marked answer": 2 * want, "head mark": want, "tail mark": want, "bytes left out": want, "marked variable": 0,
		} {
			if got := strings.Count(text, mark); got != n {
				t.Errorf("%v: %q occurs in the log %d times, want %d", level, mark, got, n)
			}
		}
		if len(text) > 64<<10 {
			t.Errorf("%v: %d bytes", level, len(text))
		}
		if !strings.Contains(text, "msg=request type=chat ") || !strings.Contains(text, " session=s-1") {
			t.Errorf("%v: no type or session: %s", level, text)
		}
	}
}

// TestHungUpEvents checks that a request that its caller ends by hanging up is not logged or
// counted as a failure.
func TestHungUpEvents(t *testing.T) {
	log := new(zinotest.Buffer)
	s := rpc.NewServer("mem", slog.New(slog.NewTextHandler(log, nil)))
	rpc.HandleEvents(s, proto.MemHoldSession, func(ctx context.Context, req proto.HoldSession, out *rpc.Out) (proto.SessionName, error) {
		err := out.Event("held", proto.SessionHeld{SessionID: req.SessionID})
		<-ctx.Done()
		return proto.SessionName{SessionID: req.SessionID}, err
	})
	c := &rpc.Client{Service: "mem", Path: serveOn(t, s)}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := rpc.CallEvents(ctx, c, proto.MemHoldSession, proto.HoldSession{SessionID: "s"}, func(string, []byte) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	log.WaitFor(t, "type=hold_session")
	if log.Contains("error=") {
		t.Errorf("the log has an error: %s", log)
	}
	other := &rpc.Client{Service: "mem", Path: c.Path}
	defer other.Close()
	stats, err := rpc.Call(t.Context(), other, proto.GetStats, proto.StatsRequest{})
	zinotest.Must(t, err)
	zinotest.Equal(t, "failures", stats.Errors, int64(0))
}

func TestVersionIsInTheChangelog(t *testing.T) {
	changes, err := os.ReadFile("../../CHANGELOG.md")
	zinotest.Must(t, err)
	if heading := "\n## [" + rpc.Version + "]"; !strings.Contains(string(changes), heading) {
		t.Errorf("CHANGELOG.md has no section %q", heading[1:])
	}
}

// TestDescriptionOf compares the descriptions with those of the general codec.
func TestDescriptionOf(t *testing.T) {
	var all []proto.Description
	zinotest.Must(t, json.Unmarshal(proto.Schema, &all))
	for _, want := range all {
		got, err := rpc.DescriptionOf(want.Service)
		if err != nil || !reflect.DeepEqual(got, want) || got.Proto != proto.Version || len(got.Methods) < 3 {
			t.Errorf("%s: %v, %d methods, want %d", want.Service, err, len(got.Methods), len(want.Methods))
		}
	}
	d, err := rpc.DescriptionOf("nope")
	if err != nil || d.Service != "nope" || d.Methods == nil || len(d.Methods) != 0 {
		t.Errorf("an unknown service: %+v, %v", d, err)
	}
}
