package rpc_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

// long is a limit that no test reaches.
const long = time.Hour

// retires waits until a server that nobody uses any more has retired.
func retires(t *testing.T, s *rpc.Server) {
	t.Helper()
	until(t, func() bool { return s.Retire(time.Nanosecond) == 0 })
}

// counting is a server that takes this process for any other.
func counting(register func(*rpc.Server)) func(*rpc.Server) {
	return func(s *rpc.Server) {
		s.CountOwn()
		register(s)
	}
}

// TestRetireNot goes on where something is being done, or was just now.
func TestRetireNot(t *testing.T) {
	b := newBlocking()
	path, s := start(t, "mem", counting(b.register))
	if wait := s.Retire(long); wait <= 0 || wait > long {
		t.Errorf("a server that has just begun: %v", wait)
	}
	nc := dial(t, path)
	send(t, nc, getSoft)
	within(t, "the handler", b.begun)
	if wait := s.Retire(time.Nanosecond); wait != time.Nanosecond {
		t.Errorf("with a request: %v", wait)
	}
	close(b.release)
	receive(t, nc)
	if wait := s.Retire(long); wait <= 0 || wait > long {
		t.Errorf("just after a request: %v", wait)
	}
	send(t, nc, pingPacket)
	receive(t, nc)
	send(t, dial(t, path), pingPacket)
	retires(t, s)
}

// TestRetireKeepWhile waits for what is no request.
func TestRetireKeepWhile(t *testing.T) {
	var working atomic.Bool
	working.Store(true)
	_, s := start(t, "mem", func(s *rpc.Server) { s.KeepWhile(working.Load) })
	if wait := s.Retire(time.Nanosecond); wait != time.Nanosecond {
		t.Errorf("it has something to do: %v", wait)
	}
	working.Store(false)
	retires(t, s)
}

// TestRetireOwn does not take its own questions for use.
func TestRetireOwn(t *testing.T) {
	b := newBlocking()
	path, s := start(t, "mem", b.register)
	send(t, dial(t, path), getSoft)
	within(t, "the handler", b.begun)
	defer close(b.release)
	retires(t, s)
}

// TestRetirePartial is a request of which some has come.
func TestRetirePartial(t *testing.T) {
	path, s := start(t, "mem", counting(func(*rpc.Server) {}))
	nc := dial(t, path)
	whole := frame(pingPacket)
	if _, err := nc.Write(whole[:3]); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return s.Retire(time.Nanosecond) == time.Nanosecond })
	if _, err := nc.Write(whole[3:]); err != nil {
		t.Fatal(err)
	}
	receive(t, nc)
	retires(t, s)
}

// TestRetireQueue leaves in the queue who comes when it is too late, for the
// process that is next.
func TestRetireQueue(t *testing.T) {
	socket := held(t)
	first, second := instance(t, socket), instance(t, socket)
	served := make(chan error, 2)
	go func() { served <- first.server.Serve(first.l) }()
	kept := dial(t, socket.Addr().String())
	send(t, kept, pingPacket)
	receive(t, kept)
	retires(t, first.server)
	late := dial(t, socket.Addr().String())
	send(t, late, pingPacket)
	if err := errors.Join(first.server.Shutdown(t.Context()), <-served); err != nil {
		t.Fatal(err)
	}
	if n, err := kept.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a kept connection is not closed: %d, %v", n, err)
	}
	go func() { served <- second.server.Serve(second.l) }()
	if got := receive(t, late); got == "" {
		t.Error("who came late was hung up on")
	}
	if err := errors.Join(second.server.Shutdown(t.Context()), <-served); err != nil {
		t.Fatal(err)
	}
}

// life is one process's hold on a socket.
type life struct {
	server *rpc.Server
	l      net.Listener
}

// held is a socket that somebody else holds open for the processes that serve it.
func held(t *testing.T) net.Listener {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		os.RemoveAll(dir)
	})
	return l
}

func instance(t *testing.T, held net.Listener) life {
	t.Helper()
	f, err := held.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	s := rpc.NewServer("mem", slog.New(slog.DiscardHandler))
	s.CountOwn()
	rpc.Handle(s, proto.MemGetSoft, func(context.Context, proto.GetSoft) (proto.SoftMemory, error) {
		return proto.SoftMemory{Content: "here"}, nil
	})
	return life{s, l}
}

// TestRetireUnderUse has lives of a service follow each other as fast as they
// can, while requests come at random moments: each is answered, on new
// connections by bytes and on kept ones by a client.
func TestRetireUnderUse(t *testing.T) {
	dir, err := os.MkdirTemp("", "z")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	held, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	const limit = 2 * time.Millisecond
	done, ended := make(chan struct{}), make(chan int)
	go func() { ended <- lives(t, held, limit, done) }()
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() { use(t, held.Addr().String(), limit) })
	}
	users.Wait()
	close(done)
	if n := <-ended; n < 3 {
		t.Errorf("only %d lives: the test shows nothing", n)
	}
}

