package auth

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"zino/pkg/keys"
	"zino/pkg/zinotest"
	"zino/services/cli/command"
	"zino/services/cli/connect"
)

func TestLoginBrowser(t *testing.T) {
	at := start(t, newRouter(t))
	at.input.Close() // the code comes from the browser only
	if status, body := browse(t, at.page); status != http.StatusOK || body != "You can close this window.\n" {
		t.Errorf("the browser shows %d %q", status, body)
	}
	at.ends("")
	if nc, err := net.Dial("tcp", at.back.Host); err == nil {
		nc.Close()
		t.Error("the callback's port is still open")
	}
}

// TestLoginPasted is a login on a host without a browser.
func TestLoginPasted(t *testing.T) {
	for name, lines := range map[string]func(address string) string{
		"code":              func(string) string { return code + "\n" },
		"address":           func(address string) string { return "\n  " + address + " \n" },
		"no scheme":         func(address string) string { return strings.TrimPrefix(address, "http://") + "\n" },
		"no newline at end": func(string) string { return code },
		"invalid lines first": func(address string) string {
			return "what now?\ntwo words\nhttps://openrouter.ai/x?code=1\n" + strings.Replace(address, "code=", "koda=", 1) + "\n" + address + "\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := start(t, newRouter(t))
			at.paste(lines(at.agree()))
			at.input.Close()
			at.ends("")
			if n := at.err.Count("That does not help: this "); (n >= 3) != (name == "invalid lines first") {
				t.Errorf("shown: %q", at.err)
			}
		})
	}
}

func TestLoginWithWrongCode(t *testing.T) {
	at := start(t, newRouter(t))
	at.agree()
	at.paste("another-code\n")
	at.ends("OpenRouter gave no key: HTTP 403: Invalid code or code_verifier; start again with: zino auth login openrouter")
}

func TestLoginInterrupted(t *testing.T) {
	at := start(t, newRouter(t))
	at.stop()
	at.ends(context.Canceled.Error())
}

// TestLoginTimeout checks the timeouts before and after the code arrives.
func TestLoginTimeout(t *testing.T) {
	rt := newRouter(t)
	api, err := openRouter(rt.URL + "/api/v1")
	zinotest.Must(t, err)
	r, w, err := os.Pipe()
	zinotest.Must(t, err)
	defer r.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	zinotest.Must(t, err)
	defer null.Close()
	env := &command.Env{In: r, Target: connect.Target{Err: null}}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 1, errTimeout)
	defer cancel()
	if key, err := newLogin(api).run(ctx, env); key != "" || !errors.Is(err, errTimeout) {
		t.Errorf("%q, %v", key, err)
	}
	w.Close() // ends the reader of the input
	asked := make(chan struct{})
	rt.answer = func(w http.ResponseWriter, r *http.Request, _ string) {
		close(asked)
		<-r.Context().Done()
	}
	late, giveUp := context.WithCancelCause(t.Context())
	go func() {
		<-asked
		giveUp(errors.New("no answer within 30s"))
	}()
	if key, err := newLogin(api).exchange(late, code); key != "" || err == nil || !strings.HasPrefix(err.Error(), "OpenRouter gave no key: no answer within 30s; start again") {
		t.Errorf("%q, %v", key, err)
	}
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
			t.Error("two logins have the same verifier or path")
		}
	}
}

func FuzzCodeIn(f *testing.F) {
	for _, seed := range []string{
		code, "", " ", "http://localhost:1/cb/x?code=a", "localhost:1/cb/x?code=a&b=c", "?code=1", "/cb/x?code=%zz", "http://[::1/cb/x?code=1",
		"http://localhost/cb/x?code=a%0ab", "https://h/cb/x?koda=1", "a b", "a\x00b", "é", "://", "localhost:",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, pasted string) {
		got, err := parseCode(pasted, "/cb/x")
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

// TestReadCodeFails checks that a read error is printed and ends readCode.
func TestReadCodeFails(t *testing.T) {
	r, w, err := os.Pipe()
	zinotest.Must(t, err)
	go func() {
		io.Copy(w, strings.NewReader(strings.Repeat("x", readMax+1))) // fails if the reader is gone
		w.Close()
	}()
	shown, stderr, err := os.Pipe()
	zinotest.Must(t, err)
	defer shown.Close()
	typed := make(chan string, 1)
	(&login{path: "/cb/x"}).readCode(&command.Env{In: r, Target: connect.Target{Err: stderr}}, typed)
	r.Close()
	stderr.Close()
	message, err := io.ReadAll(shown)
	if err != nil || !strings.HasPrefix(string(message), "Nothing more can be pasted (") || len(typed) > 0 {
		t.Errorf("%q, %v", message, err)
	}
}

// TestPlaceCheck checks that only root may change the host's keys.
func TestPlaceCheck(t *testing.T) {
	const refused = "zino auth set openai --system is about /etc/credstore, which is root's: sudo zino auth set openai --system; without --system it is about your own keys"
	for _, test := range []struct {
		place place
		uid   int
		want  string
	}{
		{place{}, 1000, ""},
		{place{}, 0, ""},
		{place{system: true}, 0, ""},
		{place{system: true}, 1000, refused},
		{place{system: true, root: "/x"}, 1000, ""},
		{place{root: "/x"}, 0, "zino auth set openai: --root-dir belongs to --system"},
		{place{root: "x", system: true}, 0, `zino auth set openai: --root-dir "x": give an absolute path`},
	} {
		got := ""
		if err := test.place.check("zino auth set openai", test.uid); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%+v, uid %d: %q, want %q", test.place, test.uid, got, test.want)
		}
	}
}

func TestReadKeyInterrupted(t *testing.T) {
	r, w, err := os.Pipe()
	zinotest.Must(t, err)
	defer r.Close()
	defer w.Close() // ends the reader
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if line, err := readKey(ctx, &command.Env{In: r}, keys.Account{}); line != "" || err == nil || err.Error() != "interrupted" {
		t.Errorf("%q, %v", line, err)
	}
}
