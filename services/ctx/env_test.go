package assemble

import (
	"context"
	"fmt"
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

// fakeMem is a mem with scripted answers. It records the requests in order.
type fakeMem struct {
	mu       sync.Mutex
	requests []string
	memories func(ctx context.Context) (proto.HardMemories, error)
	history  func(ctx context.Context, limit int) (proto.History, error)
	session  func(ctx context.Context) (proto.SessionMessages, error)
}

func (m *fakeMem) record(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, fmt.Sprintf(format, args...))
}

func (m *fakeMem) requested() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.requests, "; ")
}

func (m *fakeMem) register(s *rpc.Server) {
	rpc.Handle(s, proto.MemSearchHard, func(ctx context.Context, req proto.SearchHard) (proto.HardMemories, error) {
		m.record("search %q %d", req.Query, *req.TopK)
		return m.memories(ctx)
	})
	rpc.Handle(s, proto.MemGetHistory, func(ctx context.Context, req proto.GetHistory) (proto.History, error) {
		m.record("history %q %d", req.ChannelID, req.Limit)
		return m.history(ctx, req.Limit)
	})
	rpc.Handle(s, proto.MemGetMessages, func(ctx context.Context, req proto.GetMessages) (proto.SessionMessages, error) {
		m.record("session %q %d", req.SessionID, req.Until)
		return m.session(ctx)
	})
}

func memories(lists ...string) func(context.Context) (proto.HardMemories, error) {
	found := proto.HardMemories{Results: []proto.HardMemory{}}
	for _, list := range lists {
		found.Results = append(found.Results, proto.HardMemory{Messages: proto.Raw(list), Score: 0.5})
	}
	return func(context.Context) (proto.HardMemories, error) { return found, nil }
}

func history(list string) func(context.Context, int) (proto.History, error) {
	return func(context.Context, int) (proto.History, error) {
		return proto.History{Messages: proto.Raw(list)}, nil
	}
}

func session(list string) func(context.Context) (proto.SessionMessages, error) {
	return func(context.Context) (proto.SessionMessages, error) {
		return proto.SessionMessages{Messages: proto.Raw(list)}, nil
	}
}

// env is ctx on a real socket, with a fake mem.
type env struct {
	t       *testing.T
	dir     string
	cfg     *config.Config
	mem     *fakeMem
	log     zinotest.Buffer
	service *Service
	client  *rpc.Client
}

func newEnv(t *testing.T) *env {
	t.Helper()
	return &env{t: t, dir: zinotest.Dir(t), cfg: config.Default(), mem: &fakeMem{memories: memories(), history: history(`[]`)}}
}

func (e *env) skill(name, fabricator string) {
	e.t.Helper()
	text := `{"meta":{},"interpreter":[{"role":"user","content":"not an example"}],"fabricator":` + fabricator + `}`
	zinotest.Write(e.t, filepath.Join(e.dir, name+".json"), text)
}

// start starts mem and ctx.
func (e *env) start() {
	e.t.Helper()
	e.startMem()
	e.startCtx()
}

func (e *env) startMem() { rpctest.New(e.t, "mem", filepath.Join(e.dir, "m"), e.mem.register) }

func (e *env) startCtx() {
	e.t.Helper()
	cat, err := catalog.Open("", e.dir, e.log.Logger())
	zinotest.Must(e.t, err)
	e.t.Cleanup(func() { zinotest.Must(e.t, cat.Close()) })
	e.service = New(e.cfg, cat, rpctest.Client(e.t, "mem", filepath.Join(e.dir, "m")), e.log.Logger())
	socket, _ := rpctest.New(e.t, "ctx", filepath.Join(e.dir, "c"), e.service.Register)
	e.client = rpctest.Client(e.t, "ctx", socket)
}

// build returns the context of a channel's message.
func (e *env) build(channel, text string) string {
	e.t.Helper()
	reply, err := rpc.Call(e.t.Context(), e.client, proto.CtxBuild, proto.Build{ChannelID: channel, UserMessage: text})
	zinotest.Must(e.t, err)
	return string(reply.Messages)
}

// stats returns the service's statistics.
func (e *env) stats() proto.Stats {
	e.t.Helper()
	stats, err := rpc.Call(e.t.Context(), e.client, proto.GetStats, proto.StatsRequest{})
	zinotest.Must(e.t, err)
	return stats
}
