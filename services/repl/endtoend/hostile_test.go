package endtoend_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"zino/proto"
)

// attacks are what a page of another origin may try even if it knows the token,
// the id of a page and its file. Each is an expression that tells what came of it.
var attacks = map[string]string{
	"script": `new Promise(r => { const s = document.createElement("script"); s.src = base + "/zino.js"; s.onload = () => r("loaded"); s.onerror = () => r("refused"); document.head.append(s) })`,
	"read":   `fetch(base + "/zino.js").then(r => r.text()).then(() => "read", () => "refused")`,
	"file":   `fetch(base + "/" + file).then(r => r.text()).then(() => "read", () => "refused")`,
	"socket": `new Promise(r => {
		const s = new WebSocket(base.replace("http", "ws") + "/zino/ws", ["zino", token]);
		s.onopen = () => { s.send(JSON.stringify({ type: "hello", name: "hostile", id, nonce: "1" })); r("connected") };
		s.onclose = () => r("refused") })`,
	"post": `fetch(base + "/zino/ws", { method: "POST", mode: "no-cors", body: JSON.stringify({ type: "result", id, job: "1", ok: true, value: "hostile" }) }).then(() => "refused", () => "refused")`,
	"form": `new Promise(r => {
		const frame = document.createElement("iframe"), form = document.createElement("form"), field = document.createElement("input");
		frame.name = form.target = "frame", form.method = "POST", form.action = base + "/" + file, field.name = "code", field.value = "hostile = 1";
		form.append(field), document.body.append(frame, form), frame.onload = () => r("refused"), form.submit() })`,
}

// TestHostile: a page of another origin connects to nothing, runs nothing, and
// leaves every file as it was.
func TestHostile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.browse(w.url + "/app.html")
	p := w.connected("index-7-zen", 1)[0]
	w.want(p, "1 + 1", "JSON", "2")
	hostile := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Content-Type", "text/html")
		if _, err := io.WriteString(out, "<!doctype html><title>Hostile</title><body>"); err != nil {
			t.Error(err)
		}
	}))
	defer hostile.Close()
	w.listed(p, "completed (")
	before := w.state()
	v := w.browse(hostile.URL)
	in[bool](v, "Object.assign(globalThis, "+w.known(p)+"), true")
	for name, attack := range attacks {
		if got := in[string](v, attack); got != "refused" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if after := w.state(); after != before {
		t.Errorf("the files were\n%s\nand are\n%s", before, after)
	}
	if pages := w.pages(); len(pages) != 1 {
		t.Errorf("connected: %+v", pages)
	}
	w.want(p, "typeof hostile", "Text", "undefined")
}

// known is what the attackers are given: more than they could know.
func (w *world) known(p proto.Page) string {
	w.t.Helper()
	res, err := http.Get(w.url + "/zino.js")
	must(w.t, err)
	defer res.Body.Close()
	script, err := io.ReadAll(res.Body)
	must(w.t, err)
	token := regexp.MustCompile(`"token":"(\w+)"`).FindSubmatch(script)
	if token == nil {
		w.t.Fatalf("the script has no token: %s", res.Status)
	}
	known, err := json.Marshal(map[string]string{"base": w.url, "token": string(token[1]), "id": p.ID, "file": p.File})
	must(w.t, err)
	return string(known)
}

var lastSeen = regexp.MustCompile(` last \d\d:\d\d:\d\d `)

// state is all that stands in the directory of the REPL, but for times in the
// registry.
func (w *world) state() string {
	w.t.Helper()
	entries, err := os.ReadDir(w.path("debug"))
	must(w.t, err)
	var all strings.Builder
	all.WriteString(lastSeen.ReplaceAllString(w.file("debug.md"), " last TIME "))
	for _, e := range entries {
		all.WriteString("--- " + e.Name() + " ---\n" + w.file("debug/"+e.Name()))
	}
	return all.String()
}
