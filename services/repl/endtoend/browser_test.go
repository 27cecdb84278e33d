package endtoend_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/chromedp/chromedp"
)

// chromium is the one browser of all tests, started when the first needs it.
var chromium struct {
	once  sync.Once
	ctx   context.Context
	close func()
	err   error
}

func startChromium() {
	home := filepath.Join(base, "browser")
	path, err := exec.LookPath("chromium")
	if err == nil {
		err = os.Mkdir(home, 0o700)
	}
	if err != nil {
		chromium.err = err
		return
	}
	// Few renderers: starting one takes longer than most pages here.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(900, 700),
		chromedp.Flag("disable-quic", true), chromedp.Flag("renderer-process-limit", "4"), chromedp.UserDataDir(home+"/profile"), chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "TMPDIR="+home))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	chromium.ctx = ctx
	chromium.close = func() {
		cancel()
		end()
	}
	chromium.err = chromedp.Do(ctx)
}

// tab is a tab of the browser.
type tab struct {
	w     *world
	ctx   context.Context
	close func()
}

// browse opens an address in a tab. Each test has its own port, and so its own
// origin.
func (w *world) browse(address string) *tab {
	w.t.Helper()
	return w.open(address, false)
}

// show opens an address in a window: a tab that is not in front is not painted.
func (w *world) show(address string) *tab {
	w.t.Helper()
	return w.open(address, true)
}

func (w *world) open(address string, window bool) *tab {
	w.t.Helper()
	chromium.once.Do(startChromium)
	if chromium.err != nil {
		w.t.Fatalf("the browser: %v", chromium.err)
	}
	ctx, cancel := chromedp.NewContext(chromium.ctx, chromedp.WithNewWindow(window))
	ctx, stop := context.WithTimeout(ctx, 2*timeout)
	v := &tab{w: w, ctx: ctx, close: sync.OnceFunc(func() { stop(); cancel() })}
	w.t.Cleanup(v.close)
	v.do(chromedp.Navigate(address))
	return v
}

func (v *tab) do(action chromedp.Action[chromedp.Void]) {
	v.w.t.Helper()
	must(v.w.t, chromedp.Do(v.ctx, action))
}

// in evaluates an expression in the page, not through the service.
func in[T any](v *tab, expression string) T {
	v.w.t.Helper()
	value, err := chromedp.Run(v.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		v.w.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// picture keeps a screenshot of a window.
func (v *tab) picture(name string) {
	v.w.t.Helper()
	png, err := chromedp.Run(v.ctx, chromedp.FullScreenshot(100))
	must(v.w.t, err)
	keep(v.w.t, name, png)
}
