package web

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/debugger"
	"github.com/chromedp/chromedp"

	"zino/pkg/zinotest"
	"zino/proto"
)

var loggedAt = regexp.MustCompile(`^\d\d:\d\d:\d\d\.\d{3}$`)

// events returns what a page has logged, one line an event: source, place and message.
func (b *env) events(page string) string {
	b.t.Helper()
	log, err := b.service.Log(b.t.Context(), proto.ReadPageLog{Page: page})
	must(b.t, err)
	var out strings.Builder
	for _, e := range log.Events {
		if !loggedAt.MatchString(e.TS) {
			b.t.Errorf("the time of %+v", e)
		}
		out.WriteString(cmp.Or(e.Source, e.Type) + " " + e.Place + " " + e.Message + "\n" + e.Stack + "\n")
	}
	return out.String()
}

// logged waits until the page has logged every text.
func (b *env) logged(page string, texts ...string) string {
	b.t.Helper()
	var got string
	for _, text := range texts {
		b.until(text, func() bool { got = b.events(page); return strings.Contains(got, text) })
	}
	return got
}

// TestCaptured checks what a page reports of its console, errors, resources and
// requests.
func TestCaptured(t *testing.T) {
	b := newSite(t, map[string]string{
		"console.html": `<!doctype html><title>Console</title><script src="/sub/app.js?t=17"></script>`,
		"sub/app.js": `console.log("one", {a: [1]});
console.debug("two"); console.assert(true, "no"); console.assert(1 > 2, "wrong %s", "x");
function deep() { console.trace("here"); }
deep();
console.table([{a: 1}], ["a"]); console.dir({b: 2}, {depth: 1}); console.group("label");
Promise.resolve().then(async () => { await 1; console.info("later"); });
console.log(document.createElement("main"));
const changed = {n: 1}; console.log(changed); changed.n = 2;`,
		"errors.html": `<!doctype html><title>Errors</title><link rel=stylesheet href=/nope.css><script src=/nope.mjs?key=abc></script>
<script type=module src=/broken.mjs></script><script src=/syntax.js></script><script src=/thrown.js></script><img src=nope.png>`,
		"broken.mjs": `import "./missing.mjs"`,
		"syntax.js":  "let a = 1;\nlet = = 2;",
		"thrown.js":  "function inner() { null.x }\nfunction outer() { inner() }\nsetTimeout(outer);\nPromise.reject(new RangeError('lost'));\nsetTimeout(() => { throw 'text' })",
		"fetch.html": `<!doctype html><title>Fetch</title><script src=/fetch.js></script>`,
		"fetch.js": `var results = {};
fetch("/missing?token=abc&page=2").then(async r => { results.body = await r.text(); });
fetch("http://127.0.0.1:1/x").catch(e => { results.error = e; });
const stop = new AbortController; fetch("/fetch.html", {signal: stop.signal}).catch(e => { results.aborted = e.name; }); stop.abort();
const xhr = new XMLHttpRequest; xhr.open("put", "/nothing"); xhr.send("body");
fetch("/fetch.html").then(r => r.body.getReader().read()).then(r => { results.streamed = r.value.length; });
addEventListener("unhandledrejection", e => { (results.unhandled ??= []).push("" + e.reason); });
fetch("http://127.0.0.1:1/unhandled");`,
	})
	b.browse(b.url("/console.html"))
	page := b.connected("console", 1)
	all := b.logged(page.ID, "later")
	for _, want := range []string{
		"console.log app.js:1 one {\"a\":[1]}\n", "console.debug app.js:2 two\n", "console.assert app.js:2 Assertion failed: wrong x\n",
		"console.trace app.js:3 here\n    at deep (" + b.url("/sub/app.js") + "?t=17:3:", "console.table app.js:5 [{\"a\":1}]\n", "console.dir app.js:5 {\"b\":2}\n",
		"console.group app.js:5 label\n", "console.info app.js:6 later\n", "console.log app.js:7 <main>\n", "console.log app.js:8 {\"n\":1}\n",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
	if strings.Contains(all, "zino.js") || strings.Contains(all, " no\n") {
		t.Errorf("logged\n%s", all)
	}

	b.browse(b.url("/errors.html"))
	id := b.connected("errors", 1).ID
	all = b.logged(id, "img src", "broken.mjs> failed", "Uncaught text", "RangeError: lost", "nope.css")
	for _, want := range []string{
		"resource  <link href=/nope.css> failed to load\n", "resource  <script src=/nope.mjs?key=…> failed to load\n    " + b.url("/nope.mjs") + "?key=…",
		"resource  <img src=nope.png> failed to load\n    " + b.url("/nope.png"), "resource  <script src=/broken.mjs> failed to load\n", "    " + b.url("/missing.mjs") + " answered 404\n",
		"window.onerror syntax.js:2 SyntaxError: Unexpected token '='\n", "    at " + b.url("/syntax.js") + ":2:",
		"window.onerror thrown.js:1 TypeError: Cannot read properties of null (reading 'x')\n", "    at inner (" + b.url("/thrown.js") + ":1:", "    at outer (" + b.url("/thrown.js") + ":2:",
		"window.onerror thrown.js:5 Uncaught text\n    at " + b.url("/thrown.js") + ":5:", "unhandledrejection thrown.js:4 RangeError: lost\n",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}

	b.browse(b.url("/fetch.html"))
	id = b.connected("fetch", 1).ID
	all = b.logged(id, "/missing?", "127.0.0.1:1/x", "/unhandled", "/nothing")
	for _, want := range []string{
		"fetch fetch.js:2 GET " + b.url("/missing") + "?token=…&page=… answered 404 (", "fetch fetch.js:3 GET http://127.0.0.1:1/x failed: TypeError: Failed to fetch (",
		"XMLHttpRequest fetch.js:5 PUT " + b.url("/nothing") + " answered 4",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
	if strings.Contains(all, "abc") || strings.Contains(all, "/fetch.html") {
		t.Errorf("logged\n%s", all)
	}
	b.want(id, "[results.aborted, results.streamed > 0, results.error.name, typeof results.body, results.unhandled.length]", `json ["AbortError",true,"TypeError","string",1]`)
	b.want(id, "fetch + fetch.name + fetch.length + XMLHttpRequest.prototype.send", "text function fetch() { [native code] }fetch1function send() { [native code] }")
	b.want(id, "var own = fetch; fetch = async () => 'replaced'; const got = await fetch('/missing'); fetch = own; got", "text replaced")
}

// TestCapturedRarely checks failures that the browser reports in a way of their own: of
// synchronous requests, of bodies that are not JSON, at the top level of modules and in
// scripts of another origin.
func TestCapturedRarely(t *testing.T) {
	b := newSite(t, map[string]string{
		"later.js": `try { const x = new XMLHttpRequest; x.open("GET", "http://127.0.0.1:1/sync?key=abc", false); x.send() } catch (e) { window.thrown = e.name }
const missing = new XMLHttpRequest; missing.open("GET", "/missing.json", false); missing.send();
fetch("/later.html").then(r => r.json());
async function load() { return (await fetch("/later.html")).json(); }
load().then(() => {});
JSON.parse("{");`,
		"top.mjs":    "await 0;\nthrow new RangeError('top level');",
		"import.mjs": "import './inner.mjs';\nconsole.log('never')",
		"inner.mjs":  "await null;\n(await fetch('/later.html')).json().then(null);\nnull.inner",
	})
	port := b.elsewhere(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		if _, err := w.Write([]byte("setTimeout(() => { throw new Error('secret later') }); null.secret")); err != nil {
			panic(http.ErrAbortHandler)
		}
	})
	far := "http://127.0.0.1:" + port + "/far.js"
	b.write("later.html", `<!doctype html><title>Later</title><script src=later.js></script><script type=module src=top.mjs></script><script type=module src=import.mjs></script><script src="`+far+`?key=abc"></script>`)
	b.browse(b.url("/later.html"))
	id := b.connected("later", 1).ID
	all := b.logged(id, "/sync", "top level", "reading 'inner'", "Script error.", "later.js:3 JSON", "later.js:4 JSON", "inner.mjs:2 JSON")
	for want, n := range map[string]int{
		"XMLHttpRequest later.js:1 GET http://127.0.0.1:1/sync?key=… failed (": 1, "XMLHttpRequest later.js:2 GET " + b.url("/missing.json") + " answered 404 (": 1,
		"unhandledrejection": 0, "is not valid JSON": 3, "fetch later.js:3 JSON " + b.url("/later.html") + " failed: SyntaxError: Unexpected token '<', \"<!doctype \"... is not valid JSON (": 1, "fetch later.js:4 JSON ": 1, "fetch inner.mjs:2 JSON ": 1, "window.onerror top.mjs:2 RangeError: top level\n": 1, "window.onerror inner.mjs:3 TypeError: ": 1, "window.onerror later.js:6 SyntaxError: ": 1,
		"window.onerror  Script error.\n    in a script of another origin; the attribute crossorigin shows more: " + far + "?key=…\n": 1, "Script error.\n": 2, "abc": 0, "secret": 0,
	} {
		if got := strings.Count(all, want); got != n {
			t.Errorf("%q: %d times, want %d", want, got, n)
		}
	}
	if t.Failed() {
		t.Log(all)
	}
	b.want(id, "thrown", "text NetworkError")
}

// TestSourceMap checks that developer tools are told to ignore the script, which they
// need to show a message of the console at the code that logged it.
func TestSourceMap(t *testing.T) {
	b := newSite(t, map[string]string{"app.html": app})
	v := b.browse("about:blank")
	maps := make(chan string, 100)
	must(t, chromedp.Listen(v.Context, func(event any) {
		if e, ok := event.(*debugger.EventScriptParsed); ok && strings.HasSuffix(e.URL, "/zino.js") {
			maps <- e.SourceMapURL
		}
	}))
	v.Do(func(ctx context.Context, target *chromedp.Target) (none chromedp.Void, err error) {
		_, err = cdp.Call(ctx, target, debugger.Enable, debugger.EnableParams{})
		return none, err
	})
	v.Do(chromedp.Navigate(b.url("/app.html")))
	got := js[map[string]any](v, "fetch("+quote(zinotest.Receive(t, "a source map", maps))+").then(r => r.json())")
	if list, ok := got["ignoreList"].([]any); !ok || len(list) != 1 || got["version"] != 3.0 || got["mappings"] == "" {
		t.Errorf("the source map is %v", got)
	}
}
