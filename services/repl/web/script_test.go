package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestScriptSize checks what a page loads where responses are compressed.
func TestScriptSize(t *testing.T) {
	b := newEnv(t)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(b.get("/zino.js")))
	must(t, errors.Join(err, w.Close()))
	if packed.Len() > 16<<10 {
		t.Errorf("the script has %d bytes after gzip, which is more than 16 KiB", packed.Len())
	}
}

// TestScriptPlace checks that the script connects to the host that it was loaded from.
func TestScriptPlace(t *testing.T) {
	b := newEnv(t, listed)
	_, port, _ := strings.Cut(b.addr, ":")
	for _, host := range []string{b.addr, "localhost:" + port, "[::1]:" + port} {
		text, err := io.ReadAll(b.request("GET", "/zino.js", map[string]string{"Host": host}).Body)
		want := `})({"script":"http://` + host + `/zino.js","socket":"ws://` + host + `/zino/ws","token":"` + b.token + `"})` + "\n"
		if err != nil || !strings.HasSuffix(string(text), want) {
			t.Errorf("%s: the script ends with %q, %v", host, text[max(0, len(text)-200):], err)
		}
	}
}

// TestScriptOrigins checks that pages of listed origins, and no others, may load the
// script.
func TestScriptOrigins(t *testing.T) {
	b := newEnv(t, listed)
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

func TestToken(t *testing.T) {
	b := newEnv(t)
	first := b.token
	if len(first) < 26 || !strings.Contains(b.get("/zino.js"), `"token":"`+first+`"`) {
		t.Errorf("token %q is not in the script", first)
	}
	b.stop()
	b.start()
	if b.token == first {
		t.Error("the token is the same after a restart")
	}
}

// TestScript runs the tests of the page script in Node.js, with a simulated browser.
func TestScript(t *testing.T) {
	file := filepath.Join(t.TempDir(), "zino.js")
	text := body + `})({"script":"http://127.0.0.1:8302/zino.js","socket":"ws://127.0.0.1:8302/zino/ws","token":"first"})` + "\n"
	must(t, os.WriteFile(file, []byte(text), 0o600))
	tests, err := filepath.Glob("testdata/*.test.mjs")
	if err != nil || len(tests) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	node := exec.CommandContext(ctx, "node", append([]string{"--test"}, tests...)...)
	node.Env = append(os.Environ(), "ZINO_SCRIPT="+file)
	if out, err := node.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
