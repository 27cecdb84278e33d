package rtr

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/fakellm"
	"zino/pkg/rpc"
	"zino/proto"
)

// testKey holds characters that JSON and URLs write in other ways.
const testKey = `sk-te"st/0123+45\6789`

// router is a Service behind a real socket.
type router struct {
	*Service
	client *rpc.Client
	log    *lockedBuffer
}

// start serves a router with the given configuration and no keys in its
// environment but those that the test has set with t.Setenv before.
func start(t *testing.T, change func(*config.Config)) *router {
	t.Helper()
	for _, name := range []string{"LLM_API_KEY", "OPENAI_API_KEY"} {
		if !strings.HasPrefix(os.Getenv(name), "test-") {
			t.Setenv(name, "")
		}
	}
	cfg := config.Default()
	cfg.Service.Model = "m"
	change(cfg)
	log := &lockedBuffer{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := New(cfg, logger)
	if err != nil {
		t.Fatal(err)
	}
	s.probes = nil
	server := rpc.NewServer("rtr", logger)
	s.Register(server)
	path := listen(t, server)
	client := &rpc.Client{Service: "rtr", Path: path}
	t.Cleanup(func() {
		client.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &router{s, client, log}
}

func listen(t *testing.T, server *rpc.Server) (path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		os.RemoveAll(dir)
	})
	return path
}

// openaiRouter serves a router that asks a scripted provider with testKey.
func openaiRouter(t *testing.T, script ...fakellm.Turn) (*router, *fakellm.Server) {
	t.Helper()
	llm := fakellm.New(script...)
	t.Cleanup(llm.Close)
	r := start(t, func(cfg *config.Config) {
		cfg.API.BaseURL, cfg.API.Key = llm.URL, testKey
		cfg.Rtr.StallTimeout = 20
	})
	return r, llm
}

// chunks is a sink that keeps what comes.
type chunks struct {
	list    []string
	onChunk func()
}

func (c *chunks) Text(delta []byte) error {
	c.list = append(c.list, string(delta))
	if c.onChunk != nil {
		c.onChunk()
	}
	return nil
}

func (c *chunks) Flush() error { return nil }

func (c *chunks) text() string { return strings.Join(c.list, "") }

func ask(text string, stream bool) proto.Infer {
	return proto.Infer{Messages: proto.Raw(`[{"role":"user","content":"` + text + `"}]`), Temperature: 0, TopP: 1, Stream: stream}
}

// infer asks the router over its socket.
func (r *router) infer(ctx context.Context, in proto.Infer, sink *chunks) (string, error) {
	text, err := rpc.CallText(ctx, r.client, proto.RtrInfer, in, sink)
	return text.Content, err
}

func (r *router) caps(t *testing.T) proto.RouterCapabilities {
	t.Helper()
	caps, err := rpc.Call(t.Context(), r.client, proto.RtrCapabilities, proto.CapabilitiesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return caps
}

// failure returns the error that crossed the socket.
func failure(t *testing.T, err error) *proto.Error {
	t.Helper()
	e, ok := errors.AsType[*proto.Error](err)
	if !ok {
		t.Fatalf("got %v, want an error of the protocol", err)
	}
	return e
}

// noSecret fails if a form of testKey stands in text.
func noSecret(t *testing.T, where, text string) {
	t.Helper()
	for _, form := range []string{testKey, quotedKey, url.QueryEscape(testKey), url.PathEscape(testKey)} {
		if strings.Contains(text, form) {
			t.Errorf("%s holds the key: %s", where, text)
		}
	}
}

// lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// answering is an endpoint whose answers come from a function instead of the
// network, for tests of many answers.
func answering(body func() io.Reader) *endpoint {
	u, err := parseBase("http://127.0.0.1:9/v1")
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(body()), Request: req}, nil
	})}
	return newEndpoint(client, settings{base: u, key: testKey, model: "m"})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
