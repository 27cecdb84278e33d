package wire

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// Gemini is the wire of Gemini's streamGenerateContent. It is always streamed:
// a caller that wants the text whole gathers it. Source:
// ai.google.dev/api/generate-content.
//
// The base URL may end in a version, such as /v1beta, which is the default; the
// model may be given as models/NAME.
func Gemini(ctx context.Context, ep *Endpoint, req *Request, sink Sink) error {
	body, err := geminiBody(req)
	if err != nil {
		return err
	}
	x := ep.at(geminiBase(ep.Base)).begin(ctx, req, body, true, sink)
	defer x.end()
	model := url.PathEscape(strings.TrimPrefix(req.Model, "models/"))
	if err := x.post("/models/"+model+":streamGenerateContent?alt=sse", x.googleKey); err != nil {
		return err
	}
	answer := geminiAnswer{x: x}
	if answer.events, err = x.open(); err != nil {
		return err
	}
	return answer.read()
}

// googleKey adds the key in Google's way. It never stands in the URL, which
// servers and proxies log.
func (ep *Endpoint) googleKey(h http.Header) {
	if ep.Key != "" {
		h.Set("X-Goog-Api-Key", ep.Key)
	}
}

// geminiBase is a base URL with a version at its end.
func geminiBase(base string) string {
	base = strings.TrimRight(base, "/")
	if version := base[strings.LastIndexByte(base, '/')+1:]; strings.HasPrefix(version, "v1") && !strings.ContainsAny(version, ".:@") {
		return base
	}
	return base + "/v1beta"
}

// at is the same endpoint with another base URL. For people it keeps its name.
func (ep *Endpoint) at(base string) *Endpoint {
	moved := *ep
	moved.Base = base
	return &moved
}
