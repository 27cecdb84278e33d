package wire

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

const (
	connectTime = 10 * time.Second
	// bufferSize of a connection, in bytes: a router has many streams open, and
	// what is larger passes the buffer by.
	bufferSize = 512
	// wholeFactor is how many times longer an answer that comes in one piece
	// may take than a stream may pause: no byte of it comes while the model
	// writes.
	wholeFactor = 10
	// silentFactor is how many times longer a stream may send nothing but
	// comments and pings than it may send nothing at all.
	silentFactor = 5
)

// MaxAnswer is the most bytes that an answer's text and arguments may have; a
// packet could not hold more.
const MaxAnswer = 16 << 20

// Endpoint is a place where a provider is reached, and as whom.
type Endpoint struct {
	// Client makes the requests: see NewClient.
	Client *http.Client
	// Base is the base URL, with credentials if it was given some, and Name the
	// same without, for people.
	Base, Name string
	// Key is the provider's key, empty for none.
	Key string
	// Token says that the key is one that Anthropic takes as a bearer's.
	Token bool
	// KeyHint says what to set for a key, and BaseHint for the base URL.
	KeyHint, BaseHint string
	// Stall is how long the provider may be silent; 0: without a limit.
	Stall time.Duration
	// Observe, if not nil, is told the status and header of every answer, save
	// of those that say to come back another day.
	Observe func(status int, header http.Header)

	mask  mask
	extra http.Header // sent beside ours
}

// NewEndpoint returns an endpoint. The hints are for the caller to set.
func NewEndpoint(client *http.Client, base *url.URL, key string, stall time.Duration) *Endpoint {
	shown := *base
	shown.User = nil
	return &Endpoint{
		Client: client, Base: base.String(), Name: shown.String(), Key: key, Stall: stall,
		KeyHint: "a key", BaseHint: "the base URL", mask: newMask(key, base.User),
	}
}

// Add has Anthropic's wire send more headers. Their values are secrets.
func (ep *Endpoint) Add(extra http.Header) {
	var values []string
	for _, list := range extra {
		values = append(values, list...)
	}
	base, _ := url.Parse(ep.Base) // it was made of one
	ep.extra, ep.mask = extra, newMask(ep.Key, base.User, values...)
}

// NewClient returns the HTTP client of all endpoints. It has no time limit of
// its own but for connecting: an answer may take as long as bytes come.
// ProxyFromEnvironment leaves loopback alone.
func NewClient() *http.Client {
	dialer := &net.Dialer{Timeout: connectTime, KeepAlive: 30 * time.Second}
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: connectTime,
		IdleConnTimeout:     90 * time.Second,
		MaxIdleConnsPerHost: 8,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // a compressed stream would come in lumps
		ReadBufferSize:      bufferSize,
		WriteBufferSize:     bufferSize,
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
	to := url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host, Path: req.URL.Path}
	for _, ours := range []string{"/chat/completions", "/responses", "/v1/messages", "/api/chat", "/v1beta/"} {
		to.Path, _, _ = strings.Cut(to.Path, ours)
	}
	return &proto.Error{
		Code: proto.CodeUnavailable, Kind: kindHTTP, Status: req.Response.StatusCode,
		Message: "the provider redirects to " + oneLine(to.String(), 300) + ", which is not followed: if that is right, set the base URL to it",
	}
}

// IsLocal reports whether a base URL leads to this host or a private network,
// where a model server serves what its owner has put there, to any caller.
func IsLocal(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast())
}

// identify says who asks, unless the user says it.
func identify(req *http.Request) {
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "zino/"+rpc.Version)
	}
}

// bearer adds the key in OpenAI's way.
func (ep *Endpoint) bearer(h http.Header) {
	if ep.Key != "" {
		h.Set("Authorization", "Bearer "+ep.Key)
	}
}
