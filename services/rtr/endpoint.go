package rtr

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"zino/pkg/rpc"
	"zino/proto"
)

const (
	connectTime = 10 * time.Second
	// wholeFactor is how many times longer an answer that comes in one piece
	// may take than a stream may pause: no byte of it comes while the model
	// writes.
	wholeFactor = 10
	maxAnswer   = 16 << 20 // bytes of an answer's text; a packet could not hold more
)

// endpoint is one OpenAI-compatible provider.
type endpoint struct {
	client    *http.Client
	base      string // with credentials, if the configuration has some
	name      string // the same without
	key       string
	model     string
	maxTokens int
	stall     time.Duration
	mask      mask
}

func newEndpoint(client *http.Client, set settings) *endpoint {
	shown := *set.base
	shown.User = nil
	e := &endpoint{
		client: client, base: set.base.String(), name: shown.String(), key: set.key, model: set.model,
		maxTokens: set.maxTokens, stall: set.stall, mask: newMask(set.key, set.base.User),
	}
	if e.model == "" && set.base.String() == openAI {
		e.model = defaultModel
	}
	return e
}

// newClient returns the HTTP client of all endpoints. It has no time limit of
// its own but for connecting: an answer may take as long as bytes come.
// ProxyFromEnvironment leaves loopback alone.
func newClient() *http.Client {
	dialer := &net.Dialer{Timeout: connectTime, KeepAlive: 30 * time.Second}
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: connectTime,
		IdleConnTimeout:     90 * time.Second,
		MaxIdleConnsPerHost: 8,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // a compressed stream would come in lumps
	}
	return &http.Client{Transport: transport, CheckRedirect: checkRedirect}
}

// checkRedirect follows a redirect only where the request stays what it is and
// the key stays with the server that it is for.
func checkRedirect(req *http.Request, via []*http.Request) error {
	from := via[0]
	if len(via) < 5 && req.Method == from.Method && req.URL.Scheme == from.URL.Scheme && req.URL.Host == from.URL.Host {
		return nil
	}
	to := url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host, Path: strings.TrimSuffix(req.URL.Path, "/chat/completions")}
	return &proto.Error{
		Code: proto.CodeUnavailable, Status: req.Response.StatusCode,
		Message: "the provider redirects to " + oneLine(to.String(), 300) + ", which is not followed: if that is right, set [api] base_url to it",
	}
}

// authorize adds the key, if there is one.
func (e *endpoint) authorize(req *http.Request) {
	req.Header.Set("User-Agent", "zino/"+rpc.Build)
	if e.key != "" {
		req.Header.Set("Authorization", "Bearer "+e.key)
	}
}

// infer is the provider "openai".
func (e *endpoint) infer(ctx context.Context, in proto.Infer, sink rpc.Sink) (string, error) {
	body, err := e.request(in)
	if err != nil {
		return "", err
	}
	x := e.begin(ctx, body, in.Stream, sink)
	defer x.end()
	config := openai.DefaultConfig(e.key)
	config.BaseURL, config.HTTPClient = e.base, x
	// The request that go-openai makes is empty: x sends ours in its place.
	stream, err := openai.NewClientWithConfig(config).CreateChatCompletionStream(x.ctx, openai.ChatCompletionRequest{})
	if err != nil {
		return "", err
	}
	return x.read(stream, sink)
}
