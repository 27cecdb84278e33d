package web

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestMalformed sends what is no proper request, and then a proper one.
func TestMalformed(t *testing.T) {
	b := newBench(t)
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
			t.Fatalf("%s: it serves no more", test.name)
		}
	}
}

// raw sends bytes, ends its side, and returns what comes back.
func (b *bench) raw(text string) string {
	b.t.Helper()
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	go func() {
		io.WriteString(c, text) // an answer may come before the end
		c.(*net.TCPConn).CloseWrite()
	}()
	line, _ := bufio.NewReader(c).ReadString('\n') // "" if it hangs up
	return line
}

// TestSlowHeader: who takes too long over a header is hung up on.
func TestSlowHeader(t *testing.T) {
	b := newBench(t)
	b.stop()
	b.tune = func(s *Server) { s.http.ReadHeaderTimeout = 50 * time.Millisecond }
	b.start()
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /zino.js HTTP/1.1\r\nHost: "+b.addr+"\r\nX: "); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(c); err != nil || strings.Contains(string(text), "200 OK") {
		t.Errorf("answered %q, %v", text, err)
	}
	if b.http.ReadTimeout <= 0 || b.http.WriteTimeout <= 0 || b.http.IdleTimeout <= 0 {
		t.Error("a connection may stay for ever")
	}
}

// TestServeLoopback: others must not reach the pages.
func TestServeLoopback(t *testing.T) {
	b := newBench(t)
	other, err := New(b.cfg, b.service, b.Server.log)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Serve(l); err == nil || !strings.Contains(err.Error(), "is not a loopback address") {
		t.Errorf("Serve: %v", err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("the listener is still open")
	}
}