// lives runs one life after the other until done and counts them.
func lives(t *testing.T, held net.Listener, limit time.Duration, done <-chan struct{}) (n int) {
	for {
		n++
		life := instance(t, held)
		served := make(chan error, 1)
		go func() { served <- life.server.Serve(life.l) }()
		last := false
		for wait := limit; wait > 0 && !last; wait = life.server.Retire(limit) {
			select {
			case <-time.After(wait):
			case <-done:
				last = true
			}
		}
		if err := errors.Join(life.server.Shutdown(context.Background()), <-served); err != nil {
			t.Error(err)
		}
		if last {
			return n
		}
	}
}

// use makes 50 requests at moments around the limit.
func use(t *testing.T, path string, limit time.Duration) {
	c := &rpc.Client{Service: "mem", Path: path}
	defer c.Close()
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

// ask makes one request as a program does that knows nothing of retries.
func ask(path string) error {
	nc, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := nc.Write(frame(getSoft)); err != nil {
		return err
	}
	_, err = io.ReadFull(nc, make([]byte, 5))
	return err
}

// TestDraining is how a handler learns that it should not wait any longer.
func TestDraining(t *testing.T) {
	begun := make(chan struct{})
	path, s := start(t, "mem", func(s *rpc.Server) {
		rpc.Handle(s, proto.MemGetSoft, func(context.Context, proto.GetSoft) (proto.SoftMemory, error) {
			close(begun)
			<-s.Draining()
			return proto.SoftMemory{Content: "let go"}, nil
		})
	})
	nc := dial(t, path)
	send(t, nc, getSoft)
	within(t, "the handler", begun)
	for range 2 {
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got := receive(t, nc); got != `{"type":"soft_memory","content":"let go"}` {
		t.Errorf("got %s", got)
	}
}

// TestShutdownFresh answers the first request of whoever connected before the
// drain, and does not wait for ever for one.
func TestShutdownFresh(t *testing.T) {
	for _, asks := range []bool{true, false} {
		path, s := start(t, "mem", func(s *rpc.Server) {
			if asks {
				s.SetFresh(long)
			} else {
				s.SetFresh(time.Millisecond)
			}
		})
		nc := dial(t, path)
		receivePong(t, path) // whoever came before that one has been accepted
		stopped := make(chan error, 1)
		go func() { stopped <- s.Shutdown(context.Background()) }()
		within(t, "the drain", s.Draining())
		if asks {
			send(t, nc, pingPacket)
			if receive(t, nc) == "" {
				t.Error("the first request is not answered")
			}
		}
		if got := receive(t, nc); got != "" {
			t.Errorf("and then %s", got)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}
}

func receivePong(t *testing.T, path string) {
	t.Helper()
	nc := dial(t, path)
	send(t, nc, pingPacket)
	receive(t, nc)
}

// TestShutdownUnderUse restarts a service at any moment while requests come,
// some from programs that know nothing of retries: each is answered.
func TestShutdownUnderUse(t *testing.T) {
	dir, err := os.MkdirTemp("", "z")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	held, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	const limit = 2 * time.Millisecond
	done, ended := make(chan struct{}), make(chan int)
	go func() { ended <- restarts(t, held, limit, done) }()
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() { use(t, held.Addr().String(), limit) })
	}
	users.Wait()
	close(done)
	if n := <-ended; n < 3 {
		t.Errorf("only %d lives: the test shows nothing", n)
	}
}

// restarts runs one life after the other until done and counts them.
func restarts(t *testing.T, held net.Listener, limit time.Duration, done <-chan struct{}) (n int) {
	for {
		n++
		life := instance(t, held)
		life.server.SetFresh(20 * time.Second) // each that connects will ask
		served := make(chan error, 1)
		go func() { served <- life.server.Serve(life.l) }()
		last := false
		select {
		case <-time.After(rand.N(limit)):
		case <-done:
			last = true
		}
		if err := errors.Join(life.server.Shutdown(context.Background()), <-served); err != nil {
			t.Error(err)
		}
		if last {
			return n
		}
	}
}

// TestRetireShutdown has both come at the same time: neither waits for the
// other for ever, and the end is an end.
func TestRetireShutdown(t *testing.T) {
	for range 200 {
		var working atomic.Bool
		_, s := start(t, "mem", func(s *rpc.Server) { s.KeepWhile(working.Load) })
		var both sync.WaitGroup
		both.Go(func() {
			for range 20 {
				working.Store(!working.Load()) // which has Retire look twice and go on
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
