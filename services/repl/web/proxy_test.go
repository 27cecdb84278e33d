package web

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"zino/pkg/config"
	"zino/pkg/zinotest"
)

const proxyTag = `<script src="/.zino/zino.js"></script>`

// proxied is a service with a proxy in front of an application.
type proxied struct {
	*env
	app  *url.URL
	at   string // host and port of the proxy
	done chan error
}

// newProxied starts a proxy in front of a server that handles requests.
func newProxied(t *testing.T, handler http.HandlerFunc) *proxied {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return newProxiedAt(t, server.URL, false)
}

// newProxiedAt starts a proxy in front of an address. It is closed before the
// application, which waits for its requests.
func newProxiedAt(t *testing.T, address string, remote bool) *proxied {
	t.Helper()
	app, err := config.Upstream(address, true)
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxied{env: newEnv(t), app: app, at: l.Addr().String(), done: make(chan error, 1)}
	server := p.Server
	go func() { p.done <- server.ServeProxy(l, app, remote) }()
	t.Cleanup(func() {
		must(t, server.Close())
		must(t, <-p.done)
	})
	return p
}

// ask sends a request to the proxy. Headers may include "Host".
func (p *proxied) ask(method, path string, body io.Reader, headers map[string]string) *http.Response {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, "http://"+p.at+path, body)
	must(p.t, err)
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	req.Host = headers["Host"]
	res, err := plainClient.Do(req)
	must(p.t, err)
	p.t.Cleanup(func() { res.Body.Close() })
	return res
}

// plainClient does not ask for compression by itself.
var plainClient = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	CheckRedirect: client.CheckRedirect,
}

func textOf(t *testing.T, res *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(res.Body)
	must(t, err)
	return string(text)
}

// TestProxyRequests checks what the application receives.
func TestProxyRequests(t *testing.T) {
	var host string
	p := newProxied(t, func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		host = r.Host
		w.Header().Set("X-Got", fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, text))
		for _, name := range []string{"Origin", "Referer", "Accept-Encoding", "Cookie", "User-Agent", "Accept"} {
			if value, ok := r.Header[name]; ok {
				w.Header().Set("X-Got-"+name, strings.Join(value, "|"))
			}
		}
		for name := range r.Header {
			if strings.Contains(strings.ToLower(name), "forward") || strings.EqualFold(name, "via") {
				w.Header().Set("X-Forwarded", name)
			}
		}
	})
	app := "http://" + p.app.Host
	_, port, _ := strings.Cut(p.at, ":")
	for _, path := range []string{
		"/", "/zino/", "/zino.js", "/zino/ws", "/zino/live", "/.zino/", "/.zino/other", "/.zino/ws/", "/debug.md", "/a//b/../c", "//evil.example/x",
		"/%2e%2e/%41?a;b&c=%zz&d=1+2%20", "/?", "/@fs/x?import&t=1", "/%zz"[:1],
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "FROB"} {
			want := fmt.Sprintf("%s %s body", method, path)
			if got := p.ask(method, path, strings.NewReader("body"), nil).Header.Get("X-Got"); got != want {
				t.Errorf("the application got %q, want %q", got, want)
			}
		}
	}
	if host != p.app.Host {
		t.Errorf("the host is %q", host)
	}
	for _, test := range []struct{ name, value, want string }{
		{"Origin", "http://" + p.at, app},
		{"Origin", "http://localhost:" + port, app},
		{"Origin", "http://[::1]:" + port, app},
		{"Origin", "http://evil.example", "http://evil.example"},
		{"Origin", "https://" + p.at, "https://" + p.at},
		{"Origin", "http://" + p.at + "1", "http://" + p.at + "1"},
		{"Origin", "null", "null"},
		{"Referer", "http://" + p.at + "/a?b=http://" + p.at, app + "/a?b=http://" + p.at},
		{"Referer", "http://evil.example/" + p.at, "http://evil.example/" + p.at},
		{"Cookie", "a=1; b=2", "a=1; b=2"},
		{"User-Agent", "x", "x"},
		{"Accept", "text/html", "text/html"},
	} {
		if got := p.ask("GET", "/", nil, map[string]string{test.name: test.value}).Header.Get("X-Got-" + test.name); got != test.want {
			t.Errorf("%s %q became %q, want %q", test.name, test.value, got, test.want)
		}
	}
	for dest, want := range map[string]string{"document": "identity", "iframe": "identity", "": "identity", "script": "br, gzip", "empty": "br, gzip", "image": "br, gzip"} {
		headers := map[string]string{"Accept-Encoding": "br, gzip"}
		if dest != "" {
			headers["Sec-Fetch-Dest"] = dest
		}
		if got := p.ask("GET", "/", nil, headers).Header.Get("X-Got-Accept-Encoding"); got != want {
			t.Errorf("%q is asked for in %q, want %q", dest, got, want)
		}
	}
	if res := p.ask("GET", "/", nil, map[string]string{"X-Forwarded-For": "1.2.3.4", "Forwarded": "for=1.2.3.4"}); res.Header.Get("X-Forwarded") != "" {
		t.Errorf("the application can see the proxy: %s", res.Header.Get("X-Forwarded"))
	}
}

