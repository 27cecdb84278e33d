package web

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
)

const app = `<!doctype html><html><head><title>Index - 7 Zen</title><script>console.log("early", {n: 1}); queueMicrotask(() => { throw new TypeError("boom") })</script></head>
<body><p id="p" class="a">text</p><p>two</p></body></html>`

// TestPage checks evaluation in a served page, and that events before the connection
// are captured.
func TestPage(t *testing.T) {
	b := newSite(t, map[string]string{"app.html": app})
	b.browse(b.url("/app.html?secret=1#here"))
	page := b.connected("index-7-zen", 1)
	if page.URL != b.url("/app.html") || page.Kind != "page" || page.Lang != "js" {
		t.Errorf("page %+v", page)
	}
	b.want(page.ID, "12+13", "json 25")
	b.want(page.ID, "document.title", "text Index - 7 Zen")
	b.want(page.ID, "var kept = 1; function twice(x) { return 2 * x }", "text undefined")
	b.want(page.ID, "twice(kept)", "json 2")
	b.want(page.ID, "const r = await fetch('/app.html'); r.status", "json 200")
	if got := b.eval(page.ID, "null.x"); got.OK || !strings.HasPrefix(got.Error, "TypeError: Cannot read properties of null") || strings.Contains(got.Error, "zino.js") {
		t.Errorf("evaluated %+v", got)
	}
	got := b.eval(page.ID, "console.warn('during'); 1")
	var logged []string
	for _, e := range got.Background {
		logged = append(logged, e.Type+" "+e.Level+" "+e.Message)
	}
	if len(logged) == 0 || logged[len(logged)-1] != "console warn during" {
		t.Errorf("background %q", logged)
	}
	b.until("the file has the early events", func() bool {
		text, err := os.ReadFile(filepath.Join(b.dir, page.File))
		return err == nil && loggedBlock("Text console.log", `early {"n":1}`).Match(text) && loggedBlock("Error window.onerror", "TypeError: boom").Match(text)
	})
}

// loggedBlock matches the block of an event with its time and place.
func loggedBlock(info, first string) *regexp.Regexp {
	return regexp.MustCompile(regexp.QuoteMeta(info) + ` [0-9:]{8}(\.[0-9]{3})?( .*)?\n` + regexp.QuoteMeta(first) + `\n`)
}

// TestShown checks the text form of browser objects.
func TestShown(t *testing.T) {
	b := newSite(t, map[string]string{"app.html": app, "frame.html": "<iframe src='app.html'></iframe>"})
	b.browse(b.url("/app.html"))
	id := b.connected("index-7-zen", 1).ID
	for code, want := range map[string]string{
		"document.querySelector('p')":                   `"<p id=\"p\" class=\"a\">text</p>"`,
		"document":                                      `"#document ` + b.url("/app.html") + `"`,
		"p.firstChild":                                  `"#text \"text\""`,
		"[p, document.createComment('c')]":              `["<p id=\"p\" class=\"a\">","#comment \"c\""]`,
		"document.querySelectorAll('p')":                `{"[NodeList]":["<p id=\"p\" class=\"a\">","<p>"]}`,
		"p.classList":                                   `{"[DOMTokenList]":["a"]}`,
		"window":                                        `"[Window]"`,
		"[window, parent]":                              `["[Window]","[Window]"]`,
		"new DOMRect(1, 2, 3, 4)":                       `{"[class]":"DOMRect","x":1,"y":2,"width":3,"height":4,"top":2,"right":4,"bottom":6,"left":1}`,
		"new DOMPoint(1)":                               `{"[class]":"DOMPoint","x":1,"y":0,"z":0,"w":1}`,
		"[Promise.resolve(1)]":                          `[{"[class]":"Promise"}]`,
		"new URLSearchParams('a=1')":                    `{"[URLSearchParams]":[["a","1"]]}`,
		"new Headers({a: 1})":                           `{"[Headers]":[["a","1"]]}`,
		"var d = new FormData(); d.append('a', 'x'); d": `{"[FormData]":[["a","x"]]}`,
		"new Blob(['x'], {type: 'a/b'})":                `{"[class]":"Blob","size":1,"type":"a/b"}`,
		"new URL('http://x/')":                          `"http://x/"`,
		"[new String('abc')]":                           `[{"[String]":"abc"}]`,
		"[document.all.length, document.all]":           `[8,{"[HTMLAllCollection]":["<html>","<head>","<script src=\"/zino.js\">","<title>","<script>","<body>","<p id=\"p\" class=\"a\">","<p>"]}]`,
		"var i = document.createElement('i'); i.style.color = 'red'; i.style": `{"[CSSStyleDeclaration]":"color: red;"}`,
	} {
		got := b.eval(id, code)
		if value := got.Kind + " " + valueOf(got); !got.OK || compact(value) != compact("json "+want) {
			t.Errorf("%s: %s%s, want %s", code, value, got.Error, want)
		}
	}
	for _, code := range []string{"navigator", "document.styleSheets", "getComputedStyle(p)", "performance", "new Event('x')", "location", "crypto", "document.all", "customElements", "new Proxy(p, {})", "new Proxy(window, {})", "document.body.style", "fetch('/app.html')", "localStorage"} {
		got := b.eval(id, code)
		if !got.OK || got.Kind != "json" || !json.Valid([]byte(valueOf(got))) {
			t.Errorf("%s: %+v", code, got)
		}
	}
	for _, code := range []string{"document.querySelector('!')", "new DOMException('not a valid selector', 'SyntaxError')"} {
		if got := b.eval(id, code); !strings.Contains(valueOf(got)+got.Error, "SyntaxError") || !strings.Contains(valueOf(got)+got.Error, "not a valid selector") {
			t.Errorf("an exception: %+v", got)
		}
	}
}

