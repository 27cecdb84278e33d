package web

import (
	"io"
	"strings"
	"testing"
)

// TestScriptSize: it is loaded into every page.
func TestScriptSize(t *testing.T) {
	b := newBench(t)
	if n := len(b.get("/zino.js")); n >= 12<<10 {
		t.Errorf("the script has %d bytes, which is not less than 12 KB", n)
	}
}

// TestScriptPlace: the script finds the service where it was loaded from.
func TestScriptPlace(t *testing.T) {
	b := newBench(t, listed)
	_, port, _ := strings.Cut(b.addr, ":")
	for _, host := range []string{b.addr, "localhost:" + port, "[::1]:" + port} {
		text, err := io.ReadAll(b.request("GET", "/zino.js", map[string]string{"Host": host}).Body)
		want := `})({"script":"http://` + host + `/zino.js","socket":"ws://` + host + `/zino/ws","token":"` + b.token + `"})` + "\n"
		if err != nil || !strings.HasSuffix(string(text), want) {
			t.Errorf("%s: the script ends with %q, %v", host, text[max(0, len(text)-200):], err)
		}
	}
}

// TestScriptOrigins: pages of listed origins may load it, with the attribute
// crossorigin; no other answer can be read by them.
func TestScriptOrigins(t *testing.T) {
	b := newBench(t, listed)
	for origin, want := range map[string]string{
		"http://127.0.0.1:5173": "http://127.0.0.1:5173", "https://app.example": "https://app.example", "http://plain.example": "http://plain.example",
		"http://" + b.addr: "", "http://evil.example": "", "null": "",
	} {
		res := b.request("GET", "/zino.js", map[string]string{"Origin": origin})
		if got := res.Header.Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("%s: %q, want %q", origin, got, want)
		}
		if res.StatusCode == 200 && res.Header.Get("Vary") != "Origin" {
			t.Errorf("%s: Vary is %q", origin, res.Header.Get("Vary"))
		}
	}
}

// TestToken: each start has another one.
func TestToken(t *testing.T) {
	b := newBench(t)
	first := b.token
	if len(first) < 26 || !strings.Contains(b.get("/zino.js"), `"token":"`+first+`"`) {
		t.Errorf("token %q is not in the script", first)
	}
	b.stop()
	b.start()
	if b.token == first {
		t.Error("the token is the same after a new start")
	}
}
