// Package agr is the agent's loop: it asks the model, carries out the blocks
// that the answer holds, puts the results where the blocks stand, and asks
// again until an answer holds none. It runs nothing and holds no key itself:
// code is run by exc, what is to be remembered is kept by mem, and live pages are
// reached through repl, where one runs.
//
// A turn of a terminal session offers tools in the providers' own form. Blocks in
// its text are calls like native ones: all of them are carried out after the end
// of the answer, in the order given, and their results follow it as messages of
// their own.
package agr

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/agr/toolbox"
)

// Service answers run and tools.
type Service struct {
	limit        int    // inferences of a plain run
	sessionLimit int    // inferences of a session's turn
	outputBytes  int    // what bash may print into a result of a session
	sandbox      string // the level of a turn that names none
	cat          *catalog.Catalog
	rtr          *rpc.Client
	exc          *rpc.Client
	mem          *rpc.Client
	repl         *rpc.Client
	log          *slog.Logger
}

// New returns the agent over its neighbours and the catalog.
func New(cfg *config.Config, cat *catalog.Catalog, log *slog.Logger) *Service {
	return &Service{
		limit:        cfg.Agr.MaxIterations,
		sessionLimit: cfg.Agr.SessionIterations,
		outputBytes:  cfg.Agr.ToolOutputBytes,
		sandbox:      cfg.Exc.Sandbox,
		cat:          cat,
		rtr:          &rpc.Client{Service: "rtr", Path: cfg.Rtr.Socket},
		exc:          &rpc.Client{Service: "exc", Path: cfg.Exc.Socket},
		mem:          &rpc.Client{Service: "mem", Path: cfg.Mem.Socket},
		repl:         &rpc.Client{Service: "repl", Path: cfg.Repl.Socket},
		log:          log,
	}
}

// Register adds the service's methods to s.
func (s *Service) Register(srv *rpc.Server) {
	rpc.HandleText(srv, proto.AgrRun, s.run)
	rpc.Handle(srv, proto.AgrTools, s.tools)
	srv.OnStats(func(stats *proto.Stats) {
		stats.Problems = append(stats.Problems, s.cat.Snapshot().Problems...)
	})
}

// Close ends the connections to other services and the catalog's watch.
func (s *Service) Close() error {
	s.rtr.Close()
	s.exc.Close()
	s.mem.Close()
	s.repl.Close()
	return s.cat.Close()
}

// run is the loop. Its text is that of the last inference, with results.
func (s *Service) run(ctx context.Context, req proto.Run, out *rpc.Out) (proto.Text, error) {
	limit := s.limitOf(req)
	if limit <= 0 || !isList(req.Messages) {
		_, err := elements(req.Messages)
		return proto.Text{Iterations: new(int)}, err
	}
	session, messages := s.sessionOf(ctx, req), req.Messages
	for n := 1; ; n++ {
		t := &turn{s: s, ctx: ctx, req: req, last: n >= limit, out: out, session: session}
		err := t.infer(messages)
		if err == nil && (!t.interrupted || t.last) {
			return t.answer(n)
		}
		if err == nil {
			messages, err = t.goOn(messages)
		}
		if err != nil {
			return proto.Text{}, err
		}
	}
}

// tools answers with what a session's turn offers now.
func (s *Service) tools(ctx context.Context, _ proto.ToolsRequest) (proto.Tools, error) {
	return proto.Tools{Tools: toolbox.Offer(s.cat.Snapshot(), s.hasPages(ctx))}, nil
}

// limitOf is how many inferences the main loop may take.
func (s *Service) limitOf(req proto.Run) int {
	switch {
	case req.MaxIterations != nil:
		return *req.MaxIterations
	case req.SessionID != "":
		return s.sessionLimit
	}
	return s.limit
}

// providerError words an error of the router. What the provider said stays at
// hand for programs.
func providerError(err error) error {
	words := err.Error()
	origin, ok := errors.AsType[*proto.Error](err)
	if !ok {
		return fmt.Errorf("rtr: %w", err)
	}
	if !errors.Is(err, rpc.ErrConnect) {
		words = "rtr error: " + words
	}
	e := *origin
	e.Message = "Agentic runtime error: " + words
	return &e
}
