package web

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
)

// listed configures the allowed origins.
func listed(cfg *config.Repl) {
	cfg.Origins = []string{"http://127.0.0.1:5173", "https://app.example:443", "http://Plain.example"}
}

// TestHosts checks that a foreign name that resolves to this host (DNS rebinding) is
// refused.
func TestHosts(t *testing.T) {
	b := newEnv(t, listed)
	_, port, _ := strings.Cut(b.addr, ":")
	for host, want := range map[string]int{
		"127.0.0.1:" + port: 200, "localhost:" + port: 200, "[::1]:" + port: 200,
		"127.0.0.1": 403, "localhost": 403, "127.0.0.1:1": 403, "127.0.0.2:" + port: 403, "0.0.0.0:" + port: 403,
		"evil.example": 403, "evil.example:" + port: 403, "localhost.evil.example:" + port: 403, "127.0.0.1.nip.io:" + port: 403,
		"localhost.:" + port: 403, "LOCALHOST:" + port: 403, "[::1]": 403, "::1:" + port: 403, "[::ffff:127.0.0.1]:" + port: 403, "2130706433:" + port: 403,
		"user@127.0.0.1:" + port: 403,
	} {
		for _, path := range []string{"/zino.js", "/zino/", "/zino/ws", "/zino/live", "/", "/none"} {
			switch res := b.request("GET", path, map[string]string{"Host": host}); {
			case want == 403 && res.StatusCode != 403 && res.StatusCode != 400: // net/http itself refuses some
				t.Errorf("Host %q, %s: %d", host, path, res.StatusCode)
			case want == 200 && (res.StatusCode == 403 || res.StatusCode == 400):
				t.Errorf("Host %q, %s: %d", host, path, res.StatusCode)
			}
		}
	}
}

