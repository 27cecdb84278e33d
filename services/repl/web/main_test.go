package web

import (
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/repl"
)

var must = zinotest.Must

// env is a service with its HTTP server in a temporary directory.
type env struct {
	*Server
	t      testing.TB
	cfg    config.Repl
	dir    string
	addr   string // "127.0.0.1:port"
	out    zinotest.Buffer
	served chan error
	tune   func(*Server) // called before it serves
}

// newEnv starts the service on a free port.
func newEnv(t testing.TB, change ...func(*config.Repl)) *env {
	t.Helper()
	b := &env{t: t, dir: zinotest.Dir(t), cfg: config.Default().Repl}
	b.cfg.Dir, b.cfg.Socket, b.cfg.HTTP = b.dir, filepath.Join(b.dir, "s"), "127.0.0.1:0"
	b.cfg.DebounceMS, b.cfg.Quiet, b.cfg.Cadence = 30, 0.2, 0.3
	for _, f := range change {
		f(&b.cfg)
	}
	b.start()
	t.Cleanup(b.stop)
	return b
}

// start starts the service, after stop on the same port.
func (b *env) start() {
	b.t.Helper()
	log := b.out.Logger()
	service, err := repl.New(b.cfg, nil, log)
	must(b.t, err)
	b.Server, err = New(b.cfg, service, log)
	must(b.t, err)
	if b.tune != nil {
		b.tune(b.Server)
	}
	l, err := net.Listen("tcp", b.cfg.HTTP)
	must(b.t, err)
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

func (b *env) stop() {
	b.t.Helper()
	for _, err := range []error{b.Close(), <-b.served, b.service.Close()} {
		if err != nil {
			b.t.Error(err)
		}
	}
}

// until waits for a condition.
func (b *env) until(what string, condition func() bool) {
	b.t.Helper()
	zinotest.Eventually(b.t, what, condition)
}

// write writes a file in the directory of the REPL.
func (b *env) write(name, text string) {
	b.t.Helper()
	zinotest.Write(b.t, filepath.Join(b.dir, name), text)
}

// request sends a request with these headers, which may include "Host".
func (b *env) request(method, path string, headers map[string]string) *http.Response {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, "http://"+b.addr+path, nil)
	must(b.t, err)
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	if host, ok := headers["Host"]; ok {
		req.Host = host
	}
	res, err := client.Do(req)
	must(b.t, err)
	b.t.Cleanup(func() { res.Body.Close() })
	return res
}

// status checks the status of a GET request for each path.
func (b *env) status(want map[string]int) {
	b.t.Helper()
	for path, status := range want {
		if res := b.request("GET", path, nil); res.StatusCode != status {
			b.t.Errorf("%s: %d, want %d", path, res.StatusCode, status)
		}
	}
}

// get returns the text of a page.
func (b *env) get(path string) string {
	b.t.Helper()
	res := b.request("GET", path, nil)
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		b.t.Fatalf("GET %s: %s, %v: %s", path, res.Status, err, text)
	}
	return string(text)
}

// client does not follow redirects and does not reuse connections.
var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// with returns a copy of headers with additional names and values.
func with(headers map[string]string, more ...string) map[string]string {
	headers = maps.Clone(headers)
	for i := 0; i < len(more); i += 2 {
		headers[more[i]] = more[i+1]
	}
	return headers
}

// valueOf returns the value of code that ran, or "".
func valueOf(r proto.Evaluated) string {
	if r.Value == nil {
		return ""
	}
	return *r.Value
}
