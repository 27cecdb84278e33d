package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
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

func TestLoginBrowser(t *testing.T) {
	t.Parallel()
	rt := newRouter(t)
	at := logIn(t, rt)
	at.input.Close() // no terminal at all: the browser may still come
	if status, body := browse(t, at.page); status != http.StatusOK || body != "You can close this window.\n" {
		t.Errorf("the browser shows %d %q", status, body)
	}
	at.ends(0, keptKey, "The key of openrouter is kept in "+at.w.store()+"/openrouter, readable by you only, not encrypted")
	if nc, err := net.Dial("tcp", at.back.Host); err == nil {
		nc.Close()
		t.Error("somebody still listens")
	}
}

// TestLoginPasted is a login on a host without a browser.
func TestLoginPasted(t *testing.T) {
	for name, lines := range map[string]func(address string) string{
		"the code":               func(string) string { return code + "\n" },
		"the address":            func(address string) string { return "\n  " + address + " \n" },
		"without its scheme":     func(address string) string { return strings.TrimPrefix(address, "http://") + "\n" },
		"without a last newline": func(string) string { return code },
		"after mistakes": func(address string) string {
			return "what now?\ntwo words\nhttps://openrouter.ai/x?code=1\n" + strings.Replace(address, "code=", "koda=", 1) + "\n" + address + "\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := logIn(t, newRouter(t))
			at.paste(lines(at.agree()))
			at.input.Close()
			at.ends(0, keptKey, "The key of openrouter is kept ")
			if n := strings.Count(at.text(), "That does not help: this "); (n >= 3) != (name == "after mistakes") {
				t.Errorf("said %q", at.text())
			}
		})
	}
}

func TestLoginTerminal(t *testing.T) {
	t.Parallel()
	rt := newRouter(t)
	w := newWorld(t)
	x := onTerminal(t, with(w.auth("login", "openrouter"), "OPENROUTER_BASE_URL="+rt.URL+"/api/v1"))
	x.shows("paste that page's address here.")
	page, _ := pageIn(t, x.screen())
	at := &attempt{t: t, page: page}
	x.types(at.agree() + "\r")
	x.leaves(0)
	if x.shows("The key of openrouter is kept "); w.kept(t) != keptKey || strings.Contains(x.screen(), secretKey) {
		t.Errorf("kept %q; on the screen: %q", w.kept(t), x.screen())
	}
}

func TestLoginInterrupted(t *testing.T) {
	t.Parallel()
	at := logIn(t, newRouter(t))
	if err := at.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	at.ends(exitInterrupted, "", "")
}

// TestLoginLate ends in time, before and after the code has come.
func TestLoginLate(t *testing.T) {
	rt := newRouter(t)
	api, err := openRouter(rt.URL + "/api/v1")
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	a := &app{in: r, err: discard(t)}
	ctx, cancel := context.WithTimeoutCause(context.Background(), 1, errLate)
	defer cancel()
	if key, err := a.login(ctx, newLogin(api)); key != "" || !errors.Is(err, errLate) {
		t.Errorf("%q, %v", key, err)
	}
	w.Close() // ends what still reads
	asked := make(chan struct{})
	rt.answer = func(w http.ResponseWriter, r *http.Request, _ string) {
		close(asked)
		<-r.Context().Done()
	}
	late, give := context.WithCancelCause(context.Background())
	go func() {
		<-asked
		give(errors.New("no answer within 30s"))
	}()
	if key, err := newLogin(api).exchange(late, code); key != "" || err == nil || !strings.HasPrefix(err.Error(), "OpenRouter gave no key: no answer within 30s; start again") {
		t.Errorf("%q, %v", key, err)
	}
}

func discard(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestCallback answers nobody but the browser that was sent here.
func TestCallback(t *testing.T) {
	t.Parallel()
	rt := newRouter(t)
	at := logIn(t, rt)
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
		if err != nil {
			t.Fatal(err)
		}
		req.Host = test.host
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != test.status || res.Header.Get("Access-Control-Allow-Origin") != "" || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%+v: %s %v", test, res.Status, res.Header)
		}
	}
	if rt.asked > 0 {
		t.Error("a key was asked for")
	}
	browse(t, at.page)
	at.ends(0, keptKey, "The key of openrouter is kept ")
}

