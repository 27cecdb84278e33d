package web

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestScriptSize(t *testing.T) {
	b := newEnv(t)
	if n := len(b.get("/zino.js")); n >= 12<<10 {
		t.Errorf("the script has %d bytes, which is not less than 12 KB", n)
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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	node := exec.CommandContext(ctx, "node", append([]string{"--test"}, tests...)...)
	node.Env = append(os.Environ(), "ZINO_SCRIPT="+file)
	if out, err := node.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestInject checks the position of the script, marked by "|".
func TestInject(t *testing.T) {
	for _, want := range []string{
		"|", "|plain text", "|<p>x", "|<script>1</script>", "<!doctype html>|<p>x", "<!DOCTYPE html>\n<html>|\n<body>x",
		"<!doctype html>\n<html lang=en>\n<head>|\n<meta charset=utf-8>\n<script>1</script></head>",
		"<HTML><HEAD>|<TITLE>x</TITLE></HEAD>", "<head profile='a>b' data-x=\">\">|<title>x</title>", "<html data-x='<head>'>|<title>x</title>",
		"<!-- <head> --><html><!-- <head> --><head>|<!-- x --></head>", "<!-- one --><!-- two -->|<p>", "<!doctype html>|<!-- never ended <head>",
		"\ufeff|<p>x", "\ufeff<!doctype html><head>|</head>", "<?xml version=\"1.0\"?>\n<!doctype html>\n<html xmlns='x'><head>|</head>",
		"|<header>no head</header>", "|<htmlx><head>", "<html>|<header><head></head></header>", "|<head", "<html>|<head data-x=\"never ended>", "|<html", "|<!doctype",
		"<html\n>|<body><head></head>", "<head/>|<p>", "  |  <p>x", "<!doctype html>|  <p>x", "|<!DOCTYPEhtml><head>",
	} {
		if strings.HasPrefix(want, "  |") {
			want = "|" + strings.Replace(want, "|", "", 1) // leading blanks follow the tag
		}
		doc := strings.Replace(want, "|", "", 1)
		if got := string(inject([]byte(doc))); got != strings.Replace(want, "|", tag, 1) {
			t.Errorf("%q\ngot  %q", want, got)
		}
	}
}

// FuzzInject checks that the page is otherwise unchanged, and that the position of the
// script depends only on the text before it.
func FuzzInject(f *testing.F) {
	for _, doc := range []string{"", "<!doctype html><html><head><title>x</title>", "<!-- x", "\ufeff<?xml?><html a='>", "\xff\xfe<\x00"} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		before := bytes.Clone(doc)
		got := inject(doc)
		if !bytes.Equal(doc, before) {
			t.Fatal("inject modified its argument")
		}
		if isUTF16(doc) {
			if !bytes.Equal(got, doc) {
				t.Fatal("a page in UTF-16 was changed")
			}
			return
		}
		at := headStart(doc)
		if want := string(doc[:at]) + tag + string(doc[at:]); string(got) != want {
			t.Fatalf("%q became %q", doc, got)
		}
		if again := headStart(append(doc[:at:at], "<p>"...)); again != at {
			t.Fatalf("%q: at %d, and %d without the rest", doc, at, again)
		}
	})
}
