package web

import (
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"zino/pkg/config"
	"zino/proto"
	"zino/services/repl/browsertest"
)

func TestMain(m *testing.M) {
	status := m.Run()
	browsertest.Stop()
	os.Exit(status)
}

// browse opens an address in a separate browser context.
func (b *env) browse(address string) *browsertest.Tab {
	b.t.Helper()
	return browsertest.Open(b.t, address, chromedp.WithNewBrowserContext())
}

// js evaluates an expression in the page, not through the service.
func js[T any](tab *browsertest.Tab, expression string) T {
	return browsertest.JS[T](tab, expression)
}

// connected waits for n pages with that name, and returns the first.
func (b *env) connected(name string, n int) proto.Page {
	b.t.Helper()
	var found []proto.Page
	b.until(name+" is connected", func() bool {
		found = found[:0]
		for _, page := range b.pages() {
			if page.Name == name {
				found = append(found, page)
			}
		}
		return len(found) == n
	})
	if n == 0 {
		return proto.Page{}
	}
	return found[0]
}

// eval runs code in a page through the service.
func (b *env) eval(page, code string) proto.Evaluated {
	b.t.Helper()
	result, err := b.service.Eval(b.t.Context(), proto.Eval{Page: page, Code: code})
	if err != nil {
		b.t.Fatalf("%s: %v", code, err)
	}
	return result
}

// want evaluates code and compares the value.
func (b *env) want(page, code, want string) {
	b.t.Helper()
	if got := b.eval(page, code); !got.OK || got.Kind+" "+valueOf(got) != want {
		b.t.Errorf("%s: %s %s%s, want %s", code, got.Kind, valueOf(got), got.Error, want)
	}
}

// site configures the service to serve its directory.
func site(cfg *config.Repl) { cfg.Serve = cfg.Dir }

// newSite starts a service that serves the given pages.
func newSite(t *testing.T, pages map[string]string, change ...func(*config.Repl)) *env {
	b := newEnv(t, append(change, site)...)
	for name, text := range pages {
		b.write(name, text)
	}
	return b
}

// url returns the address of a page.
func (b *env) url(path string) string { return "http://" + b.addr + path }

// elsewhere serves a page from another port.
func (b *env) elsewhere(handler http.HandlerFunc) (port string) {
	b.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(b.t, err)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	b.t.Cleanup(func() {
		server.Close()
		<-done
	})
	_, port, _ = strings.Cut(l.Addr().String(), ":")
	return port
}

// html answers with a page.
func html(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if _, err := w.Write([]byte(text)); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}
