package web

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"zino/proto"
)

const app = `<!doctype html><html><head><title>Index - 7 Zen</title><script>console.log("early", {n: 1}); queueMicrotask(() => { throw new TypeError("boom") })</script></head>
<body><p id="p" class="a">text</p><p>two</p></body></html>`

// TestPage: a page that the service serves is a realm, from its first moment.
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
	var said []string
	for _, e := range got.Background {
		said = append(said, e.Type+" "+e.Level+" "+e.Message)
	}
	if len(said) == 0 || said[len(said)-1] != "console warn during" {
		t.Errorf("background %q", said)
	}
	b.until("the file has what came before", func() bool {
		text, err := os.ReadFile(filepath.Join(b.dir, page.File))
		return err == nil && strings.Contains(string(text), "Text console.log\nearly {\"n\":1}\n") && strings.Contains(string(text), "Error window.onerror\nTypeError: boom\n")
	})
}

// TestShown: what a browser has besides the language prints as something useful.
func TestShown(t *testing.T) {
	b := newSite(t, map[string]string{"app.html": app, "frame.html": "<iframe src='app.html'></iframe>"})
	b.browse(b.url("/app.html"))
	id := b.connected("index-7-zen", 1).ID
	for code, want := range map[string]string{
		"document.querySelector('p')":      `text <p id="p" class="a">text</p>`,
		"document":                         "text #document " + b.url("/app.html"),
		"p.firstChild":                     `text #text "text"`,
		"[p, document.createComment('c')]": `text [<p id="p" class="a">,#comment "c"]`,
		"document.querySelectorAll('p')":   `text NodeList {"0":<p id="p" class="a">,"1":<p>,"length":2}`,
		"window":                           "text [Window]",
		"[window, parent]":                 "text [[Window],[Window]]",
		"new DOMRect(1, 2, 3, 4)":          `text DOMRect {"x":1,"y":2,"width":3,"height":4,"top":2,"right":4,"bottom":6,"left":1}`,
		"new DOMPoint(1)":                  `text DOMPoint {"x":1,"y":0,"z":0,"w":1}`,
		"[Promise.resolve(1)]":             "text [Promise {}]",
		"new URLSearchParams('a=1')":       `text URLSearchParams {"size":1}`,
	} {
		got := b.eval(id, code)
		if value := got.Kind + " " + got.Value; !got.OK || compact(value) != compact(want) {
			t.Errorf("%s: %s%s, want %s", code, value, got.Error, want)
		}
	}
	for _, code := range []string{"navigator", "document.styleSheets", "getComputedStyle(p)", "performance", "new Event('x')", "location", "crypto", "document.all", "customElements", "new Proxy(p, {})"} {
		if got := b.eval(id, code); !got.OK || len(got.Value) < 2 || len(got.Value) > 3<<20 {
			t.Errorf("%s: %+v", code, got)
		}
	}
	for _, code := range []string{"document.querySelector('!')", "new DOMException('not a valid selector', 'SyntaxError')"} {
		if got := b.eval(id, code); !strings.Contains(got.Value+got.Error, "SyntaxError") || !strings.Contains(got.Value+got.Error, "not a valid selector") {
			t.Errorf("an exception: %+v", got)
		}
	}
}

// compact leaves the blanks out.
func compact(s string) string { return strings.Join(strings.Fields(s), "") }

// TestTaken: a page that takes away what the script works with is a realm
// nevertheless, and comes back after a restart.
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

// TestReload: the page keeps its id, and what ran in it has failed.
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
		v.do(chromedp.Reload())
		b.until("it answers", func() bool { return b.answers(first.ID, "document.readyState") })
	}
	if again.ID != first.ID || again.File != first.File {
		t.Errorf("%+v became %+v", first, again)
	}
	v.do(chromedp.Navigate(b.url("/other.html")))
	if other := b.connected("other", 1); other.ID != first.ID {
		t.Errorf("another page in the same tab is %+v", other)
	}
	v.do(chromedp.NavigateBack())
	if back := b.connected("index-7-zen", 1); back.ID != first.ID {
		t.Errorf("the page that was gone back to is %+v", back)
	}
	v.close()
	b.until("it is gone", func() bool { return len(b.pages()) == 0 })
}

// answers reports whether a realm runs code now.
func (b *bench) answers(page, code string) bool {
	b.t.Helper()
	got, err := b.service.Eval(b.t.Context(), proto.Eval{Page: page, Code: code})
	return err == nil && got.OK
}

// TestTabs: each tab is a realm, and a copy of one is another.
func TestTabs(t *testing.T) {
	b := newSite(t, map[string]string{"app.html": app})
	v := b.browse(b.url("/app.html"))
	first := b.connected("index-7-zen", 1)
	b.browse(b.url("/app.html"))
	b.connected("index-7-zen", 2)
	js[bool](v, "!!window.open(location.href)") // a copy: it has the same storage
	b.connected("index-7-zen", 3)
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

// TestRestart: pages come back by themselves, with their ids and a new token.
func TestRestart(t *testing.T) {
	b := newSite(t, map[string]string{"app.html": app})
	v := b.browse(b.url("/app.html"))
	first := b.connected("index-7-zen", 1)
	js[bool](v, "window.kept = true")
	for range 2 {
		b.stop()
		b.start()
		if again := b.connected("index-7-zen", 1); again.ID != first.ID {
			t.Errorf("%+v became %+v", first, again)
		}
		b.want(first.ID, "kept", "json true")
	}
}