// TestProxyGuards checks that foreign names of this host reach nothing, and that only
// pages of the proxy get the script and the socket.
func TestProxyGuards(t *testing.T) {
	p := newProxied(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	_, port, _ := strings.Cut(p.at, ":")
	for host, served := range map[string]bool{
		p.at: true, "localhost:" + port: true, "[::1]:" + port: true, "127.0.0.1": false, "localhost:1": false, "evil.example:" + port: false,
		p.app.Host: false, p.addr: false, "localhost.:" + port: false,
	} {
		for path, want := range map[string]int{"/": 418, "/x": 418, "/.zino/x": 418, "/.zino/zino.js": 200, "/.zino/ws": 426} {
			if !served {
				want = 403
			}
			if res := p.ask("GET", path, nil, map[string]string{"Host": host}); res.StatusCode != want {
				t.Errorf("Host %s, %s: %d, want %d", host, path, res.StatusCode, want)
			}
		}
	}
	for _, test := range []struct {
		name    string
		method  string
		headers map[string]string
		want    int
	}{
		{"own", "GET", map[string]string{"Origin": "http://" + p.at}, 200},
		{"own by name", "GET", map[string]string{"Origin": "http://localhost:" + port}, 200},
		{"a link", "GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200},
		{"the application's own address", "GET", map[string]string{"Origin": "http://" + p.app.Host}, 403},
		{"the service", "GET", map[string]string{"Origin": "http://" + p.addr}, 403},
		{"another site", "GET", map[string]string{"Origin": "http://evil.example"}, 403},
		{"null", "GET", map[string]string{"Origin": "null"}, 403},
		{"script of another site", "GET", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403},
		{"post", "POST", map[string]string{"Origin": "http://" + p.at}, 405},
		{"post without origin", "POST", nil, 403},
	} {
		res := p.ask(test.method, proxyScript, nil, test.headers)
		if res.StatusCode != test.want || res.Header.Get("Access-Control-Allow-Origin") != "" || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v, want %d", test.name, res.StatusCode, res.Header, test.want)
		}
	}
	script := textOf(t, p.ask("GET", proxyScript, nil, nil))
	if want := `"script":"http://` + p.at + `/.zino/zino.js","socket":"ws://` + p.at + `/.zino/ws"`; !strings.Contains(script, want) {
		t.Errorf("the script ends with %q, want %q", script[len(script)-200:], want)
	}
	dial := func(at, origin, token string) error {
		c, res, err := websocket.Dial(t.Context(), "ws://"+at, &websocket.DialOptions{Subprotocols: []string{protocol, token}, HTTPHeader: http.Header{"Origin": {origin}}})
		if err != nil {
			return fmt.Errorf("%w (%v)", err, res)
		}
		return c.CloseNow()
	}
	must(t, dial(p.at+proxySocket, "http://"+p.at, p.token))
	for _, attempt := range [][3]string{
		{p.at + proxySocket, "http://" + p.at, "x"},
		{p.at + proxySocket, "http://evil.example", p.token},
		{p.at + proxySocket, "http://" + p.app.Host, p.token},
		{p.addr + socketPath, "http://" + p.at, p.token}, // the service's own listener knows only its own origin
	} {
		if dial(attempt[0], attempt[1], attempt[2]) == nil {
			t.Errorf("%v is connected", attempt)
		}
	}
}

// TestProxyDocuments checks which answers get the script, and that all others stay as
// they are.
func TestProxyDocuments(t *testing.T) {
	type answer struct {
		status  int
		headers []string // names and values
		body    string
	}
	const page, head = "<!doctype html><html><head><title>x</title>", "<!doctype html><html><head>"
	const injected = head + proxyTag + "<title>x</title>"
	tests := map[string]struct {
		answer
		ask  []string // method and headers
		want string   // "" for the body unchanged
	}{
		"html":             {answer{200, []string{"Content-Type", "text/html", "Content-Length", fmt.Sprint(len(page))}, page}, nil, injected},
		"charset":          {answer{200, []string{"Content-Type", "Text/HTML; charset=windows-1252"}, page + "\xe9"}, nil, injected + "\xe9"},
		"utf-16":           {answer{200, []string{"Content-Type", "text/html; charset=UTF-16LE"}, "<\x00p\x00>\x00"}, nil, ""},
		"utf-16 mark":      {answer{200, []string{"Content-Type", "text/html"}, "\xff\xfe<\x00p\x00>\x00"}, nil, ""},
		"empty":            {answer{200, []string{"Content-Type", "text/html", "Content-Length", "0"}, ""}, nil, proxyTag},
		"error page":       {answer{500, []string{"Content-Type", "text/html"}, page}, nil, injected},
		"not found":        {answer{404, []string{"Content-Type", "text/html"}, page}, []string{"GET", "Sec-Fetch-Dest", "document"}, injected},
		"frame":            {answer{200, []string{"Content-Type", "text/html"}, page}, []string{"GET", "Sec-Fetch-Dest", "iframe"}, injected},
		"answer to a form": {answer{200, []string{"Content-Type", "text/html"}, page}, []string{"POST", "Sec-Fetch-Dest", "document"}, injected},
		"fragment":         {answer{200, []string{"Content-Type", "text/html"}, "<li>x"}, []string{"GET", "Sec-Fetch-Dest", "empty"}, ""},
		"javascript":       {answer{200, []string{"Content-Type", "text/javascript"}, "// <head>"}, nil, ""},
		"xhtml":            {answer{200, []string{"Content-Type", "application/xhtml+xml"}, page}, nil, ""},
		"plain":            {answer{200, []string{"Content-Type", "text/plain"}, page}, nil, ""},
		"no type":          {answer{200, []string{"Content-Type", ""}, page}, nil, ""},
		"part":             {answer{206, []string{"Content-Type", "text/html", "Content-Range", "bytes 0-42/100"}, page}, []string{"GET", "Range", "bytes=0-42"}, ""},
		"download":         {answer{200, []string{"Content-Type", "text/html", "Content-Disposition", "attachment; filename=x.html"}, page}, nil, ""},
		"no content":       {answer{204, nil, ""}, nil, ""},
		"not modified":     {answer{304, []string{"Etag", `"1"`}, ""}, []string{"GET", "If-None-Match", `"1"`}, ""},
		"head":             {answer{200, []string{"Content-Type", "text/html"}, ""}, []string{"HEAD"}, ""},
		"gzip":             {answer{200, []string{"Content-Type", "text/html", "Content-Encoding", "gzip"}, zipped(t, page)}, nil, injected},
		"brotli":           {answer{200, []string{"Content-Type", "text/html", "Content-Encoding", "br"}, "\x0b\x02\x80x\x03"}, nil, ""},
		"zstd":             {answer{200, []string{"Content-Type", "text/html", "Content-Encoding", "zstd"}, "\x28\xb5\x2f\xfd"}, nil, ""},
		"compressed data":  {answer{200, []string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, zipped(t, "{}")}, nil, ""},
		"sandbox":          {answer{200, []string{"Content-Type", "text/html", "Content-Security-Policy", "sandbox allow-scripts"}, page}, nil, ""},
	}
	p := newProxied(t, func(w http.ResponseWriter, r *http.Request) {
		test := tests[r.URL.Query().Get("test")]
		for i := 0; i+1 < len(test.headers); i += 2 {
			w.Header()[test.headers[i]] = []string{test.headers[i+1]}
			if test.headers[i+1] == "" {
				w.Header()[test.headers[i]] = nil
			}
		}
		w.WriteHeader(test.status)
		_, _ = io.WriteString(w, test.body) // the client compares
	})
	for name, test := range tests {
		method, headers := "GET", map[string]string{}
		for i, word := range test.ask {
			if i == 0 {
				method = word
			} else if i%2 == 1 {
				headers[word] = test.ask[i+1]
			}
		}
		want := test.want
		if want == "" {
			want = test.body
		}
		res := p.ask(method, "/?test="+url.QueryEscape(name), nil, headers)
		if got := textOf(t, res); res.StatusCode != test.status || got != want {
			t.Errorf("%s: %d %q, want %d %q", name, res.StatusCode, got, test.status, want)
		}
		if encoded := res.Header.Get("Content-Encoding") != ""; encoded != (test.want == "" && slices.Contains(test.headers, "Content-Encoding")) {
			t.Errorf("%s: the encoding is %q", name, res.Header.Get("Content-Encoding"))
		}
		if _, ok := res.Header["Content-Type"]; ok != (slices.Contains(test.headers, "Content-Type") && name != "no type") {
			t.Errorf("%s: the type is %q", name, res.Header.Get("Content-Type"))
		}
	}
	for _, logged := range []string{"since it is compressed, although the proxy asks for identity: br", "identity: zstd", "UTF-16 gets no script", "sandboxes it"} {
		if !p.out.Contains(logged) {
			t.Errorf("the log does not contain %q:\n%s", logged, &p.out)
		}
	}
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := io.WriteString(z, text)
	must(t, errors.Join(err, z.Close()))
	return out.String()
}

// TestProxyAnswers checks that the headers of an answer keep the browser at the proxy.
func TestProxyAnswers(t *testing.T) {
	var name, value string
	p := newProxied(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(name, value)
		w.WriteHeader(http.StatusFound)
	})
	_, port, _ := strings.Cut(p.app.Host, ":")
	own := "http://" + p.at
	for _, test := range []struct{ name, value, want string }{
		{"Location", "http://" + p.app.Host + "/x?y#z", own + "/x?y#z"},
		{"Location", "http://" + p.app.Host, own},
		{"Location", "HTTP://LocalHost:" + port + "/x", own + "/x"},
		{"Location", "http://[::1]:" + port + "/x", own + "/x"},
		{"Location", "//" + p.app.Host + "/x", own + "/x"},
		{"Location", "/x", "/x"},
		{"Location", "../x?http://" + p.app.Host, "../x?http://" + p.app.Host},
		{"Location", "http://" + p.app.Host + "0/x", "http://" + p.app.Host + "0/x"},
		{"Location", "http://127.0.0.1.evil.example/", "http://127.0.0.1.evil.example/"},
		{"Location", "https://accounts.example/login?back=http://" + p.app.Host, "https://accounts.example/login?back=http://" + p.app.Host},
		{"Content-Location", "http://" + p.app.Host + "/x", own + "/x"},
		{"Refresh", "5; url=http://" + p.app.Host + "/x", "5; url=" + own + "/x"},
		{"Refresh", `0;URL="http://` + p.app.Host + `/x"`, "0;URL=" + own + "/x"},
		{"Refresh", "5", "5"},
		{"Access-Control-Allow-Origin", "http://" + p.app.Host, own},
		{"Access-Control-Allow-Origin", "*", "*"},
		{"Access-Control-Allow-Origin", "http://other.example", "http://other.example"},
		{"Set-Cookie", "a=b; Domain=127.0.0.1; Path=/; HttpOnly", "a=b; Path=/; HttpOnly"},
		{"Set-Cookie", "a=b; domain=.127.0.0.1", "a=b"},
		{"Set-Cookie", "domain=127.0.0.1; Secure; SameSite=None", "domain=127.0.0.1; Secure; SameSite=None"},
		{"Set-Cookie", "a=b; Domain=other.example; Path=/", "a=b; Domain=other.example; Path=/"},
	} {
		name, value = test.name, test.value
		if got := p.ask("GET", "/", nil, nil).Header.Get(test.name); got != test.want {
			t.Errorf("%s %q became %q, want %q", test.name, test.value, got, test.want)
		}
	}
	if got := hostOnly("a=b; Domain=Example.test", "www.example.test"); got != "a=b" {
		t.Errorf("the cookie of a parent domain is %q", got)
	}
}

