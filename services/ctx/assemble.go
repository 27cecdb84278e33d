// Package assemble is the service ctx: it puts together what stands between
// the system prompt and the user's message. It is named for what it does, as
// a package ctx would shadow every context.
//
// The messages of a history are never decoded here: the lists that mem answers
// with are joined as they are.
package assemble

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"

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
	historyLimit int
	topK         int
	examples     atomic.Pointer[examples]
}

// New returns the service. Everything it needs to know changes under it: the
// skills in cat, the memories in mem.
func New(cfg *config.Config, cat *catalog.Catalog, mem *rpc.Client, log *slog.Logger) *Service {
	return &Service{
		cat: cat, mem: mem, log: log,
		historyLimit: cfg.Ctx.HistoryLimit, topK: cfg.Ctx.HardMemoryTopK,
	}
}

// Register adds the methods of ctx to server.
func (s *Service) Register(server *rpc.Server) {
	rpc.Handle(server, proto.CtxBuild, s.build)
	server.OnStats(s.stats)
}

// Close has nothing to end: catalog and client belong to whoever made them.
func (s *Service) Close() error { return nil }

// build joins skill examples, hard memories and history. What mem cannot give
// is left out.
func (s *Service) build(ctx context.Context, req proto.Build) (proto.Context, error) {
	var list joined
	list.addElements(s.current().elements)
	s.addMemories(ctx, &list, req.UserMessage)
	s.addHistory(ctx, &list, req.ChannelID)
	return proto.Context{Messages: list.array()}, ctx.Err()
}

// addMemories adds the hard memories nearest to the message, best first.
func (s *Service) addMemories(ctx context.Context, list *joined, message string) {
	if s.topK <= 0 || strings.TrimSpace(message) == "" {
		return
	}
	query := proto.SearchHard{Query: message, TopK: &s.topK}
	found, err := rpc.Call(ctx, s.mem, proto.MemSearchHard, query)
	if err != nil {
		s.without(ctx, "hard memories", err)
		return
	}
	for _, memory := range found.Results {
		if err := list.addArray(memory.Messages); err != nil {
			s.without(ctx, "a hard memory", err)
		}
	}
}

// addHistory adds the end of a channel's history.
func (s *Service) addHistory(ctx context.Context, list *joined, channel string) {
	if channel == "" {
		return
	}
	query := proto.GetHistory{ChannelID: channel, Limit: max(0, s.historyLimit)}
	history, err := rpc.Call(ctx, s.mem, proto.MemGetHistory, query)
	if err == nil {
		err = list.addArray(history.Messages)
	}
	if err != nil {
		s.without(ctx, "the history", err)
	}
}

// without logs which part a context goes without, unless it is for nobody.
func (s *Service) without(ctx context.Context, part string, err error) {
	if ctx.Err() == nil {
		s.log.Warn("context without "+part, "error", err, "trace", rpc.Trace(ctx))
	}
}

// stats adds how many example messages each context begins with.
func (s *Service) stats(stats *proto.Stats) {
	if stats.Info == nil {
		stats.Info = map[string]string{}
	}
	stats.Info["example_messages"] = strconv.Itoa(s.current().count)
}
