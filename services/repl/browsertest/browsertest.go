// Package browsertest opens pages in a real Chromium. Only test files import it.
//
//	func TestMain(m *testing.M) {
//		status := m.Run()
//		browsertest.Stop()
//		os.Exit(status)
//	}
//
//	tab := browsertest.Open(t, "http://127.0.0.1:8302/", chromedp.WithNewWindow(true))
//	title := browsertest.JS[string](tab, "document.title")
package browsertest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// timeout ends a tab that hangs; no test depends on its length.
const timeout = 2 * time.Minute

// browser is the one browser of a test binary, started when the first test needs it.
// Its parts are set by start.
var browser struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

func start() {
	home, homeErr := os.MkdirTemp("", "zb")
	path, err := exec.LookPath("chromium")
	if browser.err = errors.Join(homeErr, err); browser.err != nil {
		return
	}
	// Few renderers: starting one takes longer than most pages of the tests.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(900, 700),
		chromedp.Flag("disable-quic", true), chromedp.Flag("renderer-process-limit", "4"), chromedp.UserDataDir(home+"/profile"),
		chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "TMPDIR="+home))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	browser.ctx = ctx
	browser.stop = func() {
		cancel()
		end()
		os.RemoveAll(home)
	}
	browser.err = chromedp.Do(ctx)
}

// Stop ends the browser, if a test has started it.
func Stop() {
	if browser.stop != nil {
		browser.stop()
	}
}

// Tab is a tab of the browser. It is closed when the test ends, or by Close.
type Tab struct {
	Context context.Context
	Close   func()
	t       testing.TB
}

// Open opens an address in a tab.
func Open(t testing.TB, address string, options ...chromedp.ContextOption) *Tab {
	t.Helper()
	browser.once.Do(start)
	if browser.err != nil {
		t.Fatalf("cannot start the browser: %v", browser.err)
	}
	ctx, cancel := chromedp.NewContext(browser.ctx, options...)
	ctx, stop := context.WithTimeout(ctx, timeout)
	tab := &Tab{Context: ctx, Close: sync.OnceFunc(func() { stop(); cancel() }), t: t}
	t.Cleanup(tab.Close)
	tab.Do(chromedp.Navigate(address))
	return tab
}

// Do performs an action.
func (tab *Tab) Do(action chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	if err := chromedp.Do(tab.Context, action); err != nil {
		tab.t.Fatal(err)
	}
}

// JS evaluates an expression in the page, without the REPL, and awaits a promise.
func JS[T any](tab *Tab, expression string) T {
	tab.t.Helper()
	value, err := chromedp.Run(tab.Context, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		tab.t.Fatalf("%s: %v", expression, err)
	}
	return value
}
