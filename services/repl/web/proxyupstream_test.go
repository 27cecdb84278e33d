package web

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestProxyUpstreams checks what a browser gets from applications that die, that are
// not there, that speak other protocols, or that are on other hosts.
func TestProxyUpstreams(t *testing.T) {
	page := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "<title>%s</title>", r.Proto) // the client compares
	}
	plain := func(handler http.HandlerFunc, change ...func(*httptest.Server)) func(*testing.T) string {
		return func(t *testing.T) string {
			t.Helper()
			s := httptest.NewUnstartedServer(handler)
			for _, f := range change {
				f(s)
			}
			if s.TLS != nil {
				s.StartTLS()
			} else {
				s.Start()
			}
			t.Cleanup(s.Close)
			return s.URL
		}
	}
	answers := func(raw string) func(*testing.T) string { // to every connection
		return func(t *testing.T) string {
			t.Helper()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = c.Read(make([]byte, 4096)) // the proxy sees what is missing
					_, _ = io.WriteString(c, raw)
					c.Close()
				}
			}()
			t.Cleanup(func() { l.Close(); <-done })
			return "http://" + l.Addr().String()
		}
	}
	for _, test := range []struct {
		name   string
		app    func(*testing.T) string // returns the address
		status int
		body   string // a part
		logged string
	}{
		{"HTTP/1.1", plain(page), 200, proxyTag + "<title>HTTP/1.1</title>", ""},
		{"https with a certificate of its own", plain(page, func(s *httptest.Server) { s.TLS = &tls.Config{} }), 200, "<title>HTTP/1.1</title>", ""},
		{"HTTP/2", plain(page, func(s *httptest.Server) { s.EnableHTTP2, s.TLS = true, &tls.Config{} }), 200, proxyTag + "<title>HTTP/2.0</title>", ""},
		{"HTTP/2 without TLS", plain(page, func(s *httptest.Server) {
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
		}), 502, "HTTP/2 needs https", "a request to the proxied application failed"},
		{"nothing there", func(t *testing.T) string {
			t.Helper()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			must(t, l.Close())
			return "http://" + l.Addr().String()
		}, 502, "Start the development server", "the proxied application does not answer"},
		{"not HTTP", answers("SSH-2.0-OpenSSH_9.9\r\n"), 502, "It has to speak HTTP/1.1", "a request to the proxied application failed"},
		{"hangs up", answers(""), 502, "See what the development server prints", "a request to the proxied application failed"},
		{"dies in the head", answers("HTTP/1.1 200 OK\r\nContent-"), 502, "See what the development server prints", ""},
		{"dies in a document", answers("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100\r\n\r\n<!doctype html><p>cut"), 200, "<!doctype html>" + proxyTag + "<p>cut", "read error during body copy"},
		{"dies before the head", answers("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100\r\n\r\n<!doctype html><he"), 200, "<!doctype html>" + proxyTag + "<he", ""},
		{"not gzip", answers("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nContent-Length: 11\r\n\r\nhello world"), 502, "a document in gzip", ""},
		{"a redirect to another host", plain(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://accounts.example/login", http.StatusFound)
		}), 302, `href="https://accounts.example/login"`, ""},
		{"another host", func(*testing.T) string { return "http://192.0.2.1" }, 502, "unless --allow-remote is given", "the proxied application does not answer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newProxiedAt(t, test.app(t), false)
			res := p.ask("GET", "/", nil, nil)
			text, err := io.ReadAll(res.Body)
			cut := strings.HasPrefix(test.name, "dies in a") || strings.HasPrefix(test.name, "dies before")
			if res.StatusCode != test.status || !strings.Contains(string(text), test.body) || (err != nil) != cut {
				t.Errorf("%d %s, %v", res.StatusCode, text, err)
			}
			if test.status == 502 && (!strings.Contains(string(text), `http-equiv="refresh"`) || strings.Contains(string(text), proxyTag) || res.Header.Get("Cache-Control") != "no-store") {
				t.Errorf("%v %s", res.Header, text)
			}
			if !p.out.Contains(test.logged) {
				t.Errorf("the log does not contain %q:\n%s", test.logged, &p.out)
			}
		})
	}
}

