// Package daemon is the entrance: it takes a message, has the prompt assembled,
// has the agent answer, and sees that what must last is stored: of a plain
// message the exchange when it is over, of a session's turn everything as it
// happens.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

// storeLimit is how long the storing of a finished turn may take.
const storeLimit = 30 * time.Second

// Service answers chat requests and forwards what people ask of other services.
type Service struct {
	cfg                     *config.Config
	sys, ctx, mem, agr, rtr *rpc.Client
	others                  map[string]*rpc.Client
	log                     *slog.Logger
	patience                time.Duration // with a mem that went away in the middle of a turn
}

// New returns the daemon over its neighbours' sockets.
func New(cfg *config.Config, log *slog.Logger) *Service {
	s := &Service{cfg: cfg, others: map[string]*rpc.Client{}, log: log, patience: recordLimit}
	for _, name := range config.Services {
		s.others[name] = &rpc.Client{Service: name, Path: cfg.Socket(name)}
	}
	s.sys, s.ctx, s.mem, s.agr, s.rtr = s.others["sys"], s.others["ctx"], s.others["mem"], s.others["agr"], s.others["rtr"]
	return s
}

// Register adds the service's methods to srv.
func (s *Service) Register(srv *rpc.Server) {
	rpc.HandleText(srv, proto.DaemonChat, s.chat)
	rpc.HandleRelay(srv, proto.DaemonForward, s.forward)
	rpc.Handle(srv, proto.DaemonContext, s.preview)
	rpc.Handle(srv, proto.DaemonHandoff, s.handoff)
}

// Close ends the connections to other services.
func (s *Service) Close() error {
	for _, c := range s.others {
		c.Close()
	}
	return nil
}

// chat is one turn: of a session, or a plain one.
func (s *Service) chat(ctx context.Context, req proto.Chat, out *rpc.Out) (proto.Text, error) {
	req.Message = strings.TrimSpace(req.Message)
	if err := check(req); err != nil {
		return proto.Text{}, err
	}
	req = forCaller(req, rpc.PeerUID(ctx))
	if rpc.Note(ctx, slog.Int("message_bytes", len(req.Message))); req.ChannelID != "" {
		rpc.Note(ctx, slog.String("channel", req.ChannelID))
	}
	if req.SessionID != "" {
		rpc.Note(ctx, slog.String("session", req.SessionID))
		return s.session(ctx, req, out)
	}
	text, err := s.plain(ctx, req, out)
	if err != nil && req.Events {
		return proto.Text{}, s.parting(ctx, out, req.Events, ending(ctx, err))
	}
	return text, err
}

// plain answers a message outside of sessions. The answer goes out after the
// turn has been stored.
func (s *Service) plain(ctx context.Context, req proto.Chat, out *rpc.Out) (proto.Text, error) {
	messages, warnings, err := s.prompt(ctx, req, out)
	if err != nil {
		return proto.Text{}, err
	}
	text, err := s.dispatch(ctx, messages, req, out)
	if err != nil {
		return proto.Text{}, err
	}
	if req.ChannelID != "" && text.Content != "" && !req.NoSave {
		if err := out.Flush(); err != nil { // the reader has the text while mem works
			s.log.Debug("the caller left before the turn was stored", "error", err, "trace", rpc.Trace(ctx))
		}
		text.NotStored = s.store(ctx, req.ChannelID, req.Message, text.Content)
	}
	text = shape(text, req)
	if !req.Events {
		text.Warnings = warnings
	}
	return text, nil
}

// shape is what clients see of an answer: the collected one is content and
// nothing else, the streamed one has the iterations. What the model says of
// itself is for those who asked for events, and its calls are for nobody.
func shape(text proto.Text, req proto.Chat) proto.Text {
	text.ToolCalls, text.State = nil, nil
	switch {
	case req.Events:
		return text
	case req.Stream:
		return proto.Text{Content: text.Content, Iterations: text.Iterations, NotStored: text.NotStored}
	}
	return proto.Text{Content: text.Content, NotStored: text.NotStored}
}

// dispatch has the agent answer, or the model itself where no agent can be
// reached. Once the agent was reached its error is the answer.
func (s *Service) dispatch(ctx context.Context, messages proto.Raw, req proto.Chat, out *rpc.Out) (proto.Text, error) {
	if !req.Events {
		return s.ask(ctx, messages, req, out)
	}
	r := &relay{out: out, events: true}
	text, err := s.ask(ctx, messages, req, r)
	if err != nil {
		return text, err
	}
	return text, r.end()
}

func (s *Service) ask(ctx context.Context, messages proto.Raw, req proto.Chat, sink rpc.Sink) (proto.Text, error) {
	run := s.runOf(req, messages, s.cfg.Agr.MaxIterations)
	text, err := rpc.CallText(ctx, s.agr, proto.AgrRun, run, sink)
	if !errors.Is(err, rpc.ErrConnect) {
		return text, err
	}
	s.log.Warn("no agent, asking the model directly", "error", err, "trace", rpc.Trace(ctx))
	infer := proto.Infer{
		Messages: messages, Temperature: run.Temperature, TopP: run.TopP, Stream: run.Chunks(), NeedModel: run.NeedModel,
		Provider: run.Provider, Model: run.Model, MaxTokens: run.MaxTokens, Effort: run.Effort, Events: run.Events,
	}
	return rpc.CallText(ctx, s.rtr, proto.RtrInfer, infer, sink)
}

// runOf is the agent's part of a request.
func (s *Service) runOf(req proto.Chat, messages proto.Raw, limit int) proto.Run {
	return proto.Run{
		Messages: messages, Temperature: s.cfg.Agent.Temperature, TopP: s.cfg.Agent.TopP,
		MaxIterations: &limit, Stream: &req.Stream, NeedModel: req.NeedModel, SessionID: req.SessionID, NoSave: req.NoSave,
		Provider: req.Provider, Model: req.Model, MaxTokens: req.MaxTokens, Root: req.Root, Events: req.Events,
		Sandbox: req.Sandbox, Network: req.Network, Env: req.Env, Cwd: req.Cwd, Umask: req.Umask, Effort: cmp.Or(req.Effort, s.cfg.Agent.Effort),
	}
}

// store adds the exchange to the channel, even if the caller leaves now. The
// answer does not depend on it: an error is logged, and returned as text for
// the caller.
func (s *Service) store(ctx context.Context, channel, user, assistant string) (problem string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
	defer cancel()
	messages := appendMessage(appendMessage(nil, "user", user), "assistant", assistant)
	req := proto.AppendHistory{ChannelID: channel, Messages: closeList(messages)}
	if _, err := rpc.Call(ctx, s.mem, proto.MemAppendHistory, req); err != nil {
		s.log.Error("the turn could not be stored", "channel", channel, "error", err, "trace", rpc.Trace(ctx))
		return err.Error()
	}
	return ""
}
