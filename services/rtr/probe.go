package rtr

import (
	"context"
	"net"
	"net/url"
	"sync"
	"time"

	"zino/proto"
)

// localServers are where model servers listen by default, in the order in
// which they are preferred: Ollama, llama.cpp, LM Studio, vLLM. Only literal
// loopback addresses belong here: a name could lead anywhere.
var localServers = []string{
	"http://127.0.0.1:11434/v1",
	"http://127.0.0.1:8080/v1",
	"http://127.0.0.1:1234/v1",
	"http://127.0.0.1:8000/v1",
}

const probeTime = 300 * time.Millisecond

// probe asks all local servers at once for their models, without a key and
// without any word of a conversation, and takes the first in order that has
// one. Anything else may listen on those ports, so only an answer that is a
// list of models counts.
func (s *Service) probe(ctx context.Context) *backend {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	found := make([]*backend, len(s.probes))
	var probing sync.WaitGroup
	for i, base := range s.probes {
		probing.Go(func() { found[i] = s.probeOne(ctx, base) })
	}
	probing.Wait()
	for _, b := range found {
		if b != nil {
			return b
		}
	}
	return nil
}

func (s *Service) probeOne(ctx context.Context, base string) *backend {
	u, err := url.Parse(base)
	if err != nil || !isLoopback(u) {
		return nil
	}
	set := s.set
	set.base, set.key = u, ""
	e := newEndpoint(s.client, set)
	first, err := e.firstModel(ctx)
	if err != nil {
		s.log.Debug("no model server", "endpoint", base, "error", err)
		return nil
	}
	if e.model == "" {
		e.model = first
	}
	caps := proto.RouterCapabilities{Provider: "openai", Model: e.model, Endpoint: e.name, Found: true}
	return &backend{caps: caps, infer: e.infer, forGood: true}
}

// isLoopback reports whether a URL's host is a literal loopback address.
func isLoopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return ip != nil && ip.IsLoopback()
}

// isLocal reports whether a URL leads to this host or a private network, where
// a model server serves what its owner has put there and nobody pays by name.
func isLocal(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast())
}
