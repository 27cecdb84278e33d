package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
)

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
	if status != exitError || out != "" || strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "Error [internal]: OPENROUTER_BASE_URL must be an https URL") {
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
