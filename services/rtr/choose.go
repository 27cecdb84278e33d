package rtr

import (
	"context"
	"errors"
	"fmt"

	"zino/pkg/rpc"
	"zino/proto"
)

// backend returns the provider in use, and decides on one first if need be.
// What was found for good is kept; a search that found nothing is repeated
// when somebody asks again, as a model server may have been started since.
func (s *Service) backend(ctx context.Context) (*backend, error) {
	select {
	case <-s.deciding:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { s.deciding <- struct{}{} }()
	if s.chosen != nil && s.chosen.forGood {
		return s.chosen, nil
	}
	b := s.decide(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err // what was found then is not to be trusted
	}
	if s.chosen == nil || s.chosen.caps != b.caps {
		s.log.Info("model", "provider", b.caps.Provider, "model", b.caps.Model, "endpoint", b.caps.Endpoint, "found", b.caps.Found, "problem", b.caps.Problem)
	}
	s.chosen = b
	return b, nil
}

// forget has the next request decide again, if b is still what is in use.
func (s *Service) forget(ctx context.Context, b *backend) {
	select {
	case <-s.deciding:
	case <-ctx.Done():
		return
	}
	defer func() { s.deciding <- struct{}{} }()
	if s.chosen == b {
		s.chosen = nil
	}
}

func (s *Service) decide(ctx context.Context) *backend {
	switch {
	case s.set.provider == "offline":
		return offlineBackend(false)
	case s.set.base != nil:
		return s.configured(ctx)
	case s.set.provider == "auto":
		if b := s.probe(ctx); b != nil {
			return b
		}
		return offlineBackend(true)
	case s.set.provider == "openai":
		return s.noBackend("openai", "provider = \"openai\" without an endpoint: "+howToConnect)
	}
	return s.noBackend("", "no model is connected: "+howToConnect+", or provider = \"auto\" or \"offline\"")
}

// offlineBackend is the offline provider: chosen, or the fallback of auto,
// which is not for good and not for callers who need a model.
func offlineBackend(fallback bool) *backend {
	infer := answerOffline
	if fallback {
		infer = func(ctx context.Context, in proto.Infer, sink rpc.Sink) (string, error) {
			if in.NeedModel {
				return "", &proto.Error{Code: proto.CodeUnavailable, Message: "no model is connected and none answers on this host: " +
					howToConnect + ", start a model server on loopback, or set provider = \"offline\""}
			}
			return answerOffline(ctx, in, sink)
		}
	}
	return &backend{caps: proto.RouterCapabilities{Provider: "offline", Fallback: fallback}, infer: infer, forGood: !fallback}
}

// noBackend is what answers where no model can be asked.
func (s *Service) noBackend(name, problem string) *backend {
	refuse := func(context.Context, proto.Infer, rpc.Sink) (string, error) {
		return "", &proto.Error{Code: proto.CodeUnavailable, Message: problem}
	}
	return &backend{caps: proto.RouterCapabilities{Provider: name, Model: s.set.model, Problem: problem}, infer: refuse, forGood: true}
}

// configured is the endpoint of the settings. Where no model is set, OpenAI has
// a default, and a server on this host or network is asked what it has.
func (s *Service) configured(ctx context.Context) *backend {
	e := newEndpoint(s.client, s.set)
	caps := proto.RouterCapabilities{Provider: "openai", Model: e.model, Endpoint: e.name}
	if e.model != "" {
		return &backend{caps: caps, infer: e.infer, forGood: true}
	}
	var err error
	if isLocal(s.set.base) {
		e.model, err = e.firstModel(ctx)
	} else {
		err = errors.New("no model is set: set [service] model")
	}
	if err != nil {
		b := s.noBackend("openai", fmt.Sprintf("%s: %v", e.name, err))
		b.caps.Endpoint, b.forGood = e.name, false
		return b
	}
	caps.Model = e.model
	return &backend{caps: caps, infer: e.infer, forGood: true}
}
