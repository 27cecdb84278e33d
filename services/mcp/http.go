package mcp

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const connectTimeout = 10 * time.Second

// transport returns how the server is reached. The program of a server is started.
func (in *instance) transport() (mcp.Transport, error) {
	if in.d.URL == "" {
		env, hide, err := in.s.secretsOf(in.d, in.d.Env)
		if err != nil {
			return nil, err
		}
		in.hide = hide
		if in.program, err = in.s.startProgram(in.d, env, hide, in.token); err != nil {
			return nil, err
		}
		return in.program, nil
	}
	headers, hide, err := in.s.secretsOf(in.d, in.d.Headers)
	if err != nil {
		return nil, err
	}
	in.hide = hide
	t := &mcp.StreamableClientTransport{
		Endpoint: in.d.URL, HTTPClient: newHTTPClient(headers, in.d.resultBytes()), DisableStandaloneSSE: !in.s.standalone, MaxEventSize: in.d.resultBytes(),
	}
	if !hasAuthorization(headers) {
		t.OAuthHandler = &authorizer{s: in.s, d: in.d}
	}
	return t, nil
}

// hasAuthorization reports whether a static token is configured.
func hasAuthorization(headers map[string]string) bool {
	for name := range headers {
		if strings.EqualFold(name, "Authorization") {
			return true
		}
	}
	return false
}

// newHTTPClient returns a client that sends headers, accepts answers of at most so many bytes,
// and does not follow redirects to another origin.
func newHTTPClient(headers map[string]string, limit int) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: connectTimeout}).DialContext
	transport.TLSHandshakeTimeout = connectTimeout
	return &http.Client{Transport: &boundedTransport{transport, headers, limit}, CheckRedirect: sameOrigin}
}

// sameOrigin refuses a redirect to another origin.
func sameOrigin(req *http.Request, via []*http.Request) error {
	if first := via[0].URL; req.URL.Scheme != first.Scheme || req.URL.Host != first.Host || len(via) >= 5 {
		return http.ErrUseLastResponse
	}
	return nil
}

// boundedTransport adds headers to requests, and limits answers other than streams of events,
// whose events the SDK limits.
type boundedTransport struct {
	http.RoundTripper
	headers map[string]string
	limit   int
}

func (t *boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if len(t.headers) > 0 {
		req = req.Clone(req.Context())
		for name, value := range t.headers {
			req.Header.Set(name, value)
		}
	}
	resp, err := t.RoundTripper.RoundTrip(req)
	if err == nil && !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body = &boundedBody{resp.Body, t.limit}
	}
	return resp, err
}

// errTooLong: an answer has more bytes than are accepted.
var errTooLong = errors.New("the answer is too long")

// boundedBody is the body of an answer, of which left bytes are accepted.
type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	if b.left -= n; b.left < 0 {
		return 0, errTooLong
	}
	return n, err
}
