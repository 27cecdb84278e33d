// Package assemble is the service ctx: it assembles the messages between the
// system prompt and the user's message. It is not called ctx because that name
// would shadow every context.
//
// Each part of a channel's context has a token budget. Within the budget mem's
// lists are joined without decoding: a long history costs a copy, and a scan of its
// roles and contents if there are memories to compare. A session is never shortened.
package assemble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/pkg/message"
	"zino/pkg/rpc"
	"zino/proto"
)

// memTimeout limits the time of all requests to mem for a channel's context. A
// context without memories and history is better than a late one.
const memTimeout = 4 * time.Second

// replyTime is the part of the caller's deadline reserved for the rest of the turn.
const replyTime = time.Second

// errMemTimeout ends the requests to mem before their caller's deadline.
var errMemTimeout = errors.New("mem did not answer in time")

// Service assembles contexts.
type Service struct {
	cat          *catalog.Catalog
	mem          *rpc.Client
	log          *slog.Logger
	historyLimit int           // messages; 0 or less: all
	topK         int           // memories; 0 or less: none
	timeout      time.Duration // memTimeout, shorter in tests
	examples     atomic.Pointer[examples]

	exampleBudget, memoryBudget, historyBudget budget
}

// New returns the service. The skills in cat and the memories in mem may change
// at any time.
func New(cfg *config.Config, cat *catalog.Catalog, mem *rpc.Client, log *slog.Logger) *Service {
	return &Service{
		cat: cat, mem: mem, log: log,
		historyLimit: cfg.Ctx.HistoryLimit, topK: cfg.Ctx.HardMemoryTopK, timeout: memTimeout,
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

// Close does nothing: the caller of New owns catalog and client.
func (s *Service) Close() error { return nil }

// build joins skill examples, hard memories and history, each within its budget. If
// a request to mem fails, its part is left out. Memories are requested first but
// chosen last, because those that the history repeats are left out.
func (s *Service) build(ctx context.Context, req proto.Build) (proto.Context, error) {
	if req.SessionID != "" {
		return s.session(ctx, req)
	}
	limit := s.timeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = memShare(limit, time.Until(deadline))
	}
	asking, cancel := context.WithTimeoutCause(ctx, limit, errMemTimeout)
	defer cancel()
	found := s.search(asking, req.UserMessage)
	recent := s.history(asking, req.ChannelID)
	var list joined
	list.add(s.current().elements)
	list.add(s.choose(ctx, found, recent.list)...)
	list.add(recent.elements)
	messages := list.array()
	rpc.Recycle(ctx, recent.list)
	rpc.Recycle(ctx, messages)
	return proto.Context{Messages: messages}, ctx.Err()
}

// memShare returns the part of the time left that mem may use.
func memShare(limit, left time.Duration) time.Duration {
	return min(limit, max(left-replyTime, left/2))
}

// session returns the messages of a session as stored in mem. They are not cut: a
// call without its result, or a turn without earlier agreements, is worse than an
// error. Examples and memories are left out, so that the messages before the last
// turn stay the same and providers can cache them.
func (s *Service) session(ctx context.Context, req proto.Build) (proto.Context, error) {
	reply, err := rpc.Call(ctx, s.mem, proto.MemGetMessages, proto.GetMessages{SessionID: req.SessionID})
	if errors.Is(err, proto.ErrNotFound) { // a new session
		return proto.Context{Messages: proto.Raw("[]")}, nil
	}
	if err != nil {
		return proto.Context{}, err
	}
	inner, err := message.Inner(reply.Messages)
	if err != nil {
		return proto.Context{}, fmt.Errorf("mem: %w", err)
	}
	// An empty session cannot be handed off: a message that alone is too large is
	// for the provider to refuse.
	size := tokens(len(inner)+len(req.UserMessage)) + message.FileTokens(inner)
	if len(inner) > 0 && req.ContextTokens > 0 && size > req.ContextTokens {
		return proto.Context{}, &proto.Error{Code: proto.CodeTooLarge, Message: fmt.Sprintf(
			"Session %s and the message have about %d tokens, the model can take in %d. Go on in a new one: zino handoff --from-session %s --goal \"…\".",
			req.SessionID, size, req.ContextTokens, req.SessionID,
		)}
	}
	rpc.Recycle(ctx, reply.Messages)
	return proto.Context{Messages: reply.Messages, Offer: reply.Offer}, ctx.Err()
}

// without logs that a part of a context is missing, unless the request was canceled.
func (s *Service) without(ctx context.Context, part string, err error) {
	if ctx.Err() == nil || context.Cause(ctx) == errMemTimeout {
		s.log.Warn("context without "+part, "error", err, "trace", rpc.Trace(ctx))
	}
}

// stats reports the number of example messages and the skills left out.
func (s *Service) stats(stats *proto.Stats) {
	if stats.Info == nil {
		stats.Info = map[string]string{}
	}
	e := s.current()
	stats.Info["example_messages"] = strconv.Itoa(e.count)
	if len(e.omitted) > 0 {
		stats.Problems = append(stats.Problems, e.problem(s.exampleBudget))
	}
}
