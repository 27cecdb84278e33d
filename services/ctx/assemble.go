// Package assemble is the service ctx: it puts together what stands between
// the system prompt and the user's message. It is named for what it does, as
// a package ctx would shadow every context.
//
// Each part of a channel's context has a budget of tokens. Where it is not
// reached the lists that mem answers with are joined as they are: a long history
// costs a copy, and a look at its roles and contents if memories stand beside it.
// A session is passed on whole.
package assemble

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

// Service assembles contexts.
type Service struct {
	cat          *catalog.Catalog
	mem          *rpc.Client
	log          *slog.Logger
	historyLimit int           // messages; 0 or less: all
	topK         int           // memories; 0 or less: none
	patience     time.Duration // with mem, for a channel
	examples     atomic.Pointer[examples]

	exampleBudget, memoryBudget, historyBudget budget
}

// New returns the service. Everything it needs to know changes under it: the
// skills in cat, the memories in mem.
func New(cfg *config.Config, cat *catalog.Catalog, mem *rpc.Client, log *slog.Logger) *Service {
	return &Service{
		cat: cat, mem: mem, log: log,
		historyLimit: cfg.Ctx.HistoryLimit, topK: cfg.Ctx.HardMemoryTopK, patience: memPatience,
		exampleBudget: budget(cfg.Ctx.ExamplesTokens),
		memoryBudget:  budget(cfg.Ctx.MemoriesTokens),
		historyBudget: budget(cfg.Ctx.HistoryTokens),
	}
}

// Register adds the methods of ctx to server.
func (s *Service) Register(server *rpc.Server) {
	rpc.Handle(server, proto.CtxBuild, s.build)
	server.OnStats(s.stats)
}

// Close has nothing to end: catalog and client belong to whoever made them.
func (s *Service) Close() error { return nil }

// build joins skill examples, hard memories and history, each within its
// budget. What mem cannot give is left out. Memories are asked for first, and
// chosen when it is known which history they stand beside. A session is a
// context of its own.
func (s *Service) build(ctx context.Context, req proto.Build) (proto.Context, error) {
	if req.SessionID != "" {
		return s.session(ctx, req)
	}
	waiting, cancel := s.waiting(ctx)
	defer cancel()
	found := s.search(waiting, req.UserMessage)
	recent := s.history(waiting, req.ChannelID)
	var list joined
	list.add(s.current().elements)
	s.addMemories(ctx, &list, found, recent)
	list.add(recent.elements)
	return proto.Context{Messages: list.array()}, ctx.Err()
}

// without logs which part a context goes without, unless it is for nobody.
func (s *Service) without(ctx context.Context, part string, err error) {
	if ctx.Err() == nil || context.Cause(ctx) == errSilent {
		s.log.Warn("context without "+part, "error", err, "trace", rpc.Trace(ctx))
	}
}

// stats adds how many example messages each context begins with, and which
// skills are missing.
func (s *Service) stats(stats *proto.Stats) {
	if stats.Info == nil {
		stats.Info = map[string]string{}
	}
	e := s.current()
	stats.Info["example_messages"] = strconv.Itoa(e.count)
	if len(e.left) > 0 {
		stats.Problems = append(stats.Problems, e.problem(s.exampleBudget))
	}
}
