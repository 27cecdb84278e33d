package mcp

import (
	"maps"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const connectTimeout = 10 * time.Second

// transport returns how the server is reached. The program of a server is started.
func (in *instance) transport() (mcp.Transport, error) {
	if in.d.URL == "" {
		p, err := in.s.startProgram(in.d, in.token)
		if err != nil {
			return nil, err
		}
		in.program = p
		return p, nil
	}
	headers, err := in.s.headers(in.d)
	if err != nil {
		return nil, err
	}
	return &mcp.StreamableClientTransport{
		Endpoint: in.d.URL, HTTPClient: newHTTPClient(headers), DisableStandaloneSSE: true, MaxEventSize: in.d.resultBytes(),
	}, nil
}

// environment returns the variables of a server's program, with its secrets.
func (s *Service) environment(d *definition) (map[string]string, error) {
	return maps.Clone(d.Env), nil
}

// headers returns the headers of the requests to a server, with its secrets.
func (s *Service) headers(d *definition) (map[string]string, error) {
	return maps.Clone(d.Headers), nil
}

// newHTTPClient returns a client that sends headers, and does not follow redirects to another
// origin.
func newHTTPClient(headers map[string]string) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: connectTimeout}).DialContext
	transport.TLSHandshakeTimeout = connectTimeout
	return &http.Client{Transport: &headerTransport{transport, headers}, CheckRedirect: sameOrigin}
}

// sameOrigin refuses a redirect to another origin.
func sameOrigin(req *http.Request, via []*http.Request) error {
	if first := via[0].URL; req.URL.Scheme != first.Scheme || req.URL.Host != first.Host || len(via) >= 5 {
		return http.ErrUseLastResponse
	}
	return nil
}

// headerTransport adds headers to requests.
type headerTransport struct {
	http.RoundTripper
	headers map[string]string
}

func (t *headerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if len(t.headers) > 0 {
		req = req.Clone(req.Context())
		for name, value := range t.headers {
			req.Header.Set(name, value)
		}
	}
	return t.RoundTripper.RoundTrip(req)
}
