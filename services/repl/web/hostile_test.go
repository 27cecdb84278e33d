package web

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
)

// quote returns a JavaScript string literal.
func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// attacks are the attempts of a page of another origin that knows the token, the id
// of a page and its file. The value of each expression is the result.
var attacks = map[string]string{
	"script":       `new Promise(r => { const s = document.createElement("script"); s.src = base + "/zino.js"; s.onload = () => r("loaded"); s.onerror = () => r("refused"); document.head.append(s) })`,
	"cors script":  `new Promise(r => { const s = document.createElement("script"); s.crossOrigin = ""; s.src = base + "/zino.js"; s.onload = () => r("loaded"); s.onerror = () => r("refused"); document.head.append(s) })`,
	"module":       `import(base + "/zino.js").then(() => "loaded", () => "refused")`,
	"fetch":        `fetch(base + "/zino.js").then(r => r.text()).then(() => "read", () => "refused")`,
	"opaque":       `fetch(base + "/zino.js", {mode: "no-cors"}).then(r => r.text()).then(t => t ? "read" : "refused", () => "refused")`,
	"file":         `fetch(base + "/app.html").then(r => r.text()).then(() => "read", () => "refused")`,
	"log":          `fetch(base + "/debug.md").then(r => r.text()).then(() => "read", () => "refused")`,
	"status":       `fetch(base + "/zino/").then(r => r.text()).then(() => "read", () => "refused")`,
	"post":         `fetch(base + "/zino.js", {method: "POST", body: "x"}).then(r => r.text()).then(() => "read", () => "refused")`,
	"socket":       `new Promise(r => { const s = new WebSocket(base.replace("http", "ws") + "/zino/ws", ["zino", token]); s.onopen = () => r("connected"); s.onclose = () => r("refused") })`,
	"live socket":  `new Promise(r => { const s = new WebSocket(base.replace("http", "ws") + "/zino/live", ["zino", token]); s.onopen = () => r("connected"); s.onclose = () => r("refused") })`,
	"worker":       `new Promise(r => { try { const w = new Worker(URL.createObjectURL(new Blob(["importScripts(" + JSON.stringify(base + "/zino.js") + "); postMessage(1)"]))); w.onmessage = () => r("loaded"); w.onerror = () => r("refused") } catch { r("refused") } })`,
	"sandbox":      `new Promise(r => { onmessage = e => r(e.data); const f = document.createElement("iframe"); f.sandbox = "allow-scripts"; f.srcdoc = "<script>const s = new WebSocket(" + JSON.stringify(base.replace("http", "ws") + "/zino/ws") + ", ['zino', '" + token + "']); s.onopen = () => parent.postMessage('connected', '*'); s.onclose = () => parent.postMessage('refused', '*')</scr" + "ipt>"; document.body.append(f) })`,
	"image":        `new Promise(r => { const i = new Image(); i.onload = () => r("measured"); i.onerror = () => r("refused"); i.src = base + "/pixel.svg" })`,
	"post result":  `fetch(base + "/zino/ws", { method: "POST", mode: "no-cors", body: JSON.stringify({ type: "result", id, job: "1", ok: true, value: "hostile" }) }).then(() => "refused", () => "refused")`,
	"form":         `new Promise(r => { const f = document.createElement("iframe"), form = document.createElement("form"), field = document.createElement("input"); f.name = form.target = "frame", form.method = "POST", form.action = base + "/" + file, field.name = "code", field.value = "hostile = 1"; form.append(field), document.body.append(f, form), f.onload = () => r("refused"), form.submit() })`,
	"page's log":   `fetch(base + "/" + file).then(r => r.text()).then(() => "read", () => "refused")`,
	"framed":       `new Promise(r => { const f = document.createElement("iframe"); f.onload = () => { try { r(f.contentDocument ? "read" : "refused") } catch { r("refused") } }; f.src = base + "/zino/"; document.body.append(f) })`,
	"frame's name": `new Promise(r => { const f = document.createElement("iframe"); f.onload = () => { try { r(f.contentWindow.document.title || "refused") } catch { r("refused") } }; f.src = base + "/app.html"; document.body.append(f) })`,
}

// TestHostile checks that a page of another origin can neither read a file, connect,
// run code nor change a file.
func TestHostile(t *testing.T) {
	b := newSite(t, map[string]string{"app.html": app, "pixel.svg": `<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>`}, func(cfg *config.Repl) {
		cfg.Origins = []string{"http://127.0.0.1:1"}
	})
	b.browse(b.url("/app.html"))
	victim := b.connected("index-7-zen", 1)
	b.want(victim.ID, "1 + 1", "json 2")
	log := filepath.Join(b.dir, victim.File)
	b.until("the log has its background", func() bool { return strings.Contains(zinotest.Read(t, log), "boom") })
	before, files := zinotest.Read(t, log), zinotest.Names(t, filepath.Dir(log))
	port := b.elsewhere(html("<!doctype html><title>Hostile</title><body>"))
	for _, host := range []string{"127.0.0.1", "localhost"} {
		v := b.browse("http://" + host + ":" + port + "/")
		js[bool](v, "(globalThis.base = "+quote(b.url(""))+", globalThis.token = "+quote(b.token)+", globalThis.id = "+quote(victim.ID)+", globalThis.file = "+quote(victim.File)+", true)")
		var all strings.Builder
		for name, attack := range attacks {
			all.WriteString(attack + `.then(got => [` + quote(name) + `, got]),`)
		}
		for name, got := range js[map[string]string](v, "Promise.all(["+all.String()+"]).then(Object.fromEntries)") {
			if got != "refused" {
				t.Errorf("%s from %s: %s", name, host, got)
			}
		}
	}
	for _, page := range b.pages() {
		if !strings.HasPrefix(page.URL, b.url("/app.html")) { // the frame is a page of our own origin
			t.Errorf("connected: %+v", page)
		}
	}
	if after := zinotest.Read(t, log); after != before {
		t.Errorf("the log was\n%s\nand is\n%s", before, after)
	}
	for name := range strings.FieldsSeq(zinotest.Names(t, filepath.Dir(log))) {
		if !strings.Contains(files, name) && !strings.HasPrefix(name, "index-7-zen-") { // the frame's
			t.Errorf("a new file %s", name)
		}
	}
	b.want(victim.ID, "typeof hostile", "text undefined")
}

// TestHostileName checks that requests for a foreign name of this host are refused.
func TestHostileName(t *testing.T) {
	b := newSite(t, map[string]string{"app.html": app})
	_, port, _ := strings.Cut(b.addr, ":")
	v := b.browse("http://evil.localhost:" + port + "/app.html") // browsers resolve it to this host
	if got := js[string](v, "document.body.textContent"); !strings.Contains(got, "This host is not served here") {
		t.Errorf("the page shows %q", got)
	}
	if len(b.pages()) != 0 {
		t.Errorf("connected: %+v", b.pages())
	}
}

// TestHostileFile checks that a page of a file: URL, which has no origin, cannot
// connect.
func TestHostileFile(t *testing.T) {
	b := newEnv(t)
	b.write("local.html", `<title>Local</title><script crossorigin src="`+b.url("/zino.js")+`" onerror="refused = true"></script><script src="`+b.url("/zino.js")+`" onerror="refusedToo = true"></script>`)
	v := b.browse("file://" + b.dir + "/local.html")
	if !js[bool](v, "refused && refusedToo") || len(b.pages()) != 0 {
		t.Errorf("connected: %+v", b.pages())
	}
}
