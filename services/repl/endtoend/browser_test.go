package endtoend_test

import (
	"github.com/chromedp/chromedp"

	"zino/services/repl/browsertest"
)

// tab is a tab of the browser.
type tab struct {
	*browsertest.Tab
	w *world
}

// browse opens an address in a tab. Each test has its own port and thus its own
// origin.
func (w *world) browse(address string) *tab {
	w.t.Helper()
	return &tab{browsertest.Open(w.t, address), w}
}

// show opens an address in a window, because background tabs are not painted.
func (w *world) show(address string) *tab {
	w.t.Helper()
	return &tab{browsertest.Open(w.t, address, chromedp.WithNewWindow(true)), w}
}

// in evaluates an expression in the page, not through the service.
func in[T any](v *tab, expression string) T { return browsertest.JS[T](v.Tab, expression) }

// picture saves a screenshot of a window.
func (v *tab) picture(name string) {
	v.w.t.Helper()
	png, err := chromedp.Run(v.Context, chromedp.FullScreenshot(100))
	must(v.w.t, err)
	keep(v.w.t, name, png)
}
