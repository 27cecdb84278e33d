package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"zino/pkg/config"
)

// TestWorlds: frames and workers of all kinds are realms of their own.
func TestWorlds(t *testing.T) {
	b := newSite(t, map[string]string{
		"main.html": `<title>Main</title><iframe src=frame.html></iframe><iframe src=frame.html></iframe><script>
			plain = new Worker("worker.js"); named = new Worker("module.js", {type: "module", name: "Module"}); shared = new SharedWorker("worker.js", "Shared")</script>`,
		"frame.html": `<title>Frame</title>`,
		"worker.js":  `importScripts("/zino.js"); console.info("started"); var here = self.name || "plain"`,
		"module.js":  `import "/zino.js"; globalThis.here = self.name`,
	})
	v := b.browse(b.url("/main.html"))
	for name, want := range map[string]struct {
		n           int
		kind, where string
	}{
		"main": {1, "page", "location.pathname"}, "frame": {2, "frame", "location.pathname"},
		"worker-js": {1, "worker", "here"}, "module": {1, "worker", "here"}, "shared": {1, "shared worker", "here"},
	} {
		page := b.connected(name, want.n)
		if page.Kind != want.kind {
			t.Errorf("%s is a %q, not a %q", name, page.Kind, want.kind)
		}
		value := map[string]string{"main": "/main.html", "frame": "/frame.html", "worker-js": "plain", "module": "Module", "shared": "Shared"}[name]
		b.want(page.ID, want.where, "text "+value)
		b.want(page.ID, "typeof document", "text "+map[bool]string{true: "undefined", false: "object"}[strings.Contains(want.kind, "worker")])
	}
	b.want(b.connected("worker-js", 1).ID, "const x = await fetch('frame.html'); x.status", "json 200")
	b.want(b.connected("main", 1).ID, "frames[0].document.title", "text Frame")
	b.want(b.connected("main", 1).ID, "frames[0]", "text [Window]")
	ids := map[string]bool{}
	for _, page := range b.pages() {
		ids[page.ID] = true
	}
	v.do(chromedp.Reload())
	b.until("the frames are there again", func() bool {
		kept := 0
		for _, page := range b.pages() {
			if ids[page.ID] && (page.Kind == "page" || page.Kind == "frame") {
				kept++
			}
		}
		return kept == 3 && len(b.pages()) == 6
	})
	b.want(b.connected("main", 1).ID, "plain.terminate()", "text undefined")
	b.connected("worker-js", 0)
}

// TestListedOrigin: pages of an origin that is listed load the script, with
// the attribute; so do their frames and workers.
func TestListedOrigin(t *testing.T) {
	var b *bench
	script := func() string { return "http://" + b.addr + "/zino.js" }
	port := newBench(t).elsewhere(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/worker.js":
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write([]byte(`import "` + script() + `"`)) // else the worker is missed below
		default:
			html(`<title>Listed</title><script crossorigin src="`+script()+`"></script><script>new Worker("worker.js", {type: "module", name: "Elsewhere"})</script>`)(w, r)
		}
	})
	b = newBench(t, func(cfg *config.Repl) { cfg.Origins = []string{"http://127.0.0.1:" + port} })
	b.browse("http://127.0.0.1:" + port + "/")
	page := b.connected("listed", 1)
	b.want(page.ID, "location.port", "text "+port)
	b.want(b.connected("elsewhere", 1).ID, "1 + 1", "json 2")
	b.stop()
	b.start()
	if again := b.connected("listed", 1); again.ID != page.ID {
		t.Errorf("%+v became %+v", page, again)
	}
}

// TestBookmarklet brings the script into a page that is open already.
func TestBookmarklet(t *testing.T) {
	b := newBench(t)
	port := b.elsewhere(html("<title>Open</title><p>"))
	b.stop()
	b.cfg.Origins = []string{"http://127.0.0.1:" + port}
	b.start()
	link := js[string](b.browse(b.url("/zino/")), `document.getElementById("bookmarklet").href`)
	v := b.browse("http://127.0.0.1:" + port + "/")
	js[bool](v, "location.href = "+quote(link)+", true")
	page := b.connected("open", 1)
	b.want(page.ID, "1 + 1", "json 2")
	js[bool](v, "location.href = "+quote(link)+", true")
	b.until("it is there twice", func() bool {
		return b.answers(page.ID, "if (document.querySelectorAll('script').length < 2) throw 'not yet'")
	})
	if n := len(b.pages()); n != 1 {
		t.Errorf("%d realms after the bookmarklet was used twice", n)
	}
}

// TestPolicy: a page that forbids eval says so, and one that forbids the socket
// goes on without it.
func TestPolicy(t *testing.T) {
	b := newSite(t, map[string]string{
		"strict.html": `<meta http-equiv="Content-Security-Policy" content="script-src 'self' 'unsafe-inline'"><title>Strict</title><script>console.log("works")</script>`,
		"typed.html":  `<meta http-equiv="Content-Security-Policy" content="require-trusted-types-for 'script'"><title>Typed</title>`,
		"closed.html": `<meta http-equiv="Content-Security-Policy" content="connect-src 'none'"><title>Closed</title><script>after = 1</script>`,
	})
	b.browse(b.url("/strict.html"))
	page := b.connected("strict", 1)
	for _, code := range []string{"1", "await 1", "var x = 1"} {
		got := b.eval(page.ID, code)
		if got.OK || !strings.Contains(got.Error, "the page's Content-Security-Policy forbids eval: allow 'unsafe-eval' in script-src") {
			t.Errorf("%s: %+v", code, got)
		}
	}
	b.browse(b.url("/typed.html"))
	if got := b.eval(b.connected("typed", 1).ID, "1"); got.OK || !strings.Contains(got.Error, "Content-Security-Policy forbids eval") {
		t.Errorf("evaluated %+v", got)
	}
	v := b.browse(b.url("/closed.html"))
	if n := js[int](v, "after"); n != 1 || len(b.pages()) != 2 {
		t.Errorf("after %d, pages %+v", n, b.pages())
	}
}
