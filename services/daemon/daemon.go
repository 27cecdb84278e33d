// Package daemon is the entrance: it takes a message, has the prompt assembled,
// has the agent answer, and sees that what must last is stored.
package daemon

import (
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
}

// New returns the daemon over its neighbours' sockets.
func New(cfg *config.Config, log *slog.Logger) *Service {
	s := &Service{cfg: cfg, others: map[string]*rpc.Client{}, log: log}
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
}

// Close ends the connections to other services.
func (s *Service) Close() error {
	for _, c := range s.others {
		c.Close()
	}
	return nil
}

// chat is one turn. The answer goes out after the turn has been stored.
func (s *Service) chat(ctx context.Context, req proto.Chat, out *rpc.Out) (proto.Text, error) {
	message := strings.TrimSpace(req.Message)
	if message == "" {
		return proto.Text{}, &proto.Error{Code: proto.CodeInvalid, Message: "Empty message."}
	}
	text, err := s.dispatch(ctx, s.prompt(ctx, req.ChannelID, message), req, out)
	if err != nil {
		return proto.Text{}, err
	}
	if req.ChannelID != "" && text.Content != "" {
		if err := out.Flush(); err != nil { // the reader has the text while mem works
			s.log.Debug("the caller left before the turn was stored", "error", err, "trace", rpc.Trace(ctx))
		}
		s.store(ctx, req.ChannelID, message, text.Content)
	}
	return plain(text, req.Stream), nil
}

// plain is what clients see of an answer: the collected one is content and
// nothing else, the streamed one has the iterations. What rtr says of itself
// where it answers in the agent's place is no part of either.
func plain(text proto.Text, stream bool) proto.Text {
	if !stream {
		return proto.Text{Content: text.Content}
	}
	return proto.Text{Content: text.Content, Iterations: text.Iterations}
}

// dispatch has the agent answer, or the model itself where no agent can be
// reached. Once the agent was reached its error is the answer.
func (s *Service) dispatch(ctx context.Context, messages proto.Raw, req proto.Chat, out *rpc.Out) (proto.Text, error) {
	limit := s.cfg.Agr.MaxIterations
	run := proto.Run{
		Messages: messages, Temperature: s.cfg.Agent.Temperature, TopP: s.cfg.Agent.TopP,
		MaxIterations: &limit, Stream: req.Stream, NeedModel: req.NeedModel,
	}
	text, err := rpc.CallText(ctx, s.agr, proto.AgrRun, run, out)
	if !errors.Is(err, rpc.ErrConnect) {
		return text, err
	}
	s.log.Warn("no agent, asking the model directly", "error", err, "trace", rpc.Trace(ctx))
	infer := proto.Infer{Messages: messages, Temperature: run.Temperature, TopP: run.TopP, Stream: req.Stream, NeedModel: req.NeedModel}
	return rpc.CallText(ctx, s.rtr, proto.RtrInfer, infer, out)
}

// store keeps the exchange. A turn whose answer is there is stored even if the
// caller leaves now; if it cannot be stored the answer is given all the same.
func (s *Service) store(ctx context.Context, channel, user, assistant string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
	defer cancel()
	messages := appendMessage(appendMessage(nil, "user", user), "assistant", assistant)
	req := proto.AppendHistory{ChannelID: channel, Messages: closeList(messages)}
	if _, err := rpc.Call(ctx, s.mem, proto.MemAppendHistory, req); err != nil {
		s.log.Error("the turn could not be stored", "channel", channel, "error", err, "trace", rpc.Trace(ctx))
	}
}
