package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	keystore "zino/pkg/keys" // the type keys is the keyboard
)

// loginLimit is how long a whole login may take.
const loginLimit = 10 * time.Minute

// errLate ends a login that takes longer.
var errLate = errors.New("nobody logged in within 10 minutes; start again with: zino auth login openrouter")

// authLogin gets a key in the browser, at the only provider that offers this
// to programs like this one.
func (a *app) authLogin(ctx context.Context, account keystore.Account, place keyPlace) error {
	if account.Name != "openrouter" {
		return usageError{fmt.Errorf("%s: API key only: zino auth set %s (get one at %s)", account.Name, account.Name, account.Page)}
	}
	api, err := openRouter(os.Getenv("OPENROUTER_BASE_URL"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, loginLimit, errLate)
	defer cancel()
	key, err := a.login(ctx, newLogin(api))
	if err != nil {
		return err
	}
	return a.keep(ctx, account, key, place)
}

// openRouter is the base of OpenRouter's API. A code must not travel in the
// clear, except to this host.
func openRouter(base string) (*url.URL, error) {
	if base == "" {
		base = "https://openrouter.ai/api/v1"
	}
	u, err := url.Parse(base)
	if err == nil && (u.Scheme == "https" && u.Hostname() != "" || u.Scheme == "http" && isLoopback(u.Hostname())) {
		return u, nil
	}
	return nil, errors.New("OPENROUTER_BASE_URL must be an https URL such as https://openrouter.ai/api/v1 (http on this host only)")
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// login is one authorization with proof of possession (PKCE, RFC 7636): only
// whoever knows the verifier can turn the code into a key.
type login struct {
	api      *url.URL
	verifier string
	path     string // of the callback; nobody else can guess it
}

func newLogin(api *url.URL) *login {
	verifier := make([]byte, 32)
	rand.Read(verifier) // never fails: the program would end
	return &login{api, base64.RawURLEncoding.EncodeToString(verifier), "/cb/" + rand.Text()}
}

// page is what the user opens.
func (l *login) page(port string) string {
	challenge := sha256.Sum256([]byte(l.verifier))
	query := url.Values{
		"callback_url":          {"http://localhost:" + port + l.path},
		"code_challenge":        {base64.RawURLEncoding.EncodeToString(challenge[:])},
		"code_challenge_method": {"S256"},
	}
	return (&url.URL{Scheme: l.api.Scheme, Host: l.api.Host, Path: "/auth", RawQuery: query.Encode()}).String()
}

// login has the user authorize and returns the key. The code comes from the
// browser or is pasted, whichever is first.
func (a *app) login(ctx context.Context, l *login) (key string, err error) {
	back, err := listenBack(l.path)
	if err != nil {
		return "", err
	}
	defer back.close()
	a.say("Open this address in a browser:\n\n%s\n", l.page(back.port))
	a.say("If the browser runs elsewhere it ends on a page that it cannot load: paste that page's address here.")
	typed := make(chan string, 1)
	go a.readCode(l.path, typed)
	var code string
	select {
	case code = <-typed:
	case result := <-back.results:
		if result.err != nil {
			return "", result.err
		}
		code = result.code
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	return l.exchange(ctx, code)
}

// readCode reads lines up to one that holds a code. The end of the input ends
// nothing: the browser may still come.
func (a *app) readCode(path string, typed chan<- string) {
	lines := bufio.NewScanner(a.in)
	lines.Buffer(nil, maxTyped)
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		code, err := codeIn(lines.Text(), path)
		if err == nil {
			typed <- code
			return
		}
		a.say("That does not help: %s.", oneLine(err))
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.EOF) {
		a.say("Nothing more can be pasted (%s); the browser's answer is still awaited.", oneLine(err))
	}
}

// codeIn finds the code in what was pasted: a code, or the whole address that
// the browser was sent to.
func codeIn(text, path string) (string, error) {
	text = strings.TrimSpace(text)
	whole := strings.Contains(text, "://")
	if !whole && !strings.Contains(text, "?") && !strings.HasPrefix(text, "localhost:") {
		return checkCode(text)
	}
	if !whole {
		text = "http://" + text // browsers leave it out
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", errors.New("this is neither a code nor an address")
	case u.Path != path:
		return "", errors.New("this address does not belong to this login")
	}
	return codeOf(u.Query())
}

// codeOf finds the code in the query of a callback.
func codeOf(query url.Values) (string, error) {
	if query.Get("code") == "" {
		return "", errors.New("there is no code in this address")
	}
	return checkCode(query.Get("code"))
}

// checkCode holds a code to what holds for keys.
func checkCode(code string) (string, error) {
	code, err := keystore.Clean(code)
	if err != nil || code == "" {
		return "", errors.New("this is neither a code nor an address")
	}
	return code, nil
}
