package web

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/config"
)

// serving serves the directory of the REPL, servingSite a directory in it.
func serving(cfg *config.Repl) { cfg.Serve = cfg.Dir }

func servingSite(cfg *config.Repl) {
	cfg.Serve = filepath.Join(cfg.Dir, "site")
	if err := os.Mkdir(cfg.Serve, 0o700); err != nil {
		panic(err)
	}
}

func TestStatic(t *testing.T) {
	b := newEnv(t, serving)
	for name, text := range map[string]string{
		"index.html": "<title>home</title>", "app.JS": "1", "a b/é.txt": "text", "sub/index.html": "<p>sub", "sub/x.css": "p{}", "x.wasm": "w", "notes": "<script>1</script>",
		"page.htm": "<p>", "x.md": "# x", "x.map": "{}", "x.ts": "1", "x.json": "{}", "empty/x": "", "debugger/x.txt": "d", "node_modules/debug/index.js": "2",
		"ZINO.toml": "SECRET", "sub/config.toml": "SECRET", "tls/server.KEY": "SECRET", "cert.pem": "SECRET", "prod.env": "SECRET", "keys.js": "1",
		".env": "SECRET", ".git/config": "SECRET", "sub/.env": "SECRET", "debug.md": "SECRET", "debug/app-1a2b.md": "SECRET", "sub/index.html.d/x": "1",
	} {
		b.write(name, text)
	}
	for path, want := range map[string]string{
		"/": "200 text/html; charset=utf-8", "/index.html": "200 text/html; charset=utf-8", "/app.JS": "200 text/javascript; charset=utf-8",
		"/a%20b/%C3%A9.txt": "200 text/plain; charset=utf-8", "/sub/": "200 text/html; charset=utf-8", "/sub/x.css": "200 text/css; charset=utf-8",
		"/x.wasm": "200 application/wasm", "/notes": "200 application/octet-stream", "/page.htm": "200 text/html; charset=utf-8", "/x.md": "200 text/plain; charset=utf-8",
		"/x.map": "200 application/json", "/x.ts": "200 text/plain; charset=utf-8", "/x.json": "200 application/json", "/debugger/x.txt": "200 text/plain; charset=utf-8",
		"/node_modules/debug/index.js": "200 text/javascript; charset=utf-8",
		"/sub":                         "302 /sub/", "/a%20b": "302 /a%20b/", "/zino": "302 /zino/",
		"/none": "404", "/empty/": "404", "/index.html/": "404", "/sub/x.css/x": "404", "/sub/index.html.d/": "404",
		"/.env": "403", "/.git/config": "404", "/.git/": "404", "/.git": "404", "/sub/.env": "403", "/%2eenv": "403",
		"/debug.md": "404", "/debug/app-1a2b.md": "404", "/debug": "404", "/debug/": "404", "/DEBUG/app-1a2b.md": "404", "/Debug.md": "404", "/sub/../debug.md": "404",
		"/../": "404", "/..": "404", "/sub/../../x": "404", "/%2e%2e/x": "404", "/..%2fx": "404", "/sub/%2e%2e/index.html": "404", "/./index.html": "404",
		"//": "404", "//index.html": "404", "//evil.example/": "404", "//evil.example": "404", "/sub//x.css": "404", "/sub\\x.css": "404", "/x%00.css": "404", "/\\evil.example": "404",
		"/ZINO.toml": "403", "/zino.TOML": "403", "/sub/config.toml": "403", "/tls/server.KEY": "403", "/cert.pem": "403", "/prod.env": "403", "/none.pem": "403",
		"/keys.js": "200 text/javascript; charset=utf-8", "/.env.local": "404",
		"/zino/none": "404", "/zino.js/": "404", "/" + strings.Repeat("x", 5000): "404",
	} {
		res := b.request("GET", path, nil)
		got := res.Status[:3]
		switch res.StatusCode {
		case http.StatusOK:
			got += " " + res.Header.Get("Content-Type")
		case http.StatusFound:
			got += " " + res.Header.Get("Location")
		}
		if got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		if text, err := io.ReadAll(res.Body); err != nil || strings.Contains(string(text), "SECRET") {
			t.Errorf("%s: %q, %v", path, text, err)
		}
		b.hardened(path, res)
	}
	if got := b.get("/"); got != tag+"<title>home</title>" {
		t.Errorf("the page is %q", got)
	}
	if got := b.get("/notes"); got != "<script>1</script>" {
		t.Errorf("a file that is not HTML is %q", got)
	}
}

// TestStaticLinks checks that a symbolic link is followed only if its target is served.
func TestStaticLinks(t *testing.T) {
	b := newEnv(t, servingSite)
	b.write("site/lib/x.js", "1")
	b.write("site/.env", "SECRET")
	b.write("outside.txt", "SECRET")
	b.write("debug/app-1a2b.md", "SECRET")
	for link, target := range map[string]string{
		"in.js": "lib/x.js", "dir": "lib", "env": ".env", "out": "../outside.txt", "up": "..", "abs": filepath.Join(b.dir, "outside.txt"), "etc": "/etc/passwd",
		"log.md": "../debug/app-1a2b.md", "logs": "../debug", "loop": "loop", "gone": "nowhere", "far": "lib/../../outside.txt",
	} {
		must(t, os.Symlink(target, filepath.Join(b.dir, "site", link)))
	}
	b.status(map[string]int{
		"/in.js": 200, "/dir/x.js": 200, "/env": 404, "/out": 404, "/up/outside.txt": 404, "/up": 404, "/abs": 404, "/etc": 404,
		"/log.md": 404, "/logs/app-1a2b.md": 404, "/loop": 404, "/gone": 404, "/far": 404,
	})
}

