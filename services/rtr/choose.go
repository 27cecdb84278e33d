package rtr

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"zino/pkg/keys"
	"zino/services/rtr/wire"
)

// wish is what a request says about whom to ask; empty is as configured.
type wish struct {
	provider, model string
	fallback        bool // it is asked because another failed, so it is another
}

// target returns whom to ask, and decides on it first if need be. What was
// found for good is kept until the user's keys change; a search that found
// nothing is repeated when somebody asks again, as a model server may have been
// started since.
func (s *Service) target(ctx context.Context, w wish) (*target, error) {
	if err := s.turn(ctx); err != nil {
		return nil, err
	}
	defer s.endTurn()
	if stamp := s.stamp(); stamp != s.stamped {
		clear(s.chosen)
		s.stamped = stamp
	}
	had := s.chosen[w]
	if had != nil && had.forGood {
		return had, nil
	}
	t := s.decide(ctx, w)
	if err := ctx.Err(); err != nil {
		return nil, err // what was found then is not to be trusted
	}
	if had == nil || had.caps != t.caps {
		s.log.Info("model", "provider", t.caps.Provider, "model", t.caps.Model, "endpoint", t.caps.Endpoint, "found", t.caps.Found, "problem", t.caps.Problem)
	}
	s.chosen[w] = t
	return t, nil
}

// turn waits until nobody else decides.
func (s *Service) turn(ctx context.Context) error {
	select {
	case <-s.deciding:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Service) endTurn() { s.deciding <- struct{}{} }

// stamp changes when a key was set or removed.
func (s *Service) stamp() string {
	if s.set.store == nil {
		return ""
	}
	return s.set.store.Stamp()
}

// forget has the next request decide again.
func (s *Service) forget(ctx context.Context, t *target) {
	if s.turn(ctx) != nil {
		return // the caller has gone; the next one will see the same fault
	}
	defer s.endTurn()
	for w, have := range s.chosen {
		if have == t {
			delete(s.chosen, w)
		}
	}
}

// decide finds whom a wish means. Who would be asked without it is asked as
// configured, by whatever name the wish has for it.
func (s *Service) decide(ctx context.Context, w wish) *target {
	if !s.names() && s.set.provider != "offline" && !w.fallback {
		if v, _, ok := s.implied(); ok && w.provider == v.name {
			w.provider = s.set.provider
		}
	}
	first := w.provider == "" || w.provider == s.set.provider
	if first {
		if w.provider = s.set.provider; w.model == "" {
			w.model = s.set.model
		}
	}
	switch w.provider {
	case "offline":
		return offlineTarget(false)
	case "":
		return s.unnamed(ctx, w)
	case "auto":
		return s.auto(ctx, w)
	case "openai":
		if first && s.set.base != nil {
			return s.generic(ctx, w)
		}
	}
	v, ok := vendorOf(w.provider)
	if !ok {
		return s.noTarget(w, unknownProvider(w.provider))
	}
	return s.named(ctx, v, w, first)
}

// named is a provider that is known by its name.
func (s *Service) named(ctx context.Context, v vendor, w wish, first bool) *target {
	if w.model == "" {
		w.model = v.model
	}
	w.provider = v.name
	if err := s.set.wrong[v.name]; err != nil {
		return s.noTarget(w, err.Error())
	}
	base := s.set.bases[v.name]
	if base == nil && v.name == "ollama" && first {
		base = s.set.base
	}
	if base == nil {
		base, _ = url.Parse(v.base) // ours are valid
	}
	account, takesKey := keys.Find(v.name)
	key, token, hint := "", false, "no key"
	if takesKey {
		var err error
		if key, token, err = s.credential(account, first); err != nil {
			return s.noTarget(w, err.Error())
		}
		if hint = keyHint(account, first); token {
			hint = tokenVariable
		}
		if key == "" && !wire.IsLocal(base.String()) {
			return s.noTarget(w, v.name+" has no key: "+keyMissing(account, first))
		}
	}
	ep := s.endpoint(v.name, base, key)
	ep.KeyHint, ep.BaseHint, ep.Token = hint, v.baseHint, token
	if v.name == "anthropic" {
		ep.Add(s.set.headers)
	}
	t := s.newTarget(v, ep, w.model, true)
	if v.name == "ollama" {
		return s.ollama(ctx, t)
	}
	return t
}

// generic is the OpenAI-compatible endpoint of [api] base_url. Where no model
// is set, OpenAI has a default, and a server on this host or network is asked
// what it has.
func (s *Service) generic(ctx context.Context, w wish) *target {
	w.provider = "openai"
	account, _ := keys.Find("openai")
	key, _, err := s.secretFor(account, true, s.set.base.Hostname() == "api.openai.com")
	if err != nil {
		return s.noTarget(w, err.Error())
	}
	v, _ := vendorOf("openai")
	v.maxTokens = 0
	ep := s.endpoint(v.name, s.set.base, key)
	ep.KeyHint, ep.BaseHint = keyHint(account, true), "[api] base_url"
	switch {
	case w.model != "":
	case s.set.base.Hostname() == "api.openai.com":
		w.model = v.model
	case wire.IsLocal(s.set.base.String()):
		w.model, err = wire.FirstModel(ctx, v.models, ep)
	default:
		err = errors.New("no model is set: set [service] model")
	}
	if err != nil {
		t := s.noTarget(w, fmt.Sprintf("%s: %v", ep.Name, err))
		t.caps.Endpoint, t.forGood = ep.Name, false
		return t
	}
	return s.newTarget(v, ep, w.model, false)
}

// ollama completes a target at Ollama, which is asked for a model if none is set.
func (s *Service) ollama(ctx context.Context, t *target) *target {
	t.unknown = true
	if t.caps.Model != "" {
		return t
	}
	model, err := wire.FirstModel(ctx, wire.OllamaModels, t.ep)
	if err != nil {
		none := s.noTarget(wish{provider: "ollama"}, fmt.Sprintf("%s: %v", t.ep.Name, err))
		none.caps.Endpoint, none.forGood = t.ep.Name, false
		return none
	}
	v, _ := vendorOf("ollama")
	t = s.newTarget(v, t.ep, model, true)
	t.unknown = true
	return t
}
