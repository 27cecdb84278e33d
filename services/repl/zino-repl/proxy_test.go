package main

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// TestProxyPort checks on which port the proxy of an application listens.
func TestProxyPort(t *testing.T) {
	listen := func(o proxyOptions) (port int, err error) {
		t.Helper()
		_, l, err := o.listen()
		if err != nil {
			return 0, err
		}
		t.Cleanup(func() { l.Close() })
		addr, ok := l.Addr().(*net.TCPAddr)
		if !ok || !addr.IP.IsLoopback() {
			t.Fatalf("it listens on %v", l.Addr())
		}
		return addr.Port, nil
	}
	// Other programs may have some of the ports.
	for _, test := range []struct {
		url   string
		first int
	}{{"http://localhost:21111", 31111}, {"http://localhost", 10081}, {"https://127.0.0.1/app", 10443}, {"http://localhost:60000", 50000}} {
		first, err := listen(proxyOptions{url: test.url})
		zinotest.Must(t, err)
		next, err := listen(proxyOptions{url: test.url})
		if err != nil || first < test.first || first > test.first+attempts || next <= first {
			t.Errorf("%s: ports %d and %d, %v, want %d and a later one", test.url, first, next, err, test.first)
		}
		own, err := listen(proxyOptions{url: test.url, port: first})
		if want := fmt.Sprintf("--port %d is in use", first); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a port that is taken: %d, %v", own, err)
		}
	}
	for text, o := range map[string]proxyOptions{
		"is the port of the application": {url: "http://localhost:21111", port: 21111}, "is not a port": {url: "http://localhost:21111", port: 65536},
		"is not on this host": {url: "http://10.0.0.1:80"}, "is not an address": {url: "localhost:5173"},
	} {
		if _, err := listen(o); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", o, err, text)
		}
	}
}
