package sys

import (
	"context"
	"errors"
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

// deadline is how long a test waits for what should take two seconds at most.
const deadline = 30 * time.Second

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// await polls until ok.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(deadline); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s: did not happen", what)
		}
	}
}

// serve serves s on the socket path and returns what ends it.
func serve(t *testing.T, path string, s *rpc.Server) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", path)
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// fakeMem keeps a soft memory as mem does.
type fakeMem struct {
	mu     sync.Mutex
	text   string
	set    bool          // there was a store
	older  bool          // it does not tell
	refuse error         // what a store is answered with
	hang   chan struct{} // where not nil, answers wait for it or for the caller to go
}

func (m *fakeMem) put(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text, m.set = text, true
}

func (m *fakeMem) reply() proto.SoftMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return proto.SoftMemory{Content: m.text, Set: m.set && !m.older}
}

func (m *fakeMem) stored() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text
}

// wait holds an answer back while mem hangs.
func (m *fakeMem) wait(ctx context.Context) error {
	m.mu.Lock()
	hang := m.hang
	m.mu.Unlock()
	if hang == nil {
		return nil
	}
	select {
	case <-hang:
	case <-ctx.Done():
	}
	return ctx.Err()
}

func (m *fakeMem) server() *rpc.Server {
	s := rpc.NewServer("mem", quiet())
	rpc.Handle(s, proto.MemGetSoft, func(ctx context.Context, _ proto.GetSoft) (proto.SoftMemory, error) {
		if err := m.wait(ctx); err != nil {
			return proto.SoftMemory{}, err
		}
		return m.reply(), nil
	})
	rpc.Handle(s, proto.MemSetSoft, func(ctx context.Context, req proto.SetSoft) (proto.Empty, error) {
		if err := m.wait(ctx); err != nil {
			return proto.Empty{}, err
		}
		if m.refuse != nil {
			return proto.Empty{}, m.refuse
		}
		m.put(req.Content)
		return proto.Empty{}, nil
	})
	return s
}

// bench is a sys over real sockets, with directories of its own.
type bench struct {
	t       *testing.T
	dir     string
	cfg     *config.Config
	mem     *fakeMem
	client  *rpc.Client
	service *Service
	server  *rpc.Server
	stop    func() // ends sys
}

// newBench makes the directories and a template; start makes the service.
func newBench(t *testing.T, template string) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	b := &bench{t: t, dir: dir, cfg: config.Default(), mem: &fakeMem{}}
	b.cfg.Sys.Template, b.cfg.Sys.SessionTemplate = filepath.Join(dir, "SYSTEM.md"), filepath.Join(dir, "SESSION.md")
	b.cfg.Tools.Dir, b.cfg.Skills.Dir = filepath.Join(dir, "tools"), filepath.Join(dir, "skills")
	must(t, os.Mkdir(b.cfg.Tools.Dir, 0o700))
	must(t, os.Mkdir(b.cfg.Skills.Dir, 0o700))
	write(t, b.cfg.Sys.Template, template)
	return b
}

func (b *bench) startMem() (stop func()) {
	return serve(b.t, filepath.Join(b.dir, "m"), b.mem.server())
}

// start starts sys; stop ends it, so that it can be started again.
func (b *bench) start() {
	b.t.Helper()
	cat, err := catalog.Open(b.cfg.Tools.Dir, b.cfg.Skills.Dir, quiet())
	must(b.t, err)
	mem := &rpc.Client{Service: "mem", Path: filepath.Join(b.dir, "m")}
	b.service = New(b.cfg, cat, mem, quiet())
	server := rpc.NewServer("sys", quiet())
	b.server = server
	b.service.Register(server)
	stop := serve(b.t, filepath.Join(b.dir, "s"), server)
	b.client = &rpc.Client{Service: "sys", Path: filepath.Join(b.dir, "s")}
	b.stop = sync.OnceFunc(func() {
		b.client.Close()
		stop()
		if err := b.service.Close(); err != nil && !strings.Contains(err.Error(), "is lost") {
			b.t.Error(err)
		}
		must(b.t, cat.Close())
		mem.Close()
	})
	b.t.Cleanup(b.stop)
}

func (b *bench) get() string {
	b.t.Helper()
	reply, err := rpc.Call(b.t.Context(), b.client, proto.SysGet, proto.GetPrompt{})
	must(b.t, err)
	return reply.Content
}

func (b *bench) reload() (string, error) {
	reply, err := rpc.Call(b.t.Context(), b.client, proto.SysReload, proto.ReloadPrompt{})
	return reply.Content, err
}

func (b *bench) set(text string) (string, error) {
	reply, err := rpc.Call(b.t.Context(), b.client, proto.SysSetSoftMemory, proto.SetSoftMemory{Content: text})
	return reply.Content, err
}

func (b *bench) want(want string) {
	b.t.Helper()
	if got := b.get(); got != want {
		b.t.Errorf("the prompt is %q, want %q", got, want)
	}
}

func (b *bench) stats() proto.Stats {
	b.t.Helper()
	stats, err := rpc.Call(b.t.Context(), b.client, proto.GetStats, proto.StatsRequest{})
	must(b.t, err)
	return stats
}
