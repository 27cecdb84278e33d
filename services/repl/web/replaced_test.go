package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/proto"
)

// replaced are the changes of hostile pages and of libraries to built-ins. bomb throws.
var replaced = map[string]string{
	"title":            `Object.defineProperty(Document.prototype, "title", {get: bomb, set: bomb}); Object.defineProperty(document, "title", {get: bomb}); Object.defineProperty(document, "readyState", {get: bomb})`,
	"name":             `Object.defineProperty(window, "name", {get: bomb, set: bomb})`,
	"object-prototype": `for (const key of "type id job code test outline selector depth kind text timeout_ms once passive method cache headers body signal mode redirect toJSON events value2 0 1".split(" ")) Object.defineProperty(Object.prototype, key, {get: bomb, set: bomb})`,
	"then":             `Object.defineProperty(Object.prototype, "then", {get: bomb}); Promise.prototype.then = bomb`,
	"listeners":        `EventTarget.prototype.addEventListener = EventTarget.prototype.removeEventListener = EventTarget.prototype.dispatchEvent = bomb`,
	"functions":        `JSON.stringify = JSON.parse = Array.prototype.map = Array.prototype.push = String.prototype.split = Function.prototype.call = Function.prototype.apply = setTimeout = clearTimeout = bomb; WebSocket = fetch = undefined; Array.prototype[Symbol.iterator] = bomb`,
	"wrapped":          `for (const [o, key] of [[window, "setTimeout"], [JSON, "stringify"], [Promise.prototype, "then"], [EventTarget.prototype, "addEventListener"], [window, "fetch"], [Array.prototype, "map"]]) { const own = o[key]; o[key] = function (...args) { return own.apply(this, args) } }; WebSocket = class extends WebSocket {}`,
	"console-proxy":    `console = new Proxy(console, {})`,
	"console-bombs":    `console = new Proxy(console, {defineProperty: bomb, getOwnPropertyDescriptor: bomb, getPrototypeOf: bomb, has: bomb, ownKeys: bomb})`,
	"console-frozen":   `Object.freeze(console)`,
	"console-bound":    `console = new Proxy(console, {get: (o, key) => typeof o[key] === "function" ? o[key].bind(o) : o[key]})`,
	"console-none":     `console = undefined`,
}

// copied are the changes that break a script that is loaded after them: it copies what
// it finds.
var copied = map[string]bool{"functions": true, "listeners": true}

// TestReplaced checks pages that replace what the script uses, after and before it is
// loaded: the page is connected, its console is captured, code runs, and the page has
// no error that it would not have without the script.
func TestReplaced(t *testing.T) {
	const bomb = `const bomb = () => { throw new Error("bomb") }; window.failed = []; window.onerror = text => { failed.push(text) };`
	var b *env
	port := newEnv(t).elsewhere(func(w http.ResponseWriter, r *http.Request) {
		name := strings.Trim(r.URL.Path, "/")
		html(`<!doctype html><title>`+name+`</title><script>`+bomb+replaced[name]+`</script>
			<script crossorigin src="`+b.url("/zino.js")+`"></script><script>try { console.info("logged") } catch {} window.after = true</script>`)(w, r)
	})
	b = newSite(t, nil, func(cfg *config.Repl) { cfg.Origins = []string{"http://127.0.0.1:" + port} })
	check := func(name string, captured bool) {
		t.Helper()
		page := b.connected(name, 1)
		b.want(page.ID, `[1, {a: "b"}]`, `json [1,{"a":"b"}]`)
		b.want(page.ID, "const r = await 5; r", "json 5")
		b.want(page.ID, "failed.concat(after)", "json [true]")
		b.want(page.ID, `typeof zino.outline()`, "text string")
		if captured {
			b.logged(page.ID, "logged")
		}
		if outline, err := b.service.Outline(t.Context(), proto.OutlinePage{Page: page.ID}); err != nil || outline.Text == "" {
			t.Errorf("%s: outline %+v, %v", name, outline, err)
		}
	}
	for name, change := range replaced {
		b.write(name+".html", `<!doctype html><title>`+name+` after</title><script>`+bomb+change+`</script><script>try { console.info("logged") } catch {} window.after = true</script>`)
		v := b.browse(b.url("/" + name + ".html"))
		check(name+"-after", name != "console-none")
		v.Close()
	}
	for name := range replaced {
		if copied[name] {
			continue
		}
		v := b.browse("http://127.0.0.1:" + port + "/" + name)
		check(name, !strings.HasPrefix(name, "console-") || name == "console-proxy")
		v.Close()
	}
	// What breaks the script does not break the page, and the log says that the page does
	// not connect.
	b.stop()
	b.tune = func(s *Server) { s.silentAfter = 50 * time.Millisecond }
	b.start()
	v := b.browse("http://127.0.0.1:" + port + "/functions")
	if !js[bool](v, "after") {
		t.Error("the page has stopped")
	}
	b.until("the log says so", func() bool { return b.out.Contains("has loaded the script and does not connect") })
}
