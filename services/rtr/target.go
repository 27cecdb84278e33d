package rtr

import (
	"context"
	"net/url"
	"slices"

	"zino/proto"
	"zino/services/rtr/ledger"
	"zino/services/rtr/retry"
	"zino/services/rtr/wire"
)

// target is a model at a provider: whom to ask.
type target struct {
	caps      proto.RouterCapabilities
	infer     wire.Func
	ep        *wire.Endpoint
	maxTokens int // limit of an answer where neither request nor configuration has one
	traits    wire.Traits
	own       bool // it is the provider itself that is asked, or a gateway to it: what is built in holds
	context   int  // tokens that the model takes, as configured or as its server says; 0: unknown
	window    int  // the same, else what is built in
	price     *ledger.Price
	limiter   *retry.Limiter
	anyWire   bool // the wire is not configured: where there is no Responses API, chat completions are asked
	unknown   bool // it is Ollama's, and what the model can do has not been asked
	forGood   bool // it need not be decided again

	noResponses string // why the endpoint has no Responses API, where the model would be asked there
}

// newTarget puts together what is known of a model.
func (s *Service) newTarget(v vendor, ep *wire.Endpoint, model string, named bool) *target {
	t := &target{
		caps:  proto.RouterCapabilities{Provider: v.name, Model: model, Endpoint: ep.Name},
		infer: v.infer, ep: ep, maxTokens: v.maxTokens, limiter: s.limiter(v.name), forGood: true,
		traits: wire.TraitsOf(named, ep.Base, model),
		own:    named || isOpenAI(ep.Base),
	}
	s.adjust(t)
	return t
}

// isOpenAI reports whether a base URL is OpenAI's own.
func isOpenAI(base string) bool {
	u, err := url.Parse(base)
	return err == nil && u.Hostname() == "api.openai.com"
}

// endpoint is a place to ask, which tells the provider's limiter what its
// answers say about limits.
func (s *Service) endpoint(name string, base *url.URL, key string) *wire.Endpoint {
	ep := wire.NewEndpoint(s.client, base, key, s.set.stall)
	ep.Observe = s.limiter(name).Observe
	return ep
}

// noTarget is what answers where no model can be asked.
func (s *Service) noTarget(w wish, problem string) *target {
	refuse := func(context.Context, *wire.Endpoint, *wire.Request, wire.Sink) error {
		return &proto.Error{Code: proto.CodeUnavailable, Message: problem}
	}
	return &target{caps: proto.RouterCapabilities{Provider: w.provider, Model: w.model, Problem: problem}, infer: refuse}
}

// offlineTarget is the offline provider: chosen, or the fallback of auto, which
// is not for good.
func offlineTarget(fallback bool) *target {
	return &target{caps: proto.RouterCapabilities{Provider: "offline", Fallback: fallback}, infer: answerOffline, forGood: !fallback}
}

// wire is the name of the target's wire.
func (t *target) wire() string {
	if t.caps.Provider == "openai" && t.traits.Responses {
		return "responses"
	}
	return t.caps.Provider
}

// remote reports whether a provider is asked at all.
func (t *target) remote() bool { return t.ep != nil }

// limiter returns the limiter of a provider, which all of its callers share.
func (s *Service) limiter(name string) *retry.Limiter { return s.limiters[name] }

// fallbacks are whom to ask when the configured provider cannot answer. A
// request that names its own provider or model has none.
func (s *Service) fallbacks(w wish) (list []wish) {
	if w != (wish{}) {
		return nil
	}
	for _, f := range s.set.fallback {
		if next := (wish{f.Provider, f.Model, true}); !slices.Contains(list, next) {
			list = append(list, next)
		}
	}
	return list
}
