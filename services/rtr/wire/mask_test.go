package wire

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMask(t *testing.T) {
	m := newMask(testKey, url.UserPassword("someone", "pa ss"))
	for _, tt := range []struct{ in, want string }{
		{"key " + testKey + "!", "key [hidden]!"},
		{`{"k":"` + quotedKey + `"}`, `{"k":"[hidden]"}`},
		{"?k=" + url.QueryEscape(testKey), "?k=[hidden]"},
		{"/" + url.PathEscape(testKey), "/[hidden]"},
		{"upper " + strings.ToUpper(testKey), "upper [hidden]"},
		{"base64 " + base64.RawStdEncoding.EncodeToString([]byte(testKey)), "base64 [hidden]"},
		{"pa ss, pa+ss, pa%20ss", "[hidden], [hidden], [hidden]"},
		{"Authorization: Basic c29tZW9uZTpwYSBzcw==", "Authorization: [hidden] [hidden]"},
		{"got Bearer abcdefghijklmnop_1234.x", "got Bearer [hidden]"},
		{`{"x-api-key": "abcd1234"}`, `{"x-api-key": "[hidden]"}`},
		{"a bearer token is missing", "a bearer token is missing"},
		{"a\r\n\tb\x00c\u2028d", "a b c d"},
		{"\u202eevil\u2066", "evil"},
		{"bad \xff\xfe", "bad \uFFFD"},
	} {
		if got := m.text(tt.in, 200); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
	}
	if got := m.text("ääää", 3); got != "ä…" {
		t.Errorf("cut in a character: %q", got)
	}
	if got := newMask("x", nil).text("next", 10); got != "next" {
		t.Errorf("a placeholder garbles text: %q", got)
	}
}

// FuzzMask holds that masked text has no secret and is one clean line.
func FuzzMask(f *testing.F) {
	f.Add("key "+testKey, uint(20))
	f.Add(testKey[:5]+testKey, uint(9))
	f.Add("Bearer "+testKey+"\r\n\u202e", uint(100))
	m := newMask(testKey, url.UserPassword("u", "pass word"))
	f.Fuzz(func(t *testing.T, text string, limit uint) {
		got := m.text(text, int(limit%3000))
		if strings.Contains(got, testKey) || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\t\x00\x1b\u2028\u202e") {
			t.Fatalf("%q came out as %q", text, got)
		}
	})
}
