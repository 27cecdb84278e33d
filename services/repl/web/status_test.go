package web

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"zino/pkg/config"
	"zino/pkg/zinotest"
)

// TestStatusHeaders checks that the policy forbids foreign scripts and framing.
func TestStatusHeaders(t *testing.T) {
	b := newEnv(t)
	for path, kind := range map[string]string{"/zino/": "text/html; charset=utf-8", "/zino/status.js": "text/javascript; charset=utf-8", "/zino/status.css": "text/css; charset=utf-8"} {
		res := b.request("GET", path, nil)
		if got := res.Header.Get("Content-Type"); got != kind {
			t.Errorf("%s: type %q", path, got)
		}
		if got := res.Header.Get("Content-Security-Policy"); !strings.Contains(got, "default-src 'none'") || !strings.Contains(got, "frame-ancestors 'none'") || strings.Contains(got, "unsafe") {
			t.Errorf("%s: policy %q", path, got)
		}
	}
	if strings.Contains(b.get("/zino.js"), "status") {
		t.Error("the page script contains the script of the status page")
	}
}

// TestStatusText checks that the page shows the configuration, HTML-escaped.
func TestStatusText(t *testing.T) {
	b := newEnv(t, func(cfg *config.Repl) {
		cfg.Origins = []string{"http://a.example", `http://"><script>`}
		cfg.Serve = cfg.Dir
	})
	page := b.get("/zino/")
	zinotest.Contains(t, "the text", page, "<code>http://a.example</code>", "<code>http://&#34;&gt;&lt;script&gt;</code>", b.dir, `value="&lt;script crossorigin src=&#34;`+b.url("/zino.js")+`&#34;&gt;&lt;/script&gt;"`)
	if strings.Count(page, "<script") != 1 {
		t.Errorf("the configuration became markup:\n%s", page)
	}
}

// TestStatusLive checks that the list is updated automatically, also after a restart
// of the service.
func TestStatusLive(t *testing.T) {
	b := newSite(t, map[string]string{"app.html": app})
	status := b.browse(b.url("/zino/"))
	says := func(text string) {
		t.Helper()
		b.until("the page shows "+text, func() bool { return strings.Contains(js[string](status, "document.body.innerText"), text) })
	}
	says("No page is connected.")
	v := b.browse(b.url("/app.html?x=<img>"))
	page := b.connected("index-7-zen", 1)
	says("One page is connected.")
	says("index-7-zen-" + page.ID)
	says(page.File)
	says("idle")
	js[bool](status, "(globalThis.item = document.querySelector('#pages li'), true)")
	b.want(page.ID, "1", "json 1")
	says("completed (")
	if !js[bool](status, "item === document.querySelector('#pages li')") {
		t.Error("the entry was replaced")
	}
	b.browse(b.url("/app.html"))
	says("2 pages are connected.")
	b.stop()
	says("The service does not answer. Trying again…")
	b.start()
	says("2 pages are connected.")
	v.Close()
	says("One page is connected.")
}

// TestStatusLayout checks that the page fits into a narrow window, follows the colour
// scheme of the system, and can be used with the keyboard.
func TestStatusLayout(t *testing.T) {
	b := newSite(t, map[string]string{"app.html": strings.Replace(app, "Index - 7 Zen", strings.Repeat("long", 20), 1)})
	b.browse(b.url("/app.html"))
	v := b.browse(b.url("/zino/"))
	b.until("the list is there", func() bool { return js[int](v, "document.querySelectorAll('#pages li').length") == 1 })
	v.Do(chromedp.EmulateViewport(360, 640))
	if width := js[int](v, "document.documentElement.scrollWidth"); width > 360 {
		t.Errorf("the page is %d pixels wide", width)
	}
	var focused []string
	for range 7 {
		v.Do(chromedp.KeyEvent(kb.Tab))
		focused = append(focused, js[string](v, "document.activeElement.getAttribute('href') || document.activeElement.id || document.activeElement.textContent"))
	}
	if got := strings.Join(focused, " "); !strings.HasPrefix(got, b.url("/app.html")+" / tag Copy javascript:") || !strings.HasSuffix(got, "address Copy") {
		t.Errorf("the keyboard reaches %s", got)
	}
	if outline := js[string](v, "getComputedStyle(document.activeElement).outlineStyle"); outline != "solid" {
		t.Errorf("the focused element has the outline %q", outline)
	}
	colours := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
		if _, err := chromedp.Call(v.Context, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
			t.Fatal(err)
		}
		colours[js[string](v, "getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color")] = true
		if ratio := js[float64](v, contrast); ratio < 4.5 {
			t.Errorf("%s: the contrast is %.1f", scheme, ratio)
		}
	}
	if len(colours) != 2 {
		t.Errorf("light and dark are the same: %v", colours)
	}
}

// contrast computes the minimum contrast ratio of the texts of the page.
const contrast = `(() => {
	const parse = c => c.match(/[\d.]+/g).map(Number);
	const light = c => { const [r, g, b] = parse(c).map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b };
	const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (parse(c)[3] !== 0) return c } return "rgb(255,255,255)" };
	return Math.min(...[...document.querySelectorAll("main *")].map(e => {
		const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
		return (a + .05) / (b + .05);
	}));
})()`
