package web

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/services/repl"
)

// bench is a service with its HTTP side in a directory of the test's own.
type bench struct {
	*Server
	t      testing.TB
	cfg    config.Repl
	dir    string
	addr   string // "127.0.0.1:port"
	log    *syncBuffer
	served chan error
	tune   func(*Server) // before it serves
}

// newBench starts both on a free port.
func newBench(t testing.TB, change ...func(*config.Repl)) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("something is left behind: %v", err)
		}
	})
	b := &bench{t: t, dir: dir, cfg: config.Default().Repl, log: &syncBuffer{}}
	b.cfg.Dir, b.cfg.Socket, b.cfg.HTTP = dir, filepath.Join(dir, "s"), "127.0.0.1:0"
	b.cfg.DebounceMS, b.cfg.Quiet, b.cfg.Cadence = 30, 0.2, 0.3
	for _, f := range change {
		f(&b.cfg)
	}
	b.start()
	t.Cleanup(b.stop)
	return b
}

// start begins to serve, on the port that it had if it has served before.
func (b *bench) start() {
	b.t.Helper()
	log := slog.New(slog.NewTextHandler(b.log, nil))
	service, err := repl.New(b.cfg, log)
	if err != nil {
		b.t.Fatal(err)
	}
	if b.Server, err = New(b.cfg, service, log); err != nil {
		b.t.Fatal(err)
	}
	if b.tune != nil {
		b.tune(b.Server)
	}
	l, err := net.Listen("tcp", b.cfg.HTTP)
	if err != nil {
		b.t.Fatal(err)
	}
	b.addr = l.Addr().String()
	b.cfg.HTTP = b.addr
	b.served = make(chan error, 1)
	go func() { b.served <- b.Serve(l) }()
	b.until("it serves", func() bool {
		res, err := client.Get("http://" + b.addr + "/zino.js")
		if err != nil {
			return false
		}
		return res.Body.Close() == nil && res.StatusCode == http.StatusOK
	})
}

func (b *bench) stop() {
	b.t.Helper()
	if err := b.Close(); err != nil {
		b.t.Errorf("Close: %v", err)
	}
	if err := <-b.served; err != nil {
		b.t.Errorf("Serve: %v", err)
	}
	if err := b.service.Close(); err != nil {
		b.t.Errorf("the service's Close: %v", err)
	}
}

// until waits for a condition.
func (b *bench) until(what string, condition func() bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.t.Fatalf("waited in vain: %s\n%s", what, b.log)
		}
	}
}

// write makes a file in the directory of the REPL.
func (b *bench) write(name, text string) {
	b.t.Helper()
	file := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// request asks as somebody with these headers would; "Host" is one of them.
func (b *bench) request(method, path string, headers map[string]string) *http.Response {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, "http://"+b.addr+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	if host, ok := headers["Host"]; ok {
		req.Host = host
	}
	res, err := client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { res.Body.Close() })
	return res
}

// get returns a page's text, which has to be there.
func (b *bench) get(path string) string {
	b.t.Helper()
	res := b.request("GET", path, nil)
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		b.t.Fatalf("GET %s: %s, %v: %s", path, res.Status, err, text)
	}
	return string(text)
}

// client follows no redirect and keeps no connection.
var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// with is a set of headers and some more.
func with(headers map[string]string, more ...string) map[string]string {
	headers = maps.Clone(headers)
	for i := 0; i < len(more); i += 2 {
		headers[more[i]] = more[i+1]
	}
	return headers
}

// syncBuffer is a log that a test reads while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
