package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/zinotest"
)

// TestSilent: a page whose policy forbids the WebSocket is named in the log and on the
// status page, with the directive to add; a page that connects is not.
func TestSilent(t *testing.T) {
	b := newEnv(t)
	port := b.elsewhere(func(w http.ResponseWriter, r *http.Request) {
		if policy := r.URL.Query().Get("policy"); policy != "" {
			w.Header().Set("Content-Security-Policy", policy)
		}
		html(`<title>App</title><script crossorigin src="`+b.url("/zino.js")+`"></script>`)(w, r)
	})
	origin := "http://127.0.0.1:" + port
	b.stop()
	b.cfg.Origins = []string{origin}
	b.tune = func(s *Server) { s.silentAfter = 50 * time.Millisecond }
	b.start()
	b.browse(origin + "/?policy=connect-src+'self'")
	says := []string{origin, "connect-src ws://" + b.addr + " http://" + b.addr}
	b.until("the status page says so", func() bool {
		page := b.get("/")
		return strings.Contains(page, says[0]) && strings.Contains(page, says[1])
	})
	zinotest.Contains(t, "the log", b.out.String(), "does not connect", says[0], says[1])
	b.browse(origin + "/")
	b.connected("app", 1)
	b.until("the status page knows that a page of the origin is connected", func() bool { return !strings.Contains(b.get("/"), "does not connect") })
	if n := strings.Count(b.out.String(), "does not connect"); n != 1 {
		t.Errorf("%d lines are logged: %s", n, &b.out)
	}
}

// TestRoot checks that / answers with the status page, or what a served directory has.
func TestRoot(t *testing.T) {
	b := newEnv(t)
	if res := b.request("GET", "/", nil); res.StatusCode != 200 || !strings.Contains(b.get("/"), "Connect a page") || res.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("/ is answered %s", res.Status)
	}
	b = newSite(t, map[string]string{"index.html": "<title>Mine</title>"}, func(*config.Repl) {})
	if page := b.get("/"); !strings.Contains(page, "Mine") {
		t.Errorf("/ is %s", page)
	}
}
