package rtr

import (
	"context"

	"zino/pkg/keys"
)

// names reports whether the configuration names a provider that has models.
func (s *Service) names() bool {
	_, ok := vendorOf(s.set.provider)
	return ok
}

// auto is the provider of a caller that takes what there is: the configured
// one if it can be asked, and who is asked where none is named.
func (s *Service) auto(ctx context.Context, w wish) *target {
	if s.names() {
		if t := s.decide(ctx, wish{provider: s.set.provider, model: w.model}); t.caps.Problem == "" {
			return t
		}
	} else if w.model == "" {
		w.model = s.set.model
	}
	return s.unnamed(ctx, w)
}

// unnamed is the provider where none is named: the one that configuration and
// keys imply, else a model server on this host, else none.
func (s *Service) unnamed(ctx context.Context, w wish) *target {
	v, configured, ok := s.implied()
	switch {
	case ok && configured && s.set.base != nil:
		return s.generic(ctx, w)
	case ok:
		return s.named(ctx, v, w, configured)
	case w.provider != "auto":
		return s.noTarget(w, "no model is connected: "+connectFully()+`, or provider = "auto" or "offline"`)
	}
	if t := s.probe(ctx, w); t != nil {
		return t
	}
	return offlineTarget(true)
}

// implied is the provider that configuration and keys mean without naming it:
// the endpoint that is configured, else the first whose key is there.
// configured is true if what [api] says is for it: without a name that is for
// OpenAI's wire, with another's it is for that one.
func (s *Service) implied() (v vendor, configured, ok bool) {
	openAI, _ := vendorOf("openai")
	free := !s.names() || s.set.provider == "openai"
	if free && (s.set.base != nil || s.set.key != "" || s.set.keyFile != "" || s.set.getenv("LLM_API_KEY") != "") {
		return openAI, true, true
	}
	for _, v := range vendors {
		account, takesKey := keys.Find(v.name)
		if !takesKey {
			continue
		}
		if key, _, err := s.credential(account, false); err != nil || key != "" {
			return v, false, true
		}
	}
	return openAI, free, s.set.bases["openai"] != nil || s.set.wrong["openai"] != nil
}
