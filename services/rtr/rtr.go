// Package rtr is the router to language models: it alone holds the provider's
// key and talks to the network. It takes a conversation in OpenAI's form and
// answers with the model's text, whole or streamed.
//
// What answers is decided by the configuration's provider:
//
//	openai    any OpenAI-compatible endpoint
//	offline   no model at all: a small reader of plain commands (offline.go)
//	auto      the endpoint that is configured; else a model server that is
//	          found on loopback (probe.go); else offline
//	(unset)   the endpoint that is configured; else an error that says what to set
//
// An endpoint is configured by [api] base_url, or by a key alone for OpenAI's
// own. The key is [api] key, else LLM_API_KEY, else OPENAI_API_KEY.
package rtr

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

// Service answers the methods of rtr.
type Service struct {
	log      *slog.Logger
	set      settings
	client   *http.Client
	probes   []string      // base URLs of the model servers that auto looks for
	deciding chan struct{} // holds one token: whoever has it may look at and set chosen
	chosen   *backend      // nil while it is not decided, or not for good
}

// provider has a model continue a conversation: text goes to sink as it comes
// and is returned as a whole. Whether a stream is wanted is in the request.
type provider func(ctx context.Context, in proto.Infer, sink rpc.Sink) (string, error)

// backend is a decided provider.
type backend struct {
	caps    proto.RouterCapabilities
	infer   provider
	forGood bool // it need not be decided again
}

// New returns a Service for a configuration and the keys in the environment.
// It reaches for nothing yet: a model server is looked for when one is needed.
func New(cfg *config.Config, log *slog.Logger) (*Service, error) {
	set, err := readSettings(cfg)
	if err != nil {
		return nil, err
	}
	s := &Service{log: log, set: set, client: newClient(), probes: localServers, deciding: make(chan struct{}, 1)}
	s.deciding <- struct{}{}
	return s, nil
}

// Register adds the methods to a server.
func (s *Service) Register(server *rpc.Server) {
	rpc.Handle(server, proto.RtrCapabilities, s.capabilities)
	rpc.HandleText(server, proto.RtrInfer, s.infer)
	server.OnStats(s.stats)
}

// Close lets go of connections that are kept for the next request.
func (s *Service) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

func (s *Service) capabilities(ctx context.Context, _ proto.CapabilitiesRequest) (proto.RouterCapabilities, error) {
	b, err := s.backend(ctx)
	if err != nil {
		return proto.RouterCapabilities{}, err
	}
	caps := b.caps
	caps.Streaming = s.set.streaming
	return caps, nil
}

func (s *Service) infer(ctx context.Context, in proto.Infer, out *rpc.Out) (proto.Text, error) {
	if _, err := readMessages(in.Messages); err != nil {
		return proto.Text{}, err
	}
	if !s.set.streaming {
		out.Collect()
	}
	in.Stream = out.Streaming()
	b, err := s.backend(ctx)
	if err != nil {
		return proto.Text{}, err
	}
	text, err := b.infer(ctx, in, out)
	if b.caps.Found && errors.Is(err, proto.ErrUnavailable) {
		s.forget(ctx, b) // the server may have gone: look again next time
	}
	return proto.Text{Content: text}, err
}

// stats shows what is decided, without deciding.
func (s *Service) stats(stats *proto.Stats) {
	select {
	case <-s.deciding:
	default:
		return // somebody is looking at this moment
	}
	defer func() { s.deciding <- struct{}{} }()
	if s.chosen == nil {
		return
	}
	if caps := s.chosen.caps; caps.Problem != "" {
		stats.Problems = append(stats.Problems, caps.Problem)
	} else {
		stats.Info = map[string]string{"provider": caps.Provider, "model": caps.Model, "endpoint": caps.Endpoint}
	}
}
