package endtoend_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
)

// viteModules installs Vite, once for all runs with the same package-lock.json, and
// returns the directory node_modules.
var viteModules = sync.OnceValues(func() (string, error) {
	lock, err := os.ReadFile("testdata/vite/package-lock.json")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "zino-tests")
	dir := filepath.Join(cache, fmt.Sprintf("vite-%x", sha256.Sum256(lock))[:17])
	modules := filepath.Join(dir, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(cache, "new")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join("testdata/vite", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(fresh, name), text, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	npm := exec.Command("npm", "ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = fresh
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	if err := os.Rename(fresh, dir); err != nil && !errors.Is(err, fs.ErrExist) { // another test was faster
		return "", err
	}
	return modules, nil
})

// app is a Vite development server in the directory of a REPL.
type app struct {
	*zinotest.Process
	w   *world
	url string // without a slash at the end
}

// newApp copies the application into the directory of a REPL, with other texts in some
// files, and starts Vite.
func (w *world) newApp(changed map[string]string) *app {
	w.t.Helper()
	modules, err := viteModules()
	if err != nil {
		zinotest.NotTested(w.t, "a page of Vite: it cannot be installed: %v", err)
	}
	must(w.t, os.CopyFS(w.path("."), os.DirFS("testdata/vite")))
	must(w.t, os.Symlink(modules, w.path("node_modules")))
	// The directory of modules is shared, and with it its cache. A page whose imports
	// cannot be resolved is loaded again at each new file, also one of the REPL.
	const settings = `export default { cacheDir: ".vite", server: { watch: { ignored: ["**/debug/**", "**/debug.md"] } } };`
	must(w.t, os.WriteFile(w.path("vite.config.js"), []byte(settings+"\n"), 0o644))
	for name, text := range changed {
		must(w.t, os.WriteFile(w.path(name), []byte(text), 0o644))
	}
	a := &app{w: w}
	a.start()
	return a
}

var local = regexp.MustCompile(`Local: +(http://[a-z0-9.]+:\d+)/`)

// start starts Vite on the first free port from 5173 on.
func (a *app) start(args ...string) {
	a.w.t.Helper()
	cmd := exec.Command("node", append([]string{"node_modules/vite/bin/vite.js"}, args...)...)
	cmd.Dir, cmd.Env = a.w.path("."), a.w.env("NO_COLOR=1")
	a.Process = zinotest.Start(a.w.t, cmd)
	a.Eventually("Vite serves", func() bool {
		found := local.FindStringSubmatch(a.Out.String())
		if found != nil {
			a.url = found[1]
		}
		return found != nil
	})
}

// edit replaces a text in a file of the application.
func (w *world) edit(name, old, text string) {
	w.t.Helper()
	before := w.file(name)
	if strings.Count(before, old) != 1 {
		w.t.Fatalf("%s does not contain %q once:\n%s", name, old, before)
	}
	must(w.t, os.WriteFile(w.path(name), []byte(strings.Replace(before, old, text, 1)), 0o644))
}

// newVite starts the application, a REPL and a page of it: through the proxy with the
// application unchanged, else with a tag in its page.
func newVite(t *testing.T, proxied bool, changed map[string]string) (*world, *app, string) {
	t.Helper()
	w := newStopped(t)
	a := w.newApp(changed)
	if proxied {
		w.flags = []string{"--proxy", a.url}
		w.start("127.0.0.1:0", "")
		return w, a, w.proxy + "/"
	}
	w.start("127.0.0.1:0", fmt.Sprintf("origins = [%q]\n", a.url))
	w.edit("index.html", "<head>", `<head><script crossorigin src="`+w.url+`/zino.js"></script>`)
	a.Eventually("Vite has noticed the tag", func() bool { return a.Out.Contains("page reload index.html") })
	return w, a, a.url + "/"
}

// TestVite checks a page of a Vite development server, through the proxy and with the
// tag: a cell imports the module instances of the application, and an edited module
// replaces the old one without a reload.
func TestVite(t *testing.T) {
	for name, proxied := range map[string]bool{"proxy": true, "tag": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, a, address := newVite(t, proxied, nil)
			v := w.browse(address)
			p := w.connected("shop", 1)[0]
			total := `document.querySelector("output").textContent`
			w.until("the page is ready", func() bool { return strings.Contains(w.file(p.File), "shop is ready") })
			if want := regexp.MustCompile("Text console.info [0-9:.]+ main.js:" + served(t, address+"src/main.js", "shop is ready") + "\nshop is ready\n"); !want.MatchString(w.file(p.File)) {
				t.Errorf("no line matches %s in\n%s", want, w.file(p.File))
			}
			w.want(p, total, "Text", "Total 1.75")
			w.want(p, `const { cart } = await import("/src/cart.js"); cart.pieces.apple = 4; cart.prices`, "JSON", `{"apple":0.5,"pear":0.75}`)
			w.want(p, `document.querySelector("button").click(); `+total, "Text", "Total 3.25")
			in[bool](v, "globalThis.sameLoad = true")
			w.edit("src/view.js", `"Total "`, `"Sum "`)
			w.until("the hot update is in the log", func() bool { return strings.Contains(w.file(p.File), "view was updated") })
			w.until("the page shows it", func() bool { return strings.HasSuffix(w.file(p.File), footer) })
			w.want(p, `sameLoad + " " + `+total, "Text", "true Sum 3.25")
			if proxied {
				w.restarted(a, v, p)
			}
		})
	}
}

// served returns the line of a text in a module as Vite serves it.
func served(t *testing.T, address, text string) string {
	t.Helper()
	res, err := http.Get(address)
	must(t, err)
	module, err := io.ReadAll(res.Body)
	must(t, errors.Join(err, res.Body.Close()))
	before, _, ok := strings.Cut(string(module), text)
	if !ok {
		t.Fatalf("%s has no %q:\n%s", address, text, module)
	}
	return strconv.Itoa(strings.Count(before, "\n") + 1)
}

// restarted checks that the page is connected again when the application has been
// stopped and started, and what it shows meanwhile.
func (w *world) restarted(a *app, v *tab, p proto.Page) {
	w.t.Helper()
	a.Kill()
	a.Exit()
	in[bool](v, "setTimeout(() => location.reload()), true")
	w.until("the page is gone", func() bool { return len(w.pages()) == 0 })
	res, err := http.Get(w.proxy)
	must(w.t, err)
	text, err := io.ReadAll(res.Body)
	must(w.t, errors.Join(err, res.Body.Close()))
	if res.StatusCode != http.StatusBadGateway || !strings.Contains(string(text), "Start the development server") {
		w.t.Errorf("without the application: %d %s", res.StatusCode, text)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(a.url, "http://"), ":")
	a.start("--port", port, "--strictPort")
	w.until("the page is back", func() bool {
		pages := w.pages()
		return len(pages) == 1 && pages[0].ID == p.ID
	})
	if again := w.connected(p.Name, 1)[0]; again.File != p.File {
		w.t.Errorf("%+v became %+v", p, again)
	}
}
