package sys

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// fakeMem stores a soft memory as mem does.
type fakeMem struct {
	mu     sync.Mutex
	text   string
	set    bool          // a text was stored
	older  bool          // answer without the field set, like an older mem
	refuse error         // error for stores
	hang   chan struct{} // if not nil, answers wait for it or for the caller's hang-up
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

// wait delays an answer while mem hangs.
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
	s := rpc.NewServer("mem", slog.New(slog.DiscardHandler))
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

// env is a sys over real sockets, with temporary directories.
type env struct {
	t       *testing.T
	dir     string
	cfg     *config.Config
	mem     *fakeMem
	client  *rpc.Client
	service *Service
	server  *rpc.Server
	stop    func() // ends sys
}

// newEnv creates the directories and a template; start creates the service.
func newEnv(t *testing.T, template string) *env {
	t.Helper()
	dir := zinotest.Dir(t)
	b := &env{t: t, dir: dir, cfg: config.Default(), mem: &fakeMem{}}
	b.cfg.Sys.Template, b.cfg.Sys.SessionTemplate = filepath.Join(dir, "SYSTEM.md"), filepath.Join(dir, "SESSION.md")
	b.cfg.Tools.Dir, b.cfg.Skills.Dir = filepath.Join(dir, "tools"), filepath.Join(dir, "skills")
	zinotest.Must(t, os.Mkdir(b.cfg.Tools.Dir, 0o700))
	zinotest.Must(t, os.Mkdir(b.cfg.Skills.Dir, 0o700))
	zinotest.Write(t, b.cfg.Sys.Template, template)
	return b
}

func (b *env) startMem() (stop func()) {
	_, stop = rpctest.Serve(b.t, b.mem.server(), filepath.Join(b.dir, "m"))
	return stop
}

// start starts sys. After stop it can be started again.
func (b *env) start() {
	b.t.Helper()
	log := slog.New(slog.DiscardHandler)
	cat, err := catalog.Open(b.cfg.Tools.Dir, b.cfg.Skills.Dir, log)
	zinotest.Must(b.t, err)
	mem := &rpc.Client{Service: "mem", Path: filepath.Join(b.dir, "m")}
	b.service = New(b.cfg, cat, mem, log)
	server := rpc.NewServer("sys", log)
	b.server = server
	b.service.Register(server)
	_, stop := rpctest.Serve(b.t, server, filepath.Join(b.dir, "s"))
	b.client = &rpc.Client{Service: "sys", Path: filepath.Join(b.dir, "s")}
	b.stop = sync.OnceFunc(func() {
		b.client.Close()
		stop()
		if err := b.service.Close(); err != nil && !strings.Contains(err.Error(), "is lost") {
			b.t.Error(err)
		}
		zinotest.Must(b.t, cat.Close())
		mem.Close()
	})
	b.t.Cleanup(b.stop)
}

func (b *env) get() string {
	b.t.Helper()
	reply, err := rpc.Call(b.t.Context(), b.client, proto.SysGet, proto.GetPrompt{})
	zinotest.Must(b.t, err)
	return reply.Content
}

func (b *env) reload() (string, error) {
	reply, err := rpc.Call(b.t.Context(), b.client, proto.SysReload, proto.ReloadPrompt{})
	return reply.Content, err
}

func (b *env) set(text string) (string, error) {
	reply, err := rpc.Call(b.t.Context(), b.client, proto.SysSetSoftMemory, proto.SetSoftMemory{Content: text})
	return reply.Content, err
}

func (b *env) want(want string) {
	b.t.Helper()
	if got := b.get(); got != want {
		b.t.Errorf("the prompt is %q, want %q", got, want)
	}
}

func (b *env) stats() proto.Stats {
	b.t.Helper()
	stats, err := rpc.Call(b.t.Context(), b.client, proto.GetStats, proto.StatsRequest{})
	zinotest.Must(b.t, err)
	return stats
}
