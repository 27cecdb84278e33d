package web

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"zino/pkg/config"
	"zino/proto"
)

// chromium is the one browser of all tests here, started when the first needs it.
var chromium struct {
	once  sync.Once
	ctx   context.Context
	close func()
	err   error
}

// TestMain ends the browser with the tests.
func TestMain(m *testing.M) {
	status := m.Run()
	if chromium.close != nil {
		chromium.close()
	}
	os.Exit(status)
}

func startChromium() {
	home, err := os.MkdirTemp("", "z")
	if err != nil {
		chromium.err = err
		return
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		chromium.err = err
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.UserDataDir(home+"/profile"), chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "TMPDIR="+home))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	chromium.ctx = ctx
	chromium.close = func() {
		cancel()
		end()
		os.RemoveAll(home)
	}
	chromium.err = chromedp.Do(ctx)
}

// tab is a page of the browser.
type tab struct {
	b     *env
	ctx   context.Context
	close func()
}

// browse opens an address in a window that shares nothing with other tests.
func (b *env) browse(address string) *tab {
	b.t.Helper()
	chromium.once.Do(startChromium)
	if chromium.err != nil {
		b.t.Fatalf("the browser: %v", chromium.err)
	}
	ctx, cancel := chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext())
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	v := &tab{b: b, ctx: ctx, close: sync.OnceFunc(func() { stop(); cancel() })}
	b.t.Cleanup(v.close)
	v.do(chromedp.Navigate(address))
	return v
}

func (v *tab) do(action chromedp.Action[chromedp.Void]) {
	v.b.t.Helper()
	must(v.b.t, chromedp.Do(v.ctx, action))
}

// js evaluates an expression in the page, not through the service.
func js[T any](v *tab, expression string) T {
	v.b.t.Helper()
	value, err := chromedp.Run(v.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		v.b.t.Fatalf("%s: %v", expression, err)
	}
	return value
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
	if got := b.eval(page, code); !got.OK || got.Kind+" "+got.Value != want {
		b.t.Errorf("%s: %s %s%s, want %s", code, got.Kind, got.Value, got.Error, want)
	}
}

// site serves the directory, with an app in it.
func site(cfg *config.Repl) { cfg.Serve = cfg.Dir }

// newSite is a service that serves pages to a browser.
func newSite(t *testing.T, pages map[string]string, change ...func(*config.Repl)) *env {
	b := newEnv(t, append(change, site)...)
	for name, text := range pages {
		b.write(name, text)
	}
	return b
}

// url is the address of a page.
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