// TestProxyRemote checks that a name is refused when it resolves to another host.
func TestProxyRemote(t *testing.T) {
	for address, allowed := range map[string]bool{
		"127.0.0.1:80": true, "[::1]:80": true, "127.8.8.8:1": true, "[::ffff:127.0.0.1]:80": true,
		"10.0.0.1:80": false, "0.0.0.0:80": false, "[::]:80": false, "[fe80::1%eth0]:80": false, "[::ffff:10.0.0.1]:80": false, "": false,
	} {
		if err := onlyLoopback("tcp", address, nil); (err == nil) != allowed {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestProxyReturns checks that an application that was down is served again.
func TestProxyReturns(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	at := l.Addr().String()
	must(t, l.Close())
	p := newProxiedAt(t, "http://"+at, false)
	if res := p.ask("GET", "/app.js", nil, map[string]string{"Sec-Fetch-Dest": "script"}); res.StatusCode != 502 || !strings.Contains(textOf(t, res), "connection refused. Start the development server") {
		t.Errorf("%d", res.StatusCode)
	}
	l, err = net.Listen("tcp", at)
	must(t, err)
	s := httptest.NewUnstartedServer(html("<title>back</title>"))
	must(t, s.Listener.Close())
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	if res := p.ask("GET", "/", nil, nil); res.StatusCode != 200 || textOf(t, res) != proxyTag+"<title>back</title>" || !p.out.Contains("answers again") {
		t.Errorf("%d, %s", res.StatusCode, &p.out)
	}
}

// TestRelax checks the policies of documents with the script.
func TestRelax(t *testing.T) {
	const own, script, socket = "localhost:15173", "http://localhost:15173/.zino/zino.js", "ws://localhost:15173/.zino/ws"
	for policy, want := range map[string]string{
		"default-src 'self'":                             "default-src 'self'; script-src 'self' 'nonce-N' 'unsafe-eval'; connect-src 'self' " + script + " " + socket,
		"default-src 'none'":                             "default-src 'none'; script-src 'nonce-N' 'unsafe-eval'; connect-src " + script + " " + socket,
		"script-src 'self' 'unsafe-inline'":              "script-src 'self' 'unsafe-inline' " + script + " 'unsafe-eval'",
		"script-src 'nonce-x' 'unsafe-inline'":           "script-src 'nonce-x' 'unsafe-inline' 'nonce-N' 'unsafe-eval'",
		"script-src 'strict-dynamic' 'sha256-x'":         "script-src 'strict-dynamic' 'sha256-x' 'nonce-N' 'unsafe-eval'",
		"Script-Src 'unsafe-eval' 'self'; img-src *":     "script-src 'unsafe-eval' 'self' 'nonce-N'; img-src *",
		"script-src-elem 'none'; script-src 'none'":      "script-src-elem 'nonce-N'; script-src 'nonce-N' 'unsafe-eval'",
		"connect-src 'self' ws://localhost:5173":         "connect-src 'self' ws://localhost:5173 ws://localhost:15173 " + script + " " + socket,
		"form-action http://localhost:5173/x":            "form-action http://localhost:5173/x http://localhost:15173/x",
		"img-src http://localhost:51730":                 "img-src http://localhost:51730",
		"trusted-types a; require-trusted-types-for 's'": "trusted-types a zino; require-trusted-types-for 's'",
		"trusted-types 'none'":                           "trusted-types zino",
		"img-src a; img-src b;; ":                        "img-src a",
		"img-src a, default-src 'none'":                  "img-src a, default-src 'none'; script-src 'nonce-N' 'unsafe-eval'; connect-src " + script + " " + socket,
		"upgrade-insecure-requests":                      "upgrade-insecure-requests",
	} {
		for _, name := range policyHeaders {
			h := http.Header{name: {policy}}
			if found := relax(h, "N", own, []string{"http://localhost:5173"}); !found || h.Get(name) != want {
				t.Errorf("%s\nbecame %s\nwant   %s", policy, h.Get(name), want)
			}
		}
	}
	h := http.Header{policyHeaders[0]: {"upgrade-insecure-requests; img-src https://app:1", "img-src b"}}
	if relax(h, "N", own, []string{"https://app:1"}); !slices.Equal(h[policyHeaders[0]], []string{"img-src https://app:1 http://localhost:15173, img-src b"}) {
		t.Errorf("of https: %q", h)
	}
	if relax(http.Header{}, "N", own, nil) {
		t.Error("a policy was found")
	}
	for policy, want := range map[string]bool{
		"sandbox": true, "sandbox allow-scripts": true, "default-src *, Sandbox allow-same-origin": true,
		"sandbox allow-scripts allow-same-origin allow-forms": false, "default-src *": false, "": false,
	} {
		if got := isSandboxed(http.Header{policyHeaders[0]: {policy}}); got != want {
			t.Errorf("%q is sandboxed: %v", policy, got)
		}
	}
}
