package rtr

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
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

// quotedKey is testKey inside a JSON string.
const quotedKey = `sk-te\"st/0123+45\\6789`

// variables are those of the environment that say something to a router.
var variables = []string{
	"ZINO_API_KEY", "LLM_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "OLLAMA_HOST",
	"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GEMINI_BASE_URL", "OPENROUTER_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "CREDENTIALS_DIRECTORY", "ZDX_HOME", "XDG_CONFIG_HOME",
}

// alone takes away what the host's environment says, once in a test: what the
// test sets thereafter stays.
func alone(t *testing.T) {
	t.Helper()
	if os.Getenv("ZINO_TEST_ALONE") == t.Name() {
		return
	}
	for _, name := range variables {
		t.Setenv(name, "")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("ZINO_HOME", home)
	t.Setenv("ZINO_TEST_ALONE", t.Name())
}

// router is a Service behind a real socket. Its pauses before a request is
// made again take no time, and its own clock goes on by them.
type router struct {
	*Service
	client *rpc.Client
	log    *lockedBuffer
	close  func() // as a test's end does; the socket is served on

	mu     sync.Mutex
	pauses []time.Duration
}

// now is a clock in which the pauses were waited for.
func (r *router) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, d := range r.pauses {
		now = now.Add(d)
	}
	return now
}

func (r *router) paused() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.pauses)
}

// start serves a router with the given configuration, and with nothing in its
// environment but what the test has set after calling alone.
func start(t *testing.T, change func(*config.Config)) *router {
	t.Helper()
	alone(t)
	cfg := config.Default()
	cfg.Service.Model = "m"
	cfg.Rtr.DataDir = t.TempDir()
	change(cfg)
	log := &lockedBuffer{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := New(cfg, logger)
	if err != nil {
		t.Fatal(err)
	}
	r := &router{Service: s, log: log}
	s.probes = nil
	s.pause = func(ctx context.Context, d time.Duration) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.pauses = append(r.pauses, d)
		return ctx.Err()
	}
	server := rpc.NewServer("rtr", logger)
	s.Register(server)
	r.client = &rpc.Client{Service: "rtr", Path: listen(t, server)}
	r.close = sync.OnceFunc(func() {
		r.client.Close()
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	t.Cleanup(r.close)
	return r
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
	events  []string // other packets
	onChunk func()
	onEvent func()
}

// Text keeps a chunk.
func (c *chunks) Text(delta []byte) error {
	c.list = append(c.list, string(delta))
	if c.onChunk != nil {
		c.onChunk()
	}
	return nil
}

// Event keeps another packet.
func (c *chunks) Event(_ string, payload []byte) error {
	c.events = append(c.events, string(payload))
	if c.onEvent != nil {
		c.onEvent()
	}
	return nil
}

// Flush has nothing to do.
func (c *chunks) Flush() error { return nil }

func (c *chunks) text() string { return strings.Join(c.list, "") }

func ask(text string, stream bool) proto.Infer {
	return proto.Infer{Messages: proto.Raw(`[{"role":"user","content":"` + text + `"}]`), Temperature: 0, TopP: 1, Stream: stream}
}

// infer asks the router over its socket.
func (r *router) infer(ctx context.Context, in proto.Infer, sink *chunks) (string, error) {
	text, err := r.answer(ctx, in, sink)
	return text.Content, err
}

// answer is infer with all that belongs to the answer.
func (r *router) answer(ctx context.Context, in proto.Infer, sink *chunks) (proto.Text, error) {
	return rpc.CallText(ctx, r.client, proto.RtrInfer, in, sink)
}

func (r *router) caps(t *testing.T) proto.RouterCapabilities {
	t.Helper()
	caps, err := rpc.Call(t.Context(), r.client, proto.RtrCapabilities, proto.CapabilitiesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return caps
}

func (r *router) report(t *testing.T, req proto.UsageRequest) (proto.UsageReport, error) {
	t.Helper()
	return rpc.Call(t.Context(), r.client, proto.RtrUsage, req)
}

// quiet returns when no request is worked on any more.
func (r *router) quiet(t *testing.T) {
	t.Helper()
	for {
		stats, err := rpc.Call(t.Context(), r.client, proto.GetStats, proto.StatsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if stats.InFlight == 0 {
			return
		}
	}
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
