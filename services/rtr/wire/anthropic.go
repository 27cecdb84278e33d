package wire

import (
	"context"
	"maps"
	"net/http"
	"strings"
)

const (
	// anthropicVersion is the version of the wire, which every request names.
	anthropicVersion = "2023-06-01"
	// anthropicTokens is the limit of an answer where the caller has none: the
	// wire demands one.
	anthropicTokens = 4096
)

// Anthropic is the wire of Anthropic's Messages. The provider is asked for a
// stream, whether or not the caller wants one, unless streaming is off: a whole
// answer says nothing until its end, and proxies cut such connections. Source:
// platform.claude.com/docs/en/api/messages and
// platform.claude.com/docs/en/build-with-claude/streaming.
func Anthropic(ctx context.Context, ep *Endpoint, req *Request, sink Sink) error {
	body, err := anthropicBody(req)
	if err != nil {
		return err
	}
	at := *ep
	at.Base = anthropicBase(ep.Base)
	x := at.begin(ctx, req, body, !req.Whole, sink)
	defer x.end()
	x.remedy = "set [rtr] streaming = false if it cannot stream"
	if err := x.post("/v1/messages", func(h http.Header) { at.anthropicHeader(h, req.Whole) }); err != nil {
		return err
	}
	events, err := x.open()
	if err != nil {
		return err
	}
	answer := anthropicAnswer{x: x, events: events}
	return answer.read()
}

// anthropicBase is a base URL without the version, with or without which people
// write it.
func anthropicBase(base string) string {
	return strings.TrimSuffix(strings.TrimRight(base, "/"), "/v1")
}

func (ep *Endpoint) anthropicHeader(h http.Header, whole bool) {
	h.Set("Accept", "text/event-stream")
	if whole {
		h.Set("Accept", "application/json")
	}
	h.Set("Anthropic-Version", anthropicVersion)
	maps.Copy(h, ep.extra)
	if ep.Token {
		ep.bearer(h)
	} else if ep.Key != "" {
		h.Set("X-Api-Key", ep.Key)
	}
}