// compact removes all white space.
func compact(s string) string { return strings.Join(strings.Fields(s), "") }

// TestTaken checks that the script works, and reconnects after a restart, in a page
// that replaces every built-in that the script uses.
func TestTaken(t *testing.T) {
	b := newSite(t, map[string]string{"app.html": `<title>Taken</title><script>const keys = Reflect.ownKeys;
		const all = [JSON, Promise.prototype, Array.prototype, String.prototype, Map.prototype, Reflect, Object, console, EventTarget.prototype, WebSocket.prototype];
		for (let i = 0; i < all.length; i++) for (let o = all[i], k = keys(o), j = 0; j < k.length; j++)
			if (k[j] !== "constructor") try { o[k[j]] = () => { throw "taken" } } catch {}
		JSON = Promise = WebSocket = fetch = setTimeout = undefined; console = {}; Object.prototype.toJSON = () => "taken"</script>`})
	b.browse(b.url("/app.html"))
	page := b.connected("taken", 1)
	for range 2 {
		b.want(page.ID, "[1, {a: 'b'}]", `json [1,{"a":"b"}]`)
		b.want(page.ID, "const r = await 5; r", "json 5")
		b.want(page.ID, "typeof JSON + typeof setTimeout", "text undefinedundefined")
		b.stop()
		b.start()
		b.connected("taken", 1)
	}
}

// TestReload checks that a reloaded page keeps its id, and that its job fails. A page
// with another title in the same tab has the same file.
func TestReload(t *testing.T) {
	b := newSite(t, map[string]string{"app.html": app, "other.html": "<title>Other</title>"})
	v := b.browse(b.url("/app.html"))
	first := b.connected("index-7-zen", 1)
	got := b.eval(first.ID, "location.reload(); new Promise(() => {})")
	if got.OK || !strings.Contains(got.Error, "page closed or reloaded") {
		t.Errorf("evaluated %+v", got)
	}
	again := b.connected("index-7-zen", 1)
	for range 3 {
		v.Do(chromedp.Reload())
		b.until("it answers", func() bool { return b.answers(first.ID, "document.readyState") })
	}
	if again.ID != first.ID || again.File != first.File {
		t.Errorf("%+v became %+v", first, again)
	}
	v.Do(chromedp.Navigate(b.url("/other.html")))
	titled := func(title string) {
		t.Helper()
		b.until("the title is "+title, func() bool {
			pages := b.pages()
			return len(pages) == 1 && pages[0].Title == title && pages[0].ID == first.ID && pages[0].File == first.File
		})
	}
	titled("Other")
	v.Do(chromedp.NavigateBack())
	titled("")
	v.Close()
	b.until("the page is disconnected", func() bool { return len(b.pages()) == 0 })
}

// answers reports whether a page evaluates code without an error.
func (b *env) answers(page, code string) bool {
	b.t.Helper()
	got, err := b.service.Eval(b.t.Context(), proto.Eval{Page: page, Code: code})
	return err == nil && got.OK
}

