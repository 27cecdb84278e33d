package auth

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"zino/pkg/text"
	"zino/pkg/zinotest"
)

// TestExchangeErrors checks that an error is one line without a secret.
func TestExchangeErrors(t *testing.T) {
	body := func(status int, text string) func(http.ResponseWriter, *http.Request, string) {
		return func(w http.ResponseWriter, _ *http.Request, verifier string) {
			w.WriteHeader(status)
			io.WriteString(w, strings.ReplaceAll(text, "VERIFIER", verifier))
		}
	}
	redirect := func(to string) func(http.ResponseWriter, *http.Request, string) {
		return func(w http.ResponseWriter, r *http.Request, _ string) {
			http.Redirect(w, r, to+"?code="+code, http.StatusTemporaryRedirect)
		}
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the code was sent to another host") }))
	defer elsewhere.Close()
	for _, test := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request, string)
		want   string
	}{
		{"error object", body(403, `{"error":{"code":403,"message":"Invalid code"}}`), "HTTP 403: Invalid code;"},
		{"error string", body(400, `{"error":"bad \u001b[31m\nrequest"}`), "HTTP 400: bad ^[[31m request;"},
		{"message", body(500, `{"message":" oops "}`), "HTTP 500: oops;"},
		{"message beside an unknown error", body(500, `{"error":["x"],"message":"oops"}`), "HTTP 500: oops;"},
		{"empty error", body(503, `{"error":{"message":""}}`), "HTTP 503: no reason was given;"},
		{"empty body", body(502, ""), "HTTP 502: no reason was given;"},
		{"HTML", body(404, "<html>not found</html>"), "HTTP 404: no reason was given;"},
		{"echoed secrets", body(400, `{"error":{"message":"not `+code+` nor VERIFIER nor `+secretKey+`!"}}`), "HTTP 400: not [hidden] nor [hidden] nor [hidden]!;"},
		{"long message", body(400, `{"error":{"message":"`+strings.Repeat("wörter ", 5000)+`"}}`), "…; start again"},
		{"no key", body(200, `{"user_id":"u"}`), "there is no usable key in its answer;"},
		{"key with a space", body(200, `{"key":"`+secretKey+` x"}`), "there is no usable key in its answer;"},
		{"wrong JSON type", body(200, `["`+secretKey+`"]`), "its answer is not understood;"},
		{"oversized answer", body(200, `{"key":"`+strings.Repeat(secretKey, (64<<10)/10)), "its answer is not understood;"},
		{"redirect to another host", redirect(elsewhere.URL + "/x"), "it sends us elsewhere;"},
		{"redirect loop", redirect("/api/v1/auth/keys"), "it sends us elsewhere;"},
		{"closed connection", func(http.ResponseWriter, *http.Request, string) { panic(http.ErrAbortHandler) }, "EOF;"},
	} {
		t.Run(test.name, func(t *testing.T) {
			rt := newRouter(t)
			rt.answer = test.answer
			api, err := openRouter(rt.URL + "/api/v1")
			zinotest.Must(t, err)
			l := newLogin(api)
			key, err := l.exchange(t.Context(), code)
			if key != "" || err == nil {
				t.Fatalf("%q, %v", key, err)
			}
			message := err.Error()
			if !strings.HasPrefix(message, "OpenRouter gave no key: ") || !strings.Contains(message, test.want) || !strings.HasSuffix(message, "; start again with: zino auth login openrouter") {
				t.Errorf("%s\nwant %s", message, test.want)
			}
			for _, secret := range []string{code, l.verifier, secretKey, "\n", "\x1b"} {
				if strings.Contains(message, secret) {
					t.Errorf("%q contains %q", message, secret)
				}
			}
			if len(message) > 400 {
				t.Errorf("%d bytes", len(message))
			}
		})
	}
}

// FuzzAnswer parses any answer as a success and as an error.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"key":"` + secretKey + `"}`, `{"key":5}`, `{"error":{"message":"m","code":1}}`, `{"error":"text"}`, `{"message":"m"}`, `{"error":null}`, "[]", "", "<html>",
		`{"error":{"message":"` + code + ` ` + secretKey + `\u2028\u202e\u0007"}}`, "\xff", `{"error":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		key, err := parseKey(answer)
		if (key == "") != (err != nil) || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Fatalf("%q, %v", key, err)
		}
		message := brief(parseError(answer), code)
		if len(message) > 200+len("…") || strings.ContainsFunc(message, text.Hidden) || strings.ContainsAny(message, "\n\t") {
			t.Fatalf("%q", message)
		}
		if strings.Contains(message, code) || strings.Contains(message, secretKey) {
			t.Fatalf("%q contains a secret", message)
		}
	})
}
