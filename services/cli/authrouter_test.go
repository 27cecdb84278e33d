package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// code is what the provider's page gives to the browser.
const code = "code-0123456789"

// router is OpenRouter as far as a login goes.
type router struct {
	*httptest.Server

	mu        sync.Mutex
	challenge string
	asked     int // for a key
	// answer, if it is set, replaces the answer to a request for a key.
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

// authorize is the page on which the user agrees.
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

// key gives the key to whoever has the code and the verifier.
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

// attempt is a login under way.
type attempt struct {
	t     *testing.T
	w     world
	cmd   *exec.Cmd
	input io.WriteCloser
	said  string // the file with what it says
	out   bytes.Buffer
	page  string // what the user is to open
	back  *url.URL
}

func logIn(t *testing.T, rt *router) *attempt {
	t.Helper()
	w := newWorld(t)
	at := &attempt{t: t, w: w, said: filepath.Join(w.cwd, "said"), cmd: with(w.auth("login", "openrouter"), "OPENROUTER_BASE_URL="+rt.URL+"/api/v1")}
	said, err := os.Create(at.said)
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	at.cmd.Stderr, at.cmd.Stdout = said, &at.out
	if at.input, err = at.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := at.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if at.cmd.ProcessState == nil {
			at.cmd.Process.Kill()
			at.cmd.Wait()
		}
	})
	until(t, "the page is named", func() bool { return strings.Contains(at.text(), "paste that page's address here.\n") })
	at.page, at.back = pageIn(t, at.text())
	return at
}

// pageIn finds the page that the user is to open, and where it leads back to.
func pageIn(t *testing.T, text string) (page string, back *url.URL) {
	t.Helper()
	page = regexp.MustCompile(`http://127[^\s]*/auth\?[^\s]*`).FindString(text)
	u, err := url.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	if back, err = url.Parse(u.Query().Get("callback_url")); err != nil || back.Port() == "" {
		t.Fatalf("%q leads back to %v, %v", page, back, err)
	}
	return page, back
}

func (at *attempt) text() string {
	at.t.Helper()
	data, err := os.ReadFile(at.said)
	if err != nil {
		at.t.Fatal(err)
	}
	return string(data)
}

func (at *attempt) paste(line string) {
	at.t.Helper()
	if _, err := io.WriteString(at.input, line); err != nil {
		at.t.Fatal(err)
	}
}

// browse opens the page as a browser does that is on this host.
func browse(t *testing.T, page string) (status int, body string) {
	t.Helper()
	res, err := http.Get(page)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

// agree opens the page as a browser does that is on another host: it cannot
// load the page it is sent to. The address of that is returned.
func (at *attempt) agree() string {
	at.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get(at.page)
	if err != nil {
		at.t.Fatal(err)
	}
	res.Body.Close()
	return res.Header.Get("Location")
}

// ends checks the end: neither key nor code may be anywhere but in the store.
func (at *attempt) ends(status int, kept, says string) {
	at.t.Helper()
	at.cmd.Wait() // the status is looked at below
	text := at.text()
	if got := at.cmd.ProcessState.ExitCode(); got != status || !strings.Contains(text, says) || at.out.Len() > 0 {
		at.t.Errorf("status %d, printed %q, said %q\nwant %q", got, &at.out, text, says)
	}
	if got := at.w.kept(at.t); got != kept {
		at.t.Errorf("kept %q, want %q", got, kept)
	}
	if strings.Contains(text, "sk-") || strings.Contains(text, code) || strings.ContainsRune(text, '\x1b') {
		at.t.Errorf("said %q", text)
	}
}

const keptKey = "openrouter=" + secretKey
