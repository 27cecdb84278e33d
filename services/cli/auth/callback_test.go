package auth

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// TestCallback checks that requests other than the expected one are refused.
func TestCallback(t *testing.T) {
	rt := newRouter(t)
	at := start(t, rt)
	for _, test := range []struct {
		method, path, host string
		status             int
	}{
		{"GET", "/", "", 404},
		{"GET", "/cb/", "", 404},
		{"GET", "/cb/AAAAAAAAAAAAAAAAAAAAAAAAAA", "", 404},
		{"GET", at.back.Path + "/", "", 404},
		{"GET", strings.ToLower(at.back.Path), "", 404},
		{"GET", at.back.Path, "evil.example:" + at.back.Port(), 404},
		{"GET", at.back.Path, "localhost", 404},
		{"POST", at.back.Path, "", 404},
		{"HEAD", at.back.Path, "", 404},
		{"OPTIONS", at.back.Path, "", 404},
		{"GET", at.back.Path, "", 400}, // without a code
	} {
		query := "?code=injected"
		if test.status == 400 {
			query = "?code=two%20words"
		}
		req, err := http.NewRequest(test.method, "http://"+at.back.Host+test.path+query, nil)
		zinotest.Must(t, err)
		req.Host = test.host
		res, err := http.DefaultTransport.RoundTrip(req)
		zinotest.Must(t, err)
		res.Body.Close()
		if res.StatusCode != test.status || res.Header.Get("Access-Control-Allow-Origin") != "" || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%+v: %s %v", test, res.Status, res.Header)
		}
	}
	if rt.asked > 0 {
		t.Error("a key was requested")
	}
	browse(t, at.page)
	at.ends("")
}

// TestCallbackAddresses checks that the callback listens on 127.0.0.1 and ::1, which
// browsers use for localhost, and on no other address.
func TestCallbackAddresses(t *testing.T) {
	b, err := listen("/cb/x")
	zinotest.Must(t, err)
	defer b.close()
	hosts := []string{"127.0.0.1"}
	if l, err := net.Listen("tcp6", "[::1]:0"); err == nil {
		l.Close()
		hosts = append(hosts, "[::1]")
	}
	for _, host := range hosts {
		if status, body := browse(t, "http://"+host+":"+b.port+"/cb/x?code="+code); status != http.StatusOK || body != "You can close this window.\n" {
			t.Errorf("%s: %d %q", host, status, body)
		}
	}
	if got := <-b.results; got.code != code || got.err != nil {
		t.Errorf("%+v", got)
	}
	select {
	case got := <-b.results: // only the first result is sent
		t.Errorf("%+v", got)
	default:
	}
	if l, err := net.Listen("tcp4", "127.0.0.2:"+b.port); err != nil {
		t.Errorf("127.0.0.2 is also in use: %v", err)
	} else {
		l.Close()
	}
}

func TestLoginDenied(t *testing.T) {
	at := start(t, newRouter(t))
	back := *at.back
	back.RawQuery = url.Values{"error": {"access_denied\n\x1b[31m" + secretKey}}.Encode()
	if status, body := browse(t, back.String()); status != http.StatusOK || body != "You can close this window.\n" {
		t.Errorf("the browser shows %d %q", status, body)
	}
	at.ends("OpenRouter did not authorize: access_denied ^[[31m[hidden]")
}