// TestCallbackAddresses listens wherever a browser may take localhost to be,
// and nowhere else.
func TestCallbackAddresses(t *testing.T) {
	t.Parallel()
	b, err := listenBack("/cb/x")
	if err != nil {
		t.Fatal(err)
	}
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
	case got := <-b.results: // the first one counts
		t.Errorf("%+v", got)
	default:
	}
	if l, err := net.Listen("tcp4", "127.0.0.2:"+b.port); err != nil {
		t.Errorf("it listens on more than it should: %v", err)
	} else {
		l.Close()
	}
}

func TestLoginDenied(t *testing.T) {
	t.Parallel()
	at := logIn(t, newRouter(t))
	back := *at.back
	back.RawQuery = url.Values{"error": {"access_denied\n\x1b[31m" + secretKey}}.Encode()
	if status, body := browse(t, back.String()); status != http.StatusOK || body != "You can close this window.\n" {
		t.Errorf("the browser shows %d %q", status, body)
	}
	at.ends(exitError, "", "\nzino: OpenRouter did not authorize: access_denied ^[[31m[hidden]\n")
}

// TestLoginRefused words what went wrong in one line without a secret.
func TestLoginRefused(t *testing.T) {
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
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the code was sent elsewhere") }))
	defer elsewhere.Close()
	for _, test := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request, string)
		want   string
	}{
		{"an error", body(403, `{"error":{"code":403,"message":"Invalid code"}}`), "HTTP 403: Invalid code;"},
		{"an error as text", body(400, `{"error":"bad \u001b[31m\nrequest"}`), "HTTP 400: bad ^[[31m request;"},
		{"a message", body(500, `{"message":" oops "}`), "HTTP 500: oops;"},
		{"a message beside", body(500, `{"error":["x"],"message":"oops"}`), "HTTP 500: oops;"},
		{"an empty error", body(503, `{"error":{"message":""}}`), "HTTP 503: no reason was given;"},
		{"no body", body(502, ""), "HTTP 502: no reason was given;"},
		{"a web page", body(404, "<html>not found</html>"), "HTTP 404: no reason was given;"},
		{"what was sent", body(400, `{"error":{"message":"not `+code+` nor VERIFIER nor `+secretKey+`!"}}`), "HTTP 400: not [hidden] nor [hidden] nor [hidden]!;"},
		{"many words", body(400, `{"error":{"message":"`+strings.Repeat("wörter ", 5000)+`"}}`), "…; start again"},
		{"no key", body(200, `{"user_id":"u"}`), "there is no usable key in its answer;"},
		{"two words", body(200, `{"key":"`+secretKey+` x"}`), "there is no usable key in its answer;"},
		{"another answer", body(200, `["`+secretKey+`"]`), "its answer is not understood;"},
		{"an endless answer", body(200, `{"key":"`+strings.Repeat(secretKey, maxExchange/10)), "its answer is not understood;"},
		{"another host", redirect(elsewhere.URL + "/x"), "it sends us elsewhere;"},
		{"round and round", redirect("/api/v1/auth/keys"), "it sends us elsewhere;"},
		{"hangs up", func(http.ResponseWriter, *http.Request, string) { panic(http.ErrAbortHandler) }, "EOF;"},
	} {
		t.Run(test.name, func(t *testing.T) {
			rt := newRouter(t)
			rt.answer = test.answer
			api, err := openRouter(rt.URL + "/api/v1")
			if err != nil {
				t.Fatal(err)
			}
			l := newLogin(api)
			key, err := l.exchange(t.Context(), code)
			if key != "" || err == nil {
				t.Fatalf("%q, %v", key, err)
			}
			text := err.Error()
			if !strings.HasPrefix(text, "OpenRouter gave no key: ") || !strings.Contains(text, test.want) || !strings.HasSuffix(text, "; start again with: zino auth login openrouter") {
				t.Errorf("%s\nwant %s", text, test.want)
			}
			for _, secret := range []string{code, l.verifier, secretKey, "\n", "\x1b"} {
				if strings.Contains(text, secret) {
					t.Errorf("%q holds %q", text, secret)
				}
			}
			if len(text) > 400 {
				t.Errorf("%d bytes", len(text))
			}
		})
	}
}

