package auth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"zino/pkg/keys"
	"zino/pkg/zinotest"
	"zino/services/cli/command"
	"zino/services/cli/connect"
)

// secretKey must not appear outside the store.
const secretKey = "sk-secret-0123456789"

// code is what the provider's page gives to the browser.
const code = "code-0123456789"

// router is a fake OpenRouter with the two endpoints of a login.
type router struct {
	*httptest.Server

	mu        sync.Mutex
	challenge string
	asked     int // requests for a key
	// answer, if set, replaces the handler of requests for a key.
	answer func(w http.ResponseWriter, r *http.Request, verifier string)
}

func newRouter(t *testing.T) *router {
	t.Helper()
	rt := &router{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /auth", rt.authorize)
	mux.HandleFunc("POST /api/v1/auth/keys", rt.key)
	rt.Server = httptest.NewServer(mux)
	t.Cleanup(rt.Close)
	return rt
}

// authorize redirects to the callback with a code, as after the user's consent.
func (rt *router) authorize(w http.ResponseWriter, r *http.Request) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	query := r.URL.Query()
	rt.challenge = query.Get("code_challenge")
	back, err := url.Parse(query.Get("callback_url"))
	if err != nil || back.Hostname() != "localhost" || query.Get("code_challenge_method") != "S256" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	back.RawQuery = url.Values{"code": {code}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// key exchanges a code and its verifier for a key.
func (rt *router) key(w http.ResponseWriter, r *http.Request) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.asked++
	var req map[string]string
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	sum := sha256.Sum256([]byte(req["code_verifier"]))
	switch {
	case rt.answer != nil:
		rt.answer(w, r, req["code_verifier"])
	case req["code"] != code || req["code_challenge_method"] != "S256" || len(req["code_verifier"]) != 43 ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != rt.challenge:
		http.Error(w, `{"error":{"code":403,"message":"Invalid code or code_verifier"}}`, http.StatusForbidden)
	default:
		io.WriteString(w, `{"key":"`+secretKey+`","user_id":"u"}`)
	}
}

// attempt is a running login.
type attempt struct {
	t     *testing.T
	input *os.File         // standard input
	err   *zinotest.Buffer // standard error
	store string
	page  string   // URL that the user opens
	back  *url.URL // URL of the callback
	stop  func()
	ended chan error
}

// start begins a login with an empty store, which is not encrypted: PATH has no
// systemd-creds.
func start(t *testing.T, rt *router) *attempt {
	t.Helper()
	home := zinotest.Dir(t)
	t.Setenv("ZINO_HOME", home)
	t.Setenv("PATH", home)
	t.Setenv("OPENROUTER_BASE_URL", rt.URL+"/api/v1")
	ctx, cancel := context.WithCancel(t.Context())
	at := &attempt{t: t, err: &zinotest.Buffer{}, store: filepath.Join(home, "keys"), stop: cancel, ended: make(chan error, 1)}
	in, input, err := os.Pipe()
	zinotest.Must(t, err)
	at.input = input
	shown, stderr, err := os.Pipe()
	zinotest.Must(t, err)
	t.Cleanup(func() { input.Close(); stderr.Close(); in.Close(); shown.Close() })
	go io.Copy(at.err, shown)
	account, _ := keys.Find("openrouter")
	env := &command.Env{In: in, Target: connect.Target{Err: stderr}}
	go func() { at.ended <- logIn(ctx, env, account, place{}) }()
	at.err.WaitFor(t, "paste that page's address here.\n")
	at.page = regexp.MustCompile(`http://127[^\s]*/auth\?[^\s]*`).FindString(at.err.String())
	u, err := url.Parse(at.page)
	zinotest.Must(t, err)
	if at.back, err = url.Parse(u.Query().Get("callback_url")); err != nil || at.back.Port() == "" {
		t.Fatalf("%q leads back to %v, %v", at.page, at.back, err)
	}
	return at
}

func (at *attempt) paste(line string) {
	at.t.Helper()
	_, err := io.WriteString(at.input, line)
	zinotest.Must(at.t, err)
}

// browse gets a page and follows redirects, like a browser on this host.
func browse(t *testing.T, page string) (status int, body string) {
	t.Helper()
	res, err := http.Get(page)
	zinotest.Must(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	zinotest.Must(t, err)
	return res.StatusCode, string(data)
}

// agree authorizes like a browser on another host, which cannot reach the callback,
// and returns the callback's URL.
func (at *attempt) agree() string {
	at.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get(at.page)
	zinotest.Must(at.t, err)
	res.Body.Close()
	return res.Header.Get("Location")
}

// ends waits for the login and checks its error, and that key and code are only in the store.
func (at *attempt) ends(failure string) {
	at.t.Helper()
	err := zinotest.Receive(at.t, "the end of the login", at.ended)
	key, readErr := os.ReadFile(filepath.Join(at.store, "openrouter"))
	if failure == "" {
		if err != nil || readErr != nil || strings.TrimSpace(string(key)) != secretKey {
			at.t.Errorf("login: %v; stored %q, %v", err, key, readErr)
		}
		at.err.WaitFor(at.t, "The key of openrouter is kept in "+at.store+"/openrouter, readable by you only, not encrypted")
	} else if err == nil || err.Error() != failure || readErr == nil {
		at.t.Errorf("login: %v, want %s; stored %q", err, failure, key)
	}
	if shown := at.err.String(); strings.Contains(shown, "sk-") || strings.Contains(shown, code) || strings.ContainsRune(shown, '\x1b') {
		at.t.Errorf("shown: %q", shown)
	}
}
