package assemble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serve serves s on the socket path until the test ends.
func serve(t *testing.T, path string, s *rpc.Server) {
	t.Helper()
	l, err := net.Listen("unix", path)
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// fakeMem answers what it is told to and notes what it was asked, in order.
type fakeMem struct {
	mu       sync.Mutex
	asked    []string
	memories func(ctx context.Context) (proto.HardMemories, error)
	history  func(ctx context.Context) (proto.History, error)
	session  func(ctx context.Context) (proto.SessionMessages, error)
	limited  func(ctx context.Context, limit int) (proto.History, error) // in place of history, if set
}

func (m *fakeMem) note(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, fmt.Sprintf(format, args...))
}

// questions are what it was asked up to now.
func (m *fakeMem) questions() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.asked, "; ")
}

func (m *fakeMem) server() *rpc.Server {
	s := rpc.NewServer("mem", slog.New(slog.DiscardHandler))
	rpc.Handle(s, proto.MemSearchHard, func(ctx context.Context, req proto.SearchHard) (proto.HardMemories, error) {
		m.note("search %q %d", req.Query, *req.TopK)
		return m.memories(ctx)
	})
	rpc.Handle(s, proto.MemGetHistory, func(ctx context.Context, req proto.GetHistory) (proto.History, error) {
		m.note("history %q %d", req.ChannelID, req.Limit)
		if m.limited != nil {
			return m.limited(ctx, req.Limit)
		}
		return m.history(ctx)
	})
	rpc.Handle(s, proto.MemGetMessages, func(ctx context.Context, req proto.GetMessages) (proto.SessionMessages, error) {
		m.note("session %q %d", req.SessionID, req.Until)
		return m.session(ctx)
	})
	return s
}

func memories(lists ...string) func(context.Context) (proto.HardMemories, error) {
	found := proto.HardMemories{Results: []proto.HardMemory{}}
	for _, list := range lists {
		found.Results = append(found.Results, proto.HardMemory{Messages: proto.Raw(list), Score: 0.5})
	}
	return func(context.Context) (proto.HardMemories, error) { return found, nil }
}

func history(list string) func(context.Context) (proto.History, error) {
	return func(context.Context) (proto.History, error) { return proto.History{Messages: proto.Raw(list)}, nil }
}

func session(list string) func(context.Context) (proto.SessionMessages, error) {
	return func(context.Context) (proto.SessionMessages, error) {
		return proto.SessionMessages{Messages: proto.Raw(list)}, nil
	}
}

// bench is a ctx over real sockets with a mem beside it.
type bench struct {
	t       *testing.T
	dir     string
	cfg     *config.Config
	mem     *fakeMem
	log     bytes.Buffer
	service *Service
	client  *rpc.Client
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return &bench{t: t, dir: dir, cfg: config.Default(), mem: &fakeMem{memories: memories(), history: history(`[]`)}}
}

func (b *bench) skill(name, fabricator string) {
	b.t.Helper()
	text := `{"meta":{},"interpreter":[{"role":"user","content":"not an example"}],"fabricator":` + fabricator + `}`
	must(b.t, os.WriteFile(filepath.Join(b.dir, name+".json"), []byte(text), 0o600))
}

func (b *bench) startMem() { serve(b.t, filepath.Join(b.dir, "m"), b.mem.server()) }

func (b *bench) start() {
	b.t.Helper()
	cat, err := catalog.Open("", b.dir, slog.New(slog.DiscardHandler))
	must(b.t, err)
	mem := &rpc.Client{Service: "mem", Path: filepath.Join(b.dir, "m")}
	b.service = New(b.cfg, cat, mem, slog.New(slog.NewTextHandler(&b.log, nil)))
	b.t.Cleanup(func() { must(b.t, b.service.Close()); mem.Close(); must(b.t, cat.Close()) })
	server := rpc.NewServer("ctx", slog.New(slog.DiscardHandler))
	b.service.Register(server)
	serve(b.t, filepath.Join(b.dir, "c"), server)
	b.client = &rpc.Client{Service: "ctx", Path: filepath.Join(b.dir, "c")}
	b.t.Cleanup(b.client.Close)
}

func (b *bench) build(channel, message string) string {
	b.t.Helper()
	reply, err := rpc.Call(b.t.Context(), b.client, proto.CtxBuild, proto.Build{ChannelID: channel, UserMessage: message})
	must(b.t, err)
	return string(reply.Messages)
}