// TestProxyStreams checks that nothing waits for the end: pieces of a document, events
// of a server, the body of a request, data in both directions of an upgrade.
func TestProxyStreams(t *testing.T) {
	steps := make(chan string)
	flush := func(w http.ResponseWriter, text string) {
		_, _ = io.WriteString(w, text) // the client compares
		_ = http.NewResponseController(w).Flush()
	}
	p := newProxied(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/pieces":
			w.Header().Set("Content-Type", "text/html")
			for text := range steps {
				flush(w, text)
			}
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			flush(w, "data: 1\n\n")
			<-r.Context().Done()
		case "/echo":
			_ = http.NewResponseController(w).EnableFullDuplex()
			flush(w, "begun\n")
			lines := bufio.NewScanner(r.Body)
			for lines.Scan() {
				flush(w, "echo "+lines.Text()+"\n")
			}
			w.Header().Set(http.TrailerPrefix+"X-Sum", "42")
		case "/early":
			w.Header().Set("Link", "</x>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			flush(w, "early")
		case "/upgrade":
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
			w.WriteHeader(http.StatusSwitchingProtocols)
			c, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			defer c.Close()
			line, err := rw.ReadString('\n')
			if err == nil {
				_, _ = io.WriteString(c, "echo "+line) // the client compares
			}
		case "/socket":
			if r.Header.Get("Origin") != "http://"+r.Host {
				http.Error(w, "a foreign origin", http.StatusForbidden)
				return
			}
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			for {
				kind, text, err := c.Read(r.Context())
				if err != nil || c.Write(r.Context(), kind, append([]byte("echo "), text...)) != nil {
					return
				}
			}
		}
	})

	res := make(chan *http.Response, 1)
	go func() { res <- p.ask("GET", "/pieces", nil, nil) }()
	send := func(text string) {
		select {
		case steps <- text:
		case <-t.Context().Done():
		}
	}
	send("<!doctype html><ht")
	pieces := zinotest.Receive(t, "the header", res)
	read := func(from io.Reader, want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(from, got); err != nil || string(got) != want {
			t.Errorf("read %q, %v, want %q", got, err, want)
		}
	}
	send("ml><he")
	send("ad>\n<ti")
	read(pieces.Body, "<!doctype html><html><head>"+proxyTag+"\n<ti")
	send("tle>x</title>")
	read(pieces.Body, "tle>x</title>")
	close(steps)
	if rest := textOf(t, pieces); rest != "" {
		t.Errorf("the rest is %q", rest)
	}

	read(p.ask("GET", "/events", nil, map[string]string{"Accept": "text/event-stream", "Sec-Fetch-Dest": "empty"}).Body, "data: 1\n\n")

	from, to := io.Pipe()
	echo := p.ask("POST", "/echo", from, nil)
	read(echo.Body, "begun\n")
	for _, line := range []string{"one", "two"} {
		_, err := io.WriteString(to, line+"\n")
		must(t, err)
		read(echo.Body, "echo "+line+"\n")
	}
	must(t, to.Close())
	if rest := textOf(t, echo); rest != "" || echo.Trailer.Get("X-Sum") != "42" {
		t.Errorf("the rest is %q, the trailer %v", rest, echo.Trailer)
	}

	c, err := net.Dial("tcp", p.at)
	must(t, err)
	defer c.Close()
	_, err = fmt.Fprintf(c, "GET /early HTTP/1.1\r\nHost: %s\r\n\r\n", p.at)
	must(t, err)
	read(c, "HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\n")

	raw, err := net.Dial("tcp", p.at)
	must(t, err)
	defer raw.Close()
	_, err = fmt.Fprintf(raw, "GET /upgrade HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: chat/2\r\n\r\n", p.at)
	must(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(raw), nil)
	must(t, err)
	if answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("Upgrade") != "chat/2" {
		t.Errorf("the upgrade is answered by %+v", answer)
	}
	_, err = io.WriteString(raw, "hello\n")
	must(t, err)
	read(raw, "echo hello\n")

	socket, _, err := websocket.Dial(t.Context(), "ws://"+p.at+"/socket", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"http://" + p.at}}})
	must(t, err)
	must(t, socket.Write(t.Context(), websocket.MessageText, []byte("hot")))
	if _, text, err := socket.Read(t.Context()); err != nil || string(text) != "echo hot" {
		t.Errorf("the socket echoes %q, %v", text, err)
	}
	must(t, p.Server.Close()) // ends what is open
	if _, _, err := socket.Read(t.Context()); err == nil {
		t.Error("the socket is open after Close")
	}
}