// TestLoginFails ends with status 1 where the code is of no use.
func TestLoginFails(t *testing.T) {
	t.Parallel()
	at := logIn(t, newRouter(t))
	at.agree()
	at.paste("another-code\n")
	at.ends(exitError, "", "\nzino: OpenRouter gave no key: HTTP 403: Invalid code or code_verifier; start again with: zino auth login openrouter\n")
}

func TestOpenRouter(t *testing.T) {
	for base, want := range map[string]string{
		"":                                 "https://openrouter.ai/auth",
		"https://gate.example/x/v1":        "https://gate.example/auth",
		"http://localhost:1/api/v1/":       "http://localhost:1/auth",
		"http://127.0.0.2:1/api/v1":        "http://127.0.0.2:1/auth",
		"http://[::1]:1/api/v1":            "http://[::1]:1/auth",
		"http://gate.example/api/v1":       "",
		"http://127.evil.example/v1":       "",
		"ftp://openrouter.ai":              "",
		"openrouter.ai/api/v1":             "",
		"https:///api/v1":                  "",
		"https://a:" + secretKey + "@\x00": "",
	} {
		api, err := openRouter(base)
		if err != nil {
			if want != "" || strings.Contains(err.Error(), secretKey) || !strings.Contains(err.Error(), "OPENROUTER_BASE_URL must be") {
				t.Errorf("%s: %v", base, err)
			}
			continue
		}
		l := newLogin(api)
		page, _, _ := strings.Cut(l.page("80"), "?")
		if page != want || len(l.verifier) != 43 || len(l.path) < len("/cb/")+26 {
			t.Errorf("%s: %s, want %s; %+v", base, page, want, l)
		}
		if other := newLogin(api); other.verifier == l.verifier || other.path == l.path {
			t.Error("two logins are alike")
		}
	}
	status, out, said := run(t, with(newWorld(t).auth("login", "openrouter"), "OPENROUTER_BASE_URL=http://gate.example"), "")
	if status != exitError || out != "" || strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "zino: OPENROUTER_BASE_URL must be an https URL") {
		t.Errorf("status %d, printed %q, said %q", status, out, said)
	}
}

func FuzzCodeIn(f *testing.F) {
	for _, seed := range []string{
		code, "", " ", "http://localhost:1/cb/x?code=a", "localhost:1/cb/x?code=a&b=c", "?code=1", "/cb/x?code=%zz", "http://[::1/cb/x?code=1",
		"http://localhost/cb/x?code=a%0ab", "https://h/cb/x?koda=1", "a b", "a\x00b", "é", "://", "localhost:",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := codeIn(text, "/cb/x")
		if (got == "") != (err != nil) {
			t.Fatalf("%q, %v", got, err)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Fatalf("the code is %q", got)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Fatalf("%v", err)
		}
	})
}

// FuzzAnswer reads any answer at all, as a success and as an error.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"key":"` + secretKey + `"}`, `{"key":5}`, `{"error":{"message":"m","code":1}}`, `{"error":"text"}`, `{"message":"m"}`, `{"error":null}`, "[]", "", "<html>",
		`{"error":{"message":"` + code + ` ` + secretKey + `\u2028\u202e\u0007"}}`, "\xff", `{"error":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		key, err := keyIn(answer)
		if (key == "") != (err != nil) || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Fatalf("%q, %v", key, err)
		}
		text := brief(complaintIn(answer), code)
		if len(text) > maxBrief+len("…") || strings.ContainsFunc(text, harmful) || strings.ContainsAny(text, "\n\t") {
			t.Fatalf("%q", text)
		}
		if strings.Contains(text, code) || strings.Contains(text, secretKey) {
			t.Fatalf("%q holds a secret", text)
		}
	})
}

// TestReadCode goes on without an input that fails.
func TestReadCode(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		io.Copy(w, strings.NewReader(strings.Repeat("x", maxTyped+1))) // the reader may have gone
		w.Close()
	}()
	said, saying, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	a := &app{in: r, err: saying}
	typed := make(chan string, 1)
	a.readCode("/cb/x", typed)
	r.Close()
	saying.Close()
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "Nothing more can be pasted (") || len(typed) > 0 {
		t.Errorf("%q, %v", line, err)
	}
}