func TestStaticHardLinks(t *testing.T) {
	b := newEnv(t, servingSite)
	b.write("outside.txt", "SECRET")
	b.write("site/index.html", "x")
	err := errors.Join(os.Link(filepath.Join(b.dir, "outside.txt"), filepath.Join(b.dir, "site", "x.txt")),
		os.WriteFile(filepath.Join(b.dir, "site", "server.pem"), []byte("SECRET"), 0o600),
		os.Symlink("server.pem", filepath.Join(b.dir, "site", "pem.txt")))
	must(t, err)
	for path, want := range map[string]string{
		"/x.txt":   "403 Refused: a file with several names (hard links) is not served: copy it.\n",
		"/pem.txt": "404 There is no such file. Dotfiles, debug/, and links that leave the directory are not served.\n",
		"/":        "200 " + tag + "x",
	} {
		res := b.request("GET", path, nil)
		text, err := io.ReadAll(res.Body)
		if got := res.Status[:4] + string(text); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
}

// TestStaticLogs checks that logs in a subdirectory are not served.
func TestStaticLogs(t *testing.T) {
	b := newEnv(t, func(cfg *config.Repl) {
		cfg.Serve, cfg.Dir = cfg.Dir, filepath.Join(cfg.Dir, "project")
		must(t, os.Mkdir(cfg.Dir, 0o700))
		if err := os.Symlink("project", filepath.Join(cfg.Serve, "alias")); err != nil {
			t.Fatal(err)
		}
	})
	b.write("project/debug/x-1a2b.md", "SECRET")
	b.write("project/x.txt", "x")
	b.write("other/debug/x.md", "x")
	b.status(map[string]int{
		"/project/x.txt": 200, "/alias/x.txt": 200, "/other/debug/x.md": 200,
		"/project/debug.md": 404, "/project/debug/x-1a2b.md": 404, "/alias/debug/x-1a2b.md": 404, "/alias/debug.md": 404, "/project/debug": 404,
	})
}

func TestStaticPipe(t *testing.T) {
	b := newEnv(t, serving)
	must(t, syscall.Mkfifo(filepath.Join(b.dir, "pipe.html"), 0o600))
	b.write("device/index.html/x", "")
	b.status(map[string]int{"/pipe.html": 404, "/device/": 404})
}

func TestStaticHTML(t *testing.T) {
	b := newEnv(t, serving)
	b.write("latin.html", "<title>caf\xe9</title>")
	b.write("wide.html", "\xff\xfe<\x00p\x00>\x00")
	b.write("long.html", "<p>"+strings.Repeat("x", htmlMax))
	if res := b.request("GET", "/latin.html", nil); res.Header.Get("Content-Type") != "text/html" {
		t.Errorf("type %q", res.Header.Get("Content-Type"))
	}
	if got := b.get("/latin.html"); got != tag+"<title>caf\xe9</title>" {
		t.Errorf("got %q", got)
	}
	if got := b.get("/wide.html"); got != "\xff\xfe<\x00p\x00>\x00" {
		t.Errorf("got %q", got)
	}
	if got := b.get("/long.html"); len(got) != htmlMax+3 {
		t.Errorf("got %d bytes", len(got))
	}
	res := b.request("GET", "/latin.html", map[string]string{"Range": "bytes=1-6"})
	if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusPartialContent || string(text) != "script" {
		t.Errorf("a part: %d %q %v", res.StatusCode, text, err)
	}
}

func TestNothingServed(t *testing.T) {
	b := newEnv(t)
	b.write("index.html", "x")
	b.status(map[string]int{"/index.html": 404, "/debug.md": 404, "/": 200, "/favicon.ico": 404})
}

func TestServeMissing(t *testing.T) {
	b := newEnv(t)
	b.cfg.Serve = filepath.Join(b.dir, "none")
	if _, err := New(b.cfg, b.service, b.log); err == nil || !strings.Contains(err.Error(), "[repl] serve") {
		t.Errorf("New: %v", err)
	}
}

func TestCloseWaits(t *testing.T) {
	b := newEnv(t, serving)
	const size = 8 << 20 // more than the socket buffers
	b.write("large.txt", strings.Repeat("x", size))
	res := b.request("GET", "/large.txt", nil)
	closed := make(chan error, 1)
	go func() { closed <- b.Close() }()
	b.until("it is closing", func() bool {
		c, err := net.Dial("tcp", b.addr)
		if err != nil {
			return true
		}
		return c.Close() != nil
	})
	if n, err := io.Copy(io.Discard, res.Body); n != size || err != nil {
		t.Errorf("%d bytes of %d: %v", n, size, err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func FuzzAddress(f *testing.F) {
	for _, address := range []string{"/", "/a/b.html", "/sub/", "/../x", "//x", "/.git/config", "/debug/x.md", "/a\x00", "/debug.md", "/a/./b", "/DEBUG/"} {
		f.Add(address)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if !isPublic(name) {
			return
		}
		if !fs.ValidPath(name) || path.Clean("/"+name) != "/"+name || strings.Contains("/"+name, "/.") || strings.ContainsAny(name, "\\\x00") {
			t.Fatalf("%q is public", name)
		}
		if first, _, _ := strings.Cut(name, "/"); strings.EqualFold(first, "debug") || strings.EqualFold(first, "debug.md") {
			t.Fatalf("%q is public, but is a log", name)
		}
	})
}
