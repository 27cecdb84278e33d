package agr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
)

// patience ends a test that would wait for ever.
const patience = 20 * time.Second

// bench is an agent over a fake rtr, a fake exc and a fake mem, all on real
// sockets.
type bench struct {
	t    *testing.T
	cfg  *config.Config
	path string // the agent's socket
	rtr  *router
	exc  *executor
	mem  *memory
	cat  *catalog.Catalog

	server *rpc.Server // the agent's
}

var files = map[string]string{
	"tools/bash.json":    `{"meta":{"executor":"bash","file_extension":".sh"}}`,
	"tools/python.json":  `{"meta":{"executor":"python3","file_extension":".py"}}`,
	"skills/disk.json":   `{"interpreter":[{"role":"system","content":"restate <it>"},{"role":"user","content":"e","name":"kept"}],"fabricator":[{"role":"system","content":"write"}]}`,
	"skills/snake.json":  `{"meta":{"executor":"python3"},"interpreter":[],"fabricator":[]}`,
	"skills/broken.json": `{"meta":`,
}

// newBench starts everything. Replies of the router come from script, in order.
func newBench(t *testing.T, script ...reply) *bench {
	t.Helper()
	return startBench(t, func(*config.Config) {}, script...)
}

// startBench is newBench with a configuration that adjust has changed.
func startBench(t *testing.T, adjust func(*config.Config), script ...reply) *bench {
	t.Helper()
	dir := shortDir(t)
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	cfg := config.Default()
	cfg.Rtr.Socket, cfg.Exc.Socket, cfg.Mem.Socket = filepath.Join(dir, "rtr"), filepath.Join(dir, "exc"), filepath.Join(dir, "mem")
	cfg.Repl.Socket = filepath.Join(dir, "repl") // where nobody listens unless the test says so
	adjust(cfg)
	b := &bench{t: t, cfg: cfg, path: filepath.Join(dir, "agr"), rtr: &router{script: script}, exc: &executor{}, mem: &memory{}}
	log := slog.New(slog.DiscardHandler)
	serve(t, "rtr", cfg.Rtr.Socket, b.rtr.register)
	serve(t, "exc", cfg.Exc.Socket, b.exc.register)
	serve(t, "mem", cfg.Mem.Socket, b.mem.register)
	cat, err := catalog.Open(filepath.Join(dir, "tools"), filepath.Join(dir, "skills"), log)
	if err != nil {
		t.Fatal(err)
	}
	b.cat = cat
	s := New(cfg, cat, log)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	b.server = serve(t, "agr", b.path, s.Register)
	return b
}

// shortDir is a directory that leaves room for a socket's name.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// serve runs a service on path until the test ends.
func serve(t testing.TB, name, path string, register func(*rpc.Server)) *rpc.Server {
	t.Helper()
	s := rpc.NewServer(name, slog.New(slog.DiscardHandler))
	register(s)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(s.Shutdown(ctx), <-served); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	return s
}

// reply answers one inference.
type reply func(ctx context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error)

// router is a fake rtr: it records requests and plays a script.
type router struct {
	mu       sync.Mutex
	script   []reply
	requests []proto.Infer
}

func (r *router) register(s *rpc.Server) { rpc.HandleText(s, proto.RtrInfer, r.infer) }

func (r *router) infer(ctx context.Context, req proto.Infer, out *rpc.Out) (proto.Text, error) {
	r.mu.Lock()
	n := len(r.requests)
	req.Messages, req.Tools = bytes.Clone(req.Messages), bytes.Clone(req.Tools) // they lie in the connection's buffer
	r.requests = append(r.requests, req)
	script := r.script
	r.mu.Unlock()
	if n >= len(script) {
		return proto.Text{}, fmt.Errorf("no reply for inference %d", n+1)
	}
	return script[n](ctx, req, out)
}

// asked returns the requests so far.
func (r *router) asked() []proto.Infer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests[:len(r.requests):len(r.requests)]
}

// says replies with the pieces, each in a packet of its own if a stream is
// wanted.
func says(pieces ...string) reply {
	return func(_ context.Context, _ proto.Infer, out *rpc.Out) (proto.Text, error) {
		for _, piece := range pieces {
			if err := errors.Join(out.Text([]byte(piece)), out.Flush()); err != nil {
				return proto.Text{}, err
			}
		}
		return proto.Text{Content: strings.Join(pieces, "")}, nil
	}
}