func TestRequests(t *testing.T) {
	b := newEnv(t, listed, func(cfg *config.Repl) { cfg.Serve = cfg.Dir })
	b.write("app.html", "<h1>app</h1>")
	own := "http://" + b.addr
	_, port, _ := strings.Cut(b.addr, ":")
	for _, test := range []struct {
		name, method string
		headers      map[string]string
		want         int
	}{
		{"no headers", "GET", nil, 200},
		{"head", "HEAD", nil, 200},
		{"navigation", "GET", map[string]string{"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, 200},
		{"a link on another site", "GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200},
		{"a link on another port", "GET", map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}, 200},
		{"same origin", "GET", map[string]string{"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "no-cors"}, 200},
		{"script of another site", "GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403},
		{"script of another port", "GET", map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}, 403},
		{"no mode", "GET", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"own origin", "GET", map[string]string{"Origin": own}, 200},
		{"own origin by name", "GET", map[string]string{"Origin": "http://localhost:" + port}, 200},
		{"own origin by IPv6", "GET", map[string]string{"Origin": "http://[::1]:" + port}, 200},
		{"listed", "GET", map[string]string{"Origin": "http://127.0.0.1:5173", "Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 200},
		{"listed with the usual port", "GET", map[string]string{"Origin": "https://app.example"}, 200},
		{"listed in capitals", "GET", map[string]string{"Origin": "http://plain.example"}, 200},
		{"null", "GET", map[string]string{"Origin": "null"}, 403},
		{"empty", "GET", map[string]string{"Origin": ""}, 403},
		{"another port", "GET", map[string]string{"Origin": "http://127.0.0.1:5174"}, 403},
		{"no port", "GET", map[string]string{"Origin": "http://127.0.0.1"}, 403},
		{"another scheme", "GET", map[string]string{"Origin": "https://127.0.0.1:5173"}, 403},
		{"own with another scheme", "GET", map[string]string{"Origin": "https://" + b.addr}, 403},
		{"another site", "GET", map[string]string{"Origin": "http://evil.example"}, 403},
		{"a longer name", "GET", map[string]string{"Origin": "http://127.0.0.1:5173.evil.example"}, 403},
		{"a path behind", "GET", map[string]string{"Origin": "http://127.0.0.1:5173/"}, 403},
		{"two in one", "GET", map[string]string{"Origin": own + ", http://evil.example"}, 403},
		{"post without origin", "POST", nil, 403},
		{"post of another site", "POST", map[string]string{"Origin": "http://evil.example"}, 403},
		{"post of null", "POST", map[string]string{"Origin": "null"}, 403},
		{"post of own origin", "POST", map[string]string{"Origin": own}, 405},
		{"put", "PUT", map[string]string{"Origin": own}, 405},
		{"delete without origin", "DELETE", nil, 403},
		{"preflight of a listed origin", "OPTIONS", map[string]string{"Origin": "http://127.0.0.1:5173", "Access-Control-Request-Method": "GET"}, 405},
		{"preflight of another site", "OPTIONS", map[string]string{"Origin": "http://evil.example", "Access-Control-Request-Method": "GET"}, 403},
		{"unknown method", "FROB", map[string]string{"Origin": own}, 405},
	} {
		for _, path := range []string{"/zino.js", "/zino/", "/zino/status.js", "/app.html"} {
			res := b.request(test.method, path, test.headers)
			if res.StatusCode != test.want {
				t.Errorf("%s, %s: %d, want %d", test.name, path, res.StatusCode, test.want)
			}
			b.hardened(test.name+", "+path, res)
		}
	}
}

// hardened checks the security headers of a response: pages of other origins may
// read only the script.
func (b *env) hardened(what string, res *http.Response) {
	b.t.Helper()
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
		"Access-Control-Allow-Credentials": "", "Access-Control-Allow-Methods": "", "Access-Control-Allow-Headers": "",
	} {
		if got := res.Header.Get(name); got != want {
			b.t.Errorf("%s: %s is %q, want %q", what, name, got, want)
		}
	}
	origin, want := res.Request.Header.Get("Origin"), ""
	if newGate(&net.TCPAddr{}, b.cfg.Origins, "").lists(origin) && res.Request.URL.Path == "/zino.js" && res.StatusCode == http.StatusOK {
		want = origin
	}
	if got := res.Header.Get("Access-Control-Allow-Origin"); got != want {
		b.t.Errorf("%s: Access-Control-Allow-Origin is %q, want %q", what, got, want)
	}
}

func TestUpgrades(t *testing.T) {
	b := newEnv(t, listed)
	own := map[string]string{
		"Origin": "http://" + b.addr, "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": "zino, " + b.token,
	}
	for _, test := range []struct {
		name    string
		headers map[string]string
		want    int
	}{
		{"own origin", own, 101},
		{"listed origin", with(own, "Origin", "http://127.0.0.1:5173"), 101},
		{"a browser of its own page", with(own, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "websocket"), 101},
		{"keep-alive too", with(own, "Connection", "keep-alive, Upgrade"), 101},
		{"another site", with(own, "Origin", "http://evil.example"), 403},
		{"another port", with(own, "Origin", "http://127.0.0.1:5174"), 403},
		{"null", with(own, "Origin", "null"), 403},
		{"https", with(own, "Origin", "https://"+b.addr), 403},
		{"foreign host", with(own, "Host", "evil.example", "Origin", "http://evil.example"), 403},
		{"no token", with(own, "Sec-WebSocket-Protocol", "zino"), 403},
		{"wrong token", with(own, "Sec-WebSocket-Protocol", "zino, "+strings.Repeat("A", len(b.token))), 403},
		{"token in front", with(own, "Sec-WebSocket-Protocol", b.token+", zino"), 403},
		{"token among others", with(own, "Sec-WebSocket-Protocol", "zino, x, "+b.token), 403},
		{"a part of the token", with(own, "Sec-WebSocket-Protocol", "zino, "+b.token[:8]), 403},
		{"no protocol", with(own, "Sec-WebSocket-Protocol", ""), 403},
		{"old version", with(own, "Sec-WebSocket-Version", "8"), 400},
		{"another protocol", with(own, "Upgrade", "h2c"), 426},
		{"a post", own, 405},
	} {
		for _, path := range []string{socketPath, livePath} {
			method := "GET"
			if test.want == 405 {
				method = "POST"
			}
			if res := b.request(method, path, test.headers); res.StatusCode != test.want {
				t.Errorf("%s, %s: %d, want %d", test.name, path, res.StatusCode, test.want)
			}
		}
	}
	for _, path := range []string{socketPath, livePath} {
		without := with(own)
		delete(without, "Origin")
		if res := b.request("GET", path, without); res.StatusCode != 403 {
			t.Errorf("no origin, %s: %d", path, res.StatusCode)
		}
		if res := b.request("GET", path, nil); res.StatusCode != 426 {
			t.Errorf("no upgrade, %s: %d", path, res.StatusCode)
		}
	}
}

// TestUpgradeElsewhere checks that an upgrade needs the token at every path.
func TestUpgradeElsewhere(t *testing.T) {
	b := newEnv(t)
	for _, path := range []string{"/zino.js", "/zino/", "/app.html"} {
		res := b.request("GET", path, map[string]string{"Origin": "http://" + b.addr, "Connection": "Upgrade", "Upgrade": "websocket"})
		if res.StatusCode != 403 {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
}

// TestPort80 checks Host and Origin without the default port, as browsers send them.
func TestPort80(t *testing.T) {
	g := newGate(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}, nil, "token")
	for _, host := range []string{"localhost", "localhost:80", "127.0.0.1", "[::1]"} {
		if no := g.check(&http.Request{Method: "GET", Host: host, Header: http.Header{"Origin": {"http://" + host}}}); no != nil {
			t.Errorf("%s: %s", host, no.reason)
		}
	}
}

func TestRefusalsAreLogged(t *testing.T) {
	b := newEnv(t)
	for range 5 {
		b.request("GET", "/zino.js", map[string]string{"Origin": "http://127.0.0.1:5173"})
	}
	if n := b.out.Count("a request was refused"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &b.out)
	}
	for i := range 2 * loggedMax {
		b.request("GET", "/zino.js", map[string]string{"Origin": "http://evil.example:" + strconv.Itoa(i)})
	}
	if n := b.out.Count("a request was refused"); n != loggedMax {
		t.Errorf("logged %d times, want %d", n, loggedMax)
	}
}

// TestMalformed checks that the service still works after malformed requests.
func TestMalformed(t *testing.T) {
	b := newEnv(t)
	host := "Host: " + b.addr + "\r\n"
	for _, test := range []struct{ name, text, want string }{
		{"no request", "\r\n\r\nhello\r\n\r\n", "400"},
		{"bytes", "\x00\xff\x16\x03\x01", ""},
		{"no host", "GET /zino.js HTTP/1.1\r\n\r\n", "400"},
		{"no host, old version", "GET /zino.js HTTP/1.0\r\n\r\n", "403"},
		{"two hosts", "GET /zino.js HTTP/1.1\r\n" + host + "Host: evil.example\r\n\r\n", "400"},
		{"two origins", "GET /zino.js HTTP/1.1\r\n" + host + "Origin: http://" + b.addr + "\r\nOrigin: http://evil.example\r\n\r\n", "403"},
		{"another host in the address", "GET http://evil.example/zino.js HTTP/1.1\r\n" + host + "\r\n", "403"},
		{"our host in the address", "GET http://" + b.addr + "/zino.js HTTP/1.1\r\nHost: evil.example\r\n\r\n", "200"},
		{"a connect", "CONNECT " + b.addr + " HTTP/1.1\r\n" + host + "\r\n", "403"},
		{"a star", "OPTIONS * HTTP/1.1\r\n" + host + "\r\n", "403"},
		{"a body", "GET /zino.js HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello", "413"},
		{"an endless body", "GET /zino.js HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n", "413"},
		{"two lengths", "GET /zino.js HTTP/1.1\r\n" + host + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "400"},
		{"a long header", "GET /zino.js HTTP/1.1\r\n" + host + "Cookie: " + strings.Repeat("x", 200<<10) + "\r\n\r\n", "431"},
		{"bad escape", "GET /%zz HTTP/1.1\r\n" + host + "\r\n", "400"},
		{"a header that is never ended", "GET /zino.js HTTP/1.1\r\nHo", ""},
	} {
		if got := b.raw(test.text); test.want != "" && (!strings.HasPrefix(got, "HTTP/1.") || !strings.HasPrefix(got[len("HTTP/1.1"):], " "+test.want)) {
			t.Errorf("%s: %.60q, want %s", test.name, got, test.want)
		}
		if !strings.Contains(b.get("/zino.js"), b.token) {
			t.Fatalf("%s: the service does not work any more", test.name)
		}
	}
}

// raw sends bytes, half-closes the connection and returns the first line of the
// response.
func (b *env) raw(text string) string {
	b.t.Helper()
	c, err := net.Dial("tcp", b.addr)
	must(b.t, err)
	defer c.Close()
	go func() {
		io.WriteString(c, text) // fails if the server responds and closes early
		c.(*net.TCPConn).CloseWrite()
	}()
	line, _ := bufio.NewReader(c).ReadString('\n') // "" if the server closes the connection
	return line
}

// TestSlowHeader checks that a connection with an incomplete header is closed.
func TestSlowHeader(t *testing.T) {
	b := newEnv(t)
	b.stop()
	b.tune = func(s *Server) { s.http.ReadHeaderTimeout = 50 * time.Millisecond }
	b.start()
	c, err := net.Dial("tcp", b.addr)
	must(t, err)
	defer c.Close()
	if _, err := io.WriteString(c, "GET /zino.js HTTP/1.1\r\nHost: "+b.addr+"\r\nX: "); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(c); err != nil || strings.Contains(string(text), "200 OK") {
		t.Errorf("answered %q, %v", text, err)
	}
	if b.http.ReadTimeout <= 0 || b.http.WriteTimeout <= 0 || b.http.IdleTimeout <= 0 {
		t.Error("a connection may stay open forever")
	}
}

func TestServeLoopback(t *testing.T) {
	b := newEnv(t)
	other, err := New(b.cfg, b.service, b.log)
	must(t, err)
	defer other.Close()
	l, err := net.Listen("tcp", "0.0.0.0:0")
	must(t, err)
	if err := other.Serve(l); err == nil || !strings.Contains(err.Error(), "is not a loopback address") {
		t.Errorf("Serve: %v", err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("the listener is still open")
	}
}
