package endtoend_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// TestZone checks a page with the real zone.js, which replaces Promise, setTimeout, fetch
// and addEventListener: loaded after the page script, as through the proxy, and before it.
func TestZone(t *testing.T) {
	modules, err := viteModules()
	if err != nil {
		zinotest.NotTested(t, "a page of zone.js: it cannot be installed: %v", err)
	}
	zone, err := os.ReadFile(filepath.Join(modules, "zone.js/bundles/zone.umd.js"))
	must(t, err)
	w := newStopped(t)
	a := w.newApp(map[string]string{"public/zone.js": string(zone)})
	w.flags = []string{"--proxy", a.url}
	w.start("127.0.0.1:0", fmt.Sprintf("origins = [%q]\n", a.url))
	const logging = `<script>setTimeout(() => console.info("later"), 1); addEventListener("load", () => { throw new Error("of a listener") }); Promise.reject(new RangeError("of a promise")); (async () => { await null; throw new Error("of a function") })()</script>`
	must(t, os.WriteFile(w.path("after.html"), []byte(`<!doctype html><title>After</title><script src="/zone.js"></script>`+logging), 0o644))
	must(t, os.WriteFile(w.path("before.html"), []byte(`<!doctype html><title>Before</title><script src="/zone.js"></script><script crossorigin src="`+w.url+`/zino.js"></script>`+logging), 0o644))
	for name, address := range map[string]string{"after": w.proxy + "/after.html", "before": a.url + "/before.html"} {
		w.browse(address)
		p := w.connected(name, 1)[0]
		for _, text := range []string{"later", "Error: of a listener", "RangeError: of a promise", "Error: of a function"} {
			w.until(name+" has logged "+text, func() bool { return strings.Contains(w.file(p.File), text) })
		}
		w.want(p, `Zone.current.name + " " + Promise.name`, "Text", "<root> ZoneAwarePromise")
		w.want(p, `fetch("/prices.json").then(r => r.status)`, "JSON", "200")
		w.want(p, `const answer = await new Promise(done => setTimeout(done, 5, 7)); answer`, "JSON", "7")
		w.want(p, `(async () => { await 1; return "native" })()`, "Text", "native")
		w.want(p, `Promise.all([Promise.resolve(1), 2])`, "JSON", "[1,2]")
		w.want(p, `Promise.reject("lost")`, "Error", "Uncaught lost")
		w.want(p, `await zino.wait(() => answer === 7, 500); zino.outline().slice(0, 5)`, "Text", "page ")
	}
}
