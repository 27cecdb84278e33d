package rpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"zino/pkg/rpc"
)

// finishing is a server that has something to finish when it is shut down.
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

// shutdown begins to shut s down, and returns when it has something to finish.
func (f *finishing) shutdown(t *testing.T, s *rpc.Server) {
	t.Helper()
	go func() { f.done <- s.Shutdown(context.Background()) }()
	within(t, "what comes before the end", f.begun)
}

// end lets s be finished, and waits for the end of a connection that is kept.
func (f *finishing) end(t *testing.T, kept net.Conn) {
	t.Helper()
	close(f.release)
	if err := <-f.done; err != nil {
		t.Error(err)
	}
	if n, err := kept.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a kept connection is not closed: %d, %v", n, err)
	}
}

// TestBeforeShutdown answers on old and new connections until all is finished.
func TestBeforeShutdown(t *testing.T) {
	var f *finishing
	path, s := start(t, "mem", func(s *rpc.Server) { f = newFinishing(s) })
	kept := dial(t, path)
	send(t, kept, pingPacket)
	receive(t, kept)
	f.shutdown(t, s)
	for what, nc := range map[string]net.Conn{"an old connection": kept, "a new one": dial(t, path)} {
		if send(t, nc, pingPacket); receive(t, nc) == "" {
			t.Errorf("%s was hung up on", what)
		}
	}
	f.end(t, kept)
}

// TestBeforeShutdownKeptOpen answers on old connections until all is finished,
// and leaves new ones to the process that is next.
func TestBeforeShutdownKeptOpen(t *testing.T) {
	socket := held(t)
	first, second := instance(t, socket), instance(t, socket)
	first.server.KeptOpen()
	f := newFinishing(first.server)
	served := make(chan error, 2)
	go func() { served <- first.server.Serve(first.l) }()
	kept := dial(t, socket.Addr().String())
	send(t, kept, pingPacket)
	receive(t, kept)
	f.shutdown(t, first.server)
	late := dial(t, socket.Addr().String())
	send(t, late, pingPacket)
	if send(t, kept, pingPacket); receive(t, kept) == "" {
		t.Error("who was there before was hung up on")
	}
	f.end(t, kept)
	if err := <-served; err != nil {
		t.Error(err)
	}
	go func() { served <- second.server.Serve(second.l) }()
	if receive(t, late) == "" {
		t.Error("who came late was hung up on")
	}
	if err := errors.Join(second.server.Shutdown(t.Context()), <-served); err != nil {
		t.Error(err)
	}
}
