package rtr

import (
	"context"
	"net"
	"net/url"
	"sync"
	"time"

	"zino/services/rtr/wire"
)

// server is a place where a model server listens by default.
type server struct{ provider, base string }

// localServers are in the order in which they are preferred: Ollama, llama.cpp,
// LM Studio, vLLM. Only literal loopback addresses belong here: a name could
// lead anywhere.
var localServers = []server{
	{"ollama", "http://127.0.0.1:11434"},
	{"openai", "http://127.0.0.1:8080/v1"},
	{"openai", "http://127.0.0.1:1234/v1"},
	{"openai", "http://127.0.0.1:8000/v1"},
}

const probeTime = 300 * time.Millisecond

// probe asks all local servers at once for their models, without a key and
// without any word of a conversation, and takes the first in order that has
// one. Anything else may listen on those ports, so only an answer that is a
// list of models counts.
func (s *Service) probe(ctx context.Context, w wish) *target {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	found := make([]*target, len(s.probes))
	var probing sync.WaitGroup
	for i, at := range s.probes {
		probing.Go(func() { found[i] = s.probeOne(ctx, at, w.model) })
	}
	probing.Wait()
	for _, t := range found {
		if t != nil {
			return t
		}
	}
	return nil
}

func (s *Service) probeOne(ctx context.Context, at server, model string) *target {
	u, err := url.Parse(at.base)
	if err != nil || !isLoopback(u) {
		return nil
	}
	v, _ := vendorOf(at.provider)
	v.maxTokens = 0
	ep := s.endpoint(v.name, u, "")
	ep.BaseHint = "[api] base_url"
	has, err := wire.FirstModel(ctx, v.models, ep)
	if err != nil {
		s.log.Debug("no model server", "endpoint", at.base, "error", err)
		return nil
	}
	if model == "" {
		model = has
	}
	t := s.newTarget(v, ep, model, v.name == "ollama")
	t.caps.Found, t.unknown = true, v.name == "ollama"
	return t
}

// isLoopback reports whether a URL's host is a literal loopback address.
func isLoopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return ip != nil && ip.IsLoopback()
}
