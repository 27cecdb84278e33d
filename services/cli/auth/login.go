package auth

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"zino/pkg/keys"
	"zino/proto"
	"zino/services/cli/command"
	"zino/services/cli/render"
)

// loginLimit is how long a whole login may take.
const loginLimit = 10 * time.Minute

var errTimeout error = proto.Errorf(proto.CodeTimeout, "no login within 10 minutes; start again with: zino auth login openrouter")

// logIn gets a key through the browser. Only OpenRouter offers this to local programs.
func logIn(ctx context.Context, env *command.Env, account keys.Account, at place) error {
	if account.Name != "openrouter" {
		return render.Usage("%s: API key only: zino auth set %s (get one at %s)", account.Name, account.Name, account.Page)
	}
	api, err := openRouter(os.Getenv("OPENROUTER_BASE_URL"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, loginLimit, errTimeout)
	defer cancel()
	key, err := newLogin(api).run(ctx, env)
	if err != nil {
		return err
	}
	return keep(ctx, env, account, key, at)
}

// openRouter returns the base URL of OpenRouter's API. A code is sent in the clear to
// this host only.
func openRouter(base string) (*url.URL, error) {
	if base == "" {
		base = "https://openrouter.ai/api/v1"
	}
	u, err := url.Parse(base)
	if err == nil {
		ip := net.ParseIP(u.Hostname())
		loopback := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
		if u.Scheme == "https" && u.Hostname() != "" || u.Scheme == "http" && loopback {
			return u, nil
		}
	}
	return nil, proto.Errorf(proto.CodeInvalid, "OPENROUTER_BASE_URL must be an https URL such as https://openrouter.ai/api/v1 (http on this host only)")
}

// login is one authorization with PKCE (RFC 7636): the code can only be exchanged
// for a key together with the verifier.
type login struct {
	api      *url.URL
	verifier string
	path     string // of the callback; it cannot be guessed
}

func newLogin(api *url.URL) *login {
	verifier := make([]byte, 32)
	rand.Read(verifier) // never fails
	return &login{api, base64.RawURLEncoding.EncodeToString(verifier), "/cb/" + rand.Text()}
}

// page returns the URL that the user opens.
func (l *login) page(port string) string {
	challenge := sha256.Sum256([]byte(l.verifier))
	query := url.Values{
		"callback_url":          {"http://localhost:" + port + l.path},
		"code_challenge":        {base64.RawURLEncoding.EncodeToString(challenge[:])},
		"code_challenge_method": {"S256"},
	}
	return (&url.URL{Scheme: l.api.Scheme, Host: l.api.Host, Path: "/auth", RawQuery: query.Encode()}).String()
}

// run waits for the user to authorize and returns the key. The code comes from the
// browser or from standard input, whichever is first.
func (l *login) run(ctx context.Context, env *command.Env) (key string, err error) {
	callback, err := listen(l.path)
	if err != nil {
		return "", err
	}
	defer callback.close()
	env.Say("Open this address in a browser:\n\n%s\n", l.page(callback.port))
	env.Say("If the browser runs elsewhere it ends on a page that it cannot load: paste that page's address here.")
	typed := make(chan string, 1)
	go l.readCode(env, typed)
	var code string
	select {
	case code = <-typed:
	case result := <-callback.results:
		if result.err != nil {
			return "", result.err
		}
		code = result.code
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	return l.exchange(ctx, code)
}

// readCode reads lines until one contains a code, or to the end of the input: the
// browser may still send the code.
func (l *login) readCode(env *command.Env, typed chan<- string) {
	lines := bufio.NewScanner(env.In)
	lines.Buffer(nil, readMax)
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		code, err := parseCode(lines.Text(), l.path)
		if err == nil {
			typed <- code
			return
		}
		env.Say("That does not help: %s.", render.Line(err.Error()))
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.EOF) {
		env.Say("Nothing more can be pasted (%s); the browser's answer is still awaited.", render.Line(err.Error()))
	}
}

// parseCode returns the code in pasted text: a code, or the whole address that the
// browser was sent to.
func parseCode(pasted, path string) (string, error) {
	pasted = strings.TrimSpace(pasted)
	whole := strings.Contains(pasted, "://")
	if !whole && !strings.Contains(pasted, "?") && !strings.HasPrefix(pasted, "localhost:") {
		return checkCode(pasted)
	}
	if !whole {
		pasted = "http://" + pasted // browsers hide it
	}
	u, err := url.Parse(pasted)
	if err != nil {
		return "", errNoCode
	}
	if u.Path != path {
		return "", errors.New("this address does not belong to this login")
	}
	return codeOf(u.Query())
}

// codeOf returns the code in the query of a callback.
func codeOf(query url.Values) (string, error) {
	if query.Get("code") == "" {
		return "", errors.New("there is no code in this address")
	}
	return checkCode(query.Get("code"))
}

// checkCode applies the rules for keys to a code.
func checkCode(code string) (string, error) {
	code, err := keys.Clean(code)
	if err != nil || code == "" {
		return "", errNoCode
	}
	return code, nil
}
