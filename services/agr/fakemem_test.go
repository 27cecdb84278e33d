package agr

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"zino/pkg/rpc"
	"zino/proto"
)

// memory is a fake mem: it keeps what it is given and finds what it is told to.
type memory struct {
	old bool // it cannot list memories; set before the first call

	mu      sync.Mutex
	stored  []proto.StoreHard
	queries []proto.SearchHard
	found   func(ctx context.Context, req proto.SearchHard) (proto.HardMemories, error)
	refuse  error // what storing and listing end with
}

func (m *memory) register(s *rpc.Server) {
	rpc.Handle(s, proto.MemStoreHard, m.store)
	rpc.Handle(s, proto.MemSearchHard, m.search)
	if !m.old {
		rpc.Handle(s, proto.MemListHard, m.list)
	}
}

// store takes ids from 7 on.
func (m *memory) store(_ context.Context, req proto.StoreHard) (proto.Stored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	same := func(s proto.StoreHard) bool { return bytes.Equal(s.Messages, req.Messages) && s.Tag == req.Tag }
	i := slices.IndexFunc(m.stored, same)
	if i < 0 {
		i = len(m.stored)
		req.Messages = bytes.Clone(req.Messages) // they lie in the connection's buffer
		m.stored = append(m.stored, req)
	}
	return proto.Stored{ID: 7 + i}, m.refuse
}

func (m *memory) list(_ context.Context, req proto.ListHard) (proto.HardList, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if req.Limit != 1 || len(m.stored) == 0 {
		return proto.HardList{Items: []proto.HardItem{}}, m.refuse
	}
	newest := len(m.stored) - 1
	return proto.HardList{Items: []proto.HardItem{{ID: 7 + newest, Messages: m.stored[newest].Messages}}}, m.refuse
}

func (m *memory) search(ctx context.Context, req proto.SearchHard) (proto.HardMemories, error) {
	m.mu.Lock()
	m.queries = append(m.queries, req)
	found := m.found
	m.mu.Unlock()
	if found == nil {
		return proto.HardMemories{Results: []proto.HardMemory{}}, nil
	}
	return found(ctx, req)
}

// finds sets what every search finds from now on.
func (m *memory) finds(results ...proto.HardMemory) {
	m.searches(func(context.Context, proto.SearchHard) (proto.HardMemories, error) {
		return proto.HardMemories{Results: results}, nil
	})
}

// searches sets how searches end from now on.
func (m *memory) searches(found func(ctx context.Context, req proto.SearchHard) (proto.HardMemories, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.found = found
}

// kept returns what has been stored.
func (m *memory) kept() []proto.StoreHard {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.stored)
}

// asked returns the searches so far.
func (m *memory) asked() []proto.SearchHard {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.queries)
}

// remembering adds the built-in tools to a bench.
func (b *bench) remembering() {
	b.t.Helper()
	b.tool("remember", `{"name":"remember","description":"keeps <it>","parameters":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]},"builtin":"remember"}`)
	b.tool("recall", `{"name":"recall","builtin":"recall"}`)
}

// tool adds a file to the agent's tools.
func (b *bench) tool(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(filepath.Dir(b.path), "tools", name+".json"), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	if problems := b.cat.Reload().Problems; len(problems) != 1 { // the broken skill
		b.t.Fatalf("problems %q", problems)
	}
}

// memories starts an agent with built-in tools, and returns a function that
// gives the result of a call, as results does.
func memories(t *testing.T) (*bench, func(call string) string) {
	b, result := results(t)
	b.remembering()
	return b, func(call string) string {
		t.Helper()
		return result("<tool_call>" + call + "</tool_call>")
	}
}
