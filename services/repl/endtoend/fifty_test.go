package endtoend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"zino/proto"
)

// behind opens an address in a tab that is not shown, and returns what closes it.
func (v *tab) behind(address string) (closeTab func()) {
	v.w.t.Helper()
	background := true
	browser := chromedp.FromContext(v.ctx).Browser
	made, err := cdp.Call(v.ctx, browser, target.CreateTarget, target.CreateTargetParams{URL: address, Background: &background})
	must(v.w.t, err)
	return func() {
		_, err := cdp.Call(v.ctx, browser, target.CloseTarget, target.CloseTargetParams(made))
		must(v.w.t, err)
	}
}

// TestFiftyTabs: fifty tabs of one browser are connected at once, and each
// answers a request of its own.
func TestFiftyTabs(t *testing.T) {
	t.Parallel()
	const tabs = 50
	w := newWorld(t, "")
	v := w.browse(w.url + "/tab.html?n=1")
	for n := 2; n <= tabs; n++ {
		defer v.behind(fmt.Sprintf("%s/tab.html?n=%d", w.url, n))()
	}
	var pages []proto.Page
	w.until("all are connected", func() bool {
		pages = w.pages()
		return len(pages) == tabs && strings.Count(w.file("debug.md"), " state: idle\n") == tabs
	})
	const code = `document.title + ": " + location.search`
	histories := map[string]string{}
	for _, p := range pages {
		histories[p.File] = w.history(p.File)
		w.add(p.File, js(code))
	}
	names := map[string]bool{}
	for _, p := range pages {
		n := strings.TrimPrefix(p.Name, "tab-")
		want := answered(code, "Text", "Tab "+n+": ?n="+n)
		if got := plain(p, w.since(p.File, histories[p.File])); got != want {
			t.Errorf("%s: the exchange is\n%s\nwant\n%s", p.Name, got, want)
		}
		names[p.Name] = true
	}
	if len(names) != tabs || len(histories) != tabs {
		t.Errorf("%d names, %d files", len(names), len(histories))
	}
}