// TestTabs checks that each tab, also a duplicated one, is a separate page that does
// not wait for the others.
func TestTabs(t *testing.T) {
	b := newSite(t, map[string]string{"app.html": app})
	v := b.browse(b.url("/app.html"))
	first := b.connected("index-7-zen", 1)
	b.browse(b.url("/app.html"))
	b.connected("index-7-zen", 2)
	js[bool](v, "!!window.open(location.href)") // a copy: it has the same storage
	b.connected("index-7-zen", 3)
	endless := make(chan error, 1)
	go func() {
		_, err := b.service.Eval(t.Context(), proto.Eval{Page: first.ID, Code: "begun = true; new Promise(end => { window.end = end })"})
		endless <- err
	}()
	b.until("it runs", func() bool { return js[bool](v, "globalThis.begun === true") })
	for _, page := range b.pages() {
		if page.ID != first.ID {
			b.want(page.ID, "1 + 1", "json 2")
		}
	}
	js[bool](v, "end(), true")
	must(t, <-endless)
	seen := map[string]bool{}
	for i, page := range b.pages() {
		seen[page.ID] = true
		b.want(page.ID, "var number = "+string(rune('0'+i))+"; number", "json "+string(rune('0'+i)))
	}
	if len(seen) != 3 || !seen[first.ID] {
		t.Errorf("ids %v, the first was %s", seen, first.ID)
	}
	for i, page := range b.pages() {
		b.want(page.ID, "number", "json "+string(rune('0'+i)))
	}
}

// TestRestart checks that pages reconnect automatically, with their ids and the new
// token.
func TestRestart(t *testing.T) {
	b := newSite(t, map[string]string{"app.html": app})
	v := b.browse(b.url("/app.html"))
	first := b.connected("index-7-zen", 1)
	js[bool](v, "window.kept = true")
	b.want(first.ID, "kept", "json true") // the page has received its id
	for range 2 {
		b.stop()
		b.start()
		if again := b.connected("index-7-zen", 1); again.ID != first.ID {
			t.Errorf("%+v became %+v", first, again)
		}
		b.want(first.ID, "kept", "json true")
	}
}

// TestWorlds checks that frames and workers of all kinds are separate pages.
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
	b.until("the worker's log has its message", func() bool {
		text := zinotest.Read(t, filepath.Join(b.dir, b.connected("worker-js", 1).File))
		return loggedBlock("```Text console.info", "started\n```").MatchString(text)
	})
	b.want(b.connected("worker-js", 1).ID, "const x = await fetch('frame.html'); x.status", "json 200")
	b.want(b.connected("main", 1).ID, "frames[0].document.title", "text Frame")
	b.want(b.connected("main", 1).ID, "frames[0]", `json "[Window]"`)
	ids := map[string]bool{}
	for _, page := range b.pages() {
		ids[page.ID] = true
	}
	v.Do(chromedp.Reload())
	b.until("the frames are connected again", func() bool {
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

// TestListedOrigin checks that pages of a listed origin, and their workers, can load
// the script with the attribute crossorigin.
func TestListedOrigin(t *testing.T) {
	var b *env
	script := func() string { return "http://" + b.addr + "/zino.js" }
	port := newEnv(t).elsewhere(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/worker.js":
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write([]byte(`import "` + script() + `"`)) // after an error the worker does not connect below
		default:
			html(`<title>Listed</title><script crossorigin src="`+script()+`"></script><script>new Worker("worker.js", {type: "module", name: "Elsewhere"})</script>`)(w, r)
		}
	})
	b = newEnv(t, func(cfg *config.Repl) { cfg.Origins = []string{"http://127.0.0.1:" + port} })
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

// TestBookmarklet loads the script into an open page.
func TestBookmarklet(t *testing.T) {
	b := newEnv(t)
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
	b.until("the script is loaded twice", func() bool {
		return b.answers(page.ID, "if (document.querySelectorAll('script').length < 2) throw 'not yet'")
	})
	if n := len(b.pages()); n != 1 {
		t.Errorf("%d pages after the bookmarklet was used twice", n)
	}
}

// TestPolicy checks the error in a page whose policy forbids eval, and that a page
// whose policy forbids the socket is not affected.
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
	b.want(b.connected("typed", 1).ID, "1", "json 1")
	v := b.browse(b.url("/closed.html"))
	if n := js[int](v, "after"); n != 1 || len(b.pages()) != 2 {
		t.Errorf("after %d, pages %+v", n, b.pages())
	}
}
