package mcp

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"zino/pkg/config"
	"zino/pkg/text"
	"zino/proto"
)

const (
	loginLife = 10 * time.Minute
	loginsMax = 16 // that have begun
	// metadataMax is the most bytes of an answer of an authorization server.
	metadataMax = 1 << 20
	// beginTimeout limits the requests until the address of a login is known, and those
	// after the user has logged in.
	beginTimeout = 30 * time.Second
)

// oauth has the logins that have begun, and what servers asked for.
type oauth struct {
	mu         sync.Mutex
	pending    map[string]*pendingLogin
	challenges map[string]*challenge // by key of the login

	// For tests of conformance: a document that describes this client, and a client that is
	// registered already.
	document   string
	registered *oauthex.ClientCredentials
}

// challenge is an answer that asks for a login, or for more rights.
type challenge struct {
	status int
	header http.Header
}

// pendingLogin is a login that has begun.
type pendingLogin struct {
	id     string
	key    string // of the login
	cancel context.CancelFunc
	answer chan *auth.AuthorizationResult // has room for one
	done   chan error                     // has room for one
}

// loginKey is the key of a server's login.
func (d *definition) loginKey() string { return d.name + " " + d.URL }

// authorizer authorizes the requests to a server. It never begins a login: a call must not
// wait for a person.
type authorizer struct {
	s *Service
	d *definition

	mu   sync.Mutex
	last *oauth2.Token
}

// TokenSource returns the source of tokens; nil without a login.
func (a *authorizer) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	a.mu.Lock()
	last := a.last
	a.mu.Unlock()
	if last.Valid() {
		return oauth2.StaticTokenSource(last), nil
	}
	v, err := a.s.secrets.read()
	if _, ok := v.Logins[a.d.loginKey()]; err != nil || !ok {
		return nil, err
	}
	token, err := a.token(ctx, false)
	if err != nil {
		return nil, err
	}
	return oauth2.StaticTokenSource(token), nil
}

// token returns a valid token. One that was refreshed is stored before it is used. force
// refreshes a token that the server does not accept.
func (a *authorizer) token(ctx context.Context, force bool) (token *oauth2.Token, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	used := a.last
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), beginTimeout)
	defer cancel()
	err = a.s.secrets.update(ctx, func(v *vault) error {
		l, ok := v.Logins[a.d.loginKey()]
		if !ok {
			return errNeedsLogin
		}
		other := used == nil || l.Token.AccessToken != used.AccessToken // another process has refreshed it
		if token = l.Token; token.Valid() && (!force || other) {
			return nil
		}
		if token.RefreshToken == "" {
			return errNeedsLogin
		}
		cfg := &oauth2.Config{ClientID: l.ClientID, ClientSecret: l.ClientSecret, Endpoint: oauth2.Endpoint{TokenURL: l.TokenURL, AuthStyle: l.AuthStyle}}
		client := context.WithValue(ctx, oauth2.HTTPClient, newHTTPClient(nil, metadataMax))
		token, err = cfg.TokenSource(client, &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response != nil && refused.Response.StatusCode < 500 {
			delete(v.Logins, a.d.loginKey())
			token = nil
			return nil
		}
		if err != nil {
			return errors.New("the token cannot be refreshed: the authorization server does not answer") // its URL may hold secrets
		}
		l.Token = token
		v.Logins[a.d.loginKey()] = l
		return nil
	})
	if err == nil && token == nil {
		err = errNeedsLogin
	}
	a.last = token
	return token, err
}

// Authorize handles an answer 401 or 403: a token may be refreshed, anything else needs a
// login.
func (a *authorizer) Authorize(ctx context.Context, _ *http.Request, resp *http.Response) error {
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	challenges := resp.Header.Values("WWW-Authenticate")
	if resp.StatusCode == http.StatusForbidden && !strings.Contains(strings.Join(challenges, " "), "insufficient_scope") {
		return nil // not a matter of the login: the answer stands
	}
	if resp.StatusCode == http.StatusUnauthorized {
		a.mu.Lock()
		used := a.last != nil
		a.mu.Unlock()
		if used {
			if _, err := a.token(ctx, true); err == nil {
				return nil
			}
		}
	}
	o := &a.s.oauth
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.challenges) > 4*serversMax {
		clear(o.challenges)
	}
	o.challenges[a.d.loginKey()] = &challenge{resp.StatusCode, http.Header{"Www-Authenticate": challenges}}
	return errNeedsLogin
}

// LoginBegin begins a login and returns the address that the user opens.
func (s *Service) LoginBegin(ctx context.Context, req proto.LoginBegin) (proto.Login, error) {
	d, err := s.find(scope{root: req.Root, project: req.Project}, req.Server)
	if err != nil {
		return proto.Login{}, err
	}
	redirect, err := url.Parse(req.RedirectURL)
	switch {
	case d.problem != "":
		return proto.Login{}, proto.Errorf(proto.CodeUnavailable, "%s: %s", d.name, d.problem)
	case d.URL == "":
		return proto.Login{}, proto.Errorf(proto.CodeInvalid, "%s is a program: it has no login", d.name)
	case err != nil || redirect.Scheme != "http" || redirect.User != nil || !config.IsLoopback(redirect.Host):
		return proto.Login{}, proto.Errorf(proto.CodeInvalid, `Invalid request: field "redirect_url": an http URL of a loopback address with a port`)
	}
	headers, _, err := s.secretsOf(d, d.Headers)
	if err != nil {
		return proto.Login{}, proto.Errorf(proto.CodeUnavailable, "%s: %v", d.name, err)
	}
	life, cancel := context.WithTimeout(context.Background(), loginLife)
	p := &pendingLogin{id: "l-" + random(), key: d.loginKey(), cancel: cancel, answer: make(chan *auth.AuthorizationResult, 1), done: make(chan error, 1)}
	s.oauth.mu.Lock()
	if len(s.oauth.pending) >= loginsMax {
		s.oauth.mu.Unlock()
		cancel()
		return proto.Login{}, proto.Errorf(proto.CodeBusy, "%d logins have begun: try again later", loginsMax)
	}
	s.oauth.pending[p.id] = p
	asked := s.oauth.challenges[d.loginKey()]
	s.oauth.mu.Unlock()
	address := make(chan string, 1)
	s.wg.Go(func() {
		p.done <- s.login(life, d, req.RedirectURL, headers, asked, p, address)
		<-life.Done()
		s.oauth.mu.Lock()
		delete(s.oauth.pending, p.id)
		s.oauth.mu.Unlock()
	})
	select {
	case to := <-address:
		return proto.Login{Login: p.id, URL: to}, nil
	case err = <-p.done:
		err = loginError(d, err)
	case <-time.After(beginTimeout):
		err = proto.Errorf(proto.CodeTimeout, "%s: the authorization server does not answer", d.name)
	case <-ctx.Done():
		err = ctx.Err()
	}
	cancel()
	return proto.Login{}, err
}

func loginError(d *definition, err error) error {
	return proto.Errorf(proto.CodeUnavailable, "%s: the login failed: %s", d.name, text.Clip(clean(text.OneLine(redact(err)), 1000), 500))
}

// redact returns the text of an error without the bodies of answers, which may hold tokens.
func redact(err error) string {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return "the authorization server refused the code: " + refused.ErrorCode
	}
	return err.Error()
}

func random() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// login carries out a login: it finds the authorization server, registers this client, sends
// the address, waits for the answer, and stores the token.
func (s *Service) login(ctx context.Context, d *definition, redirect string, headers map[string]string, asked *challenge, p *pendingLogin, address chan<- string) error {
	client := newHTTPClient(headers, metadataMax)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"zino","version":"1"}}}`))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if asked == nil {
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		asked = &challenge{http.StatusUnauthorized, resp.Header}
	}
	known, err := s.secrets.read()
	if err != nil {
		return err
	}
	var requested []string
	cfg := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: redirect, RequestRefreshToken: true, PreregisteredClient: s.oauth.registered,
		// The authorization server is another origin: it does not get the headers of the server.
		Client: newHTTPClient(nil, metadataMax),
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "Zino", RedirectURIs: []string{redirect}, GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		}},
		ScopeFilter: func(scopes []string) []string {
			for _, scope := range known.Logins[d.loginKey()].Scopes { // a step up keeps what was granted
				if asked.status == http.StatusForbidden && !slices.Contains(scopes, scope) {
					scopes = append(scopes, scope)
				}
			}
			requested = slices.Clone(scopes)
			return scopes
		},
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			if u, err := url.Parse(args.URL); err != nil || config.CheckMCPURL(args.URL) != nil || u.Host == "" {
				return nil, errors.New("the authorization server has no https address")
			}
			address <- args.URL
			select {
			case answer := <-p.answer:
				return answer, nil
			case <-ctx.Done():
				return nil, errors.New("the login was not finished within 10 minutes")
			}
		},
		NewTokenSource: func(ctx context.Context, cfg *oauth2.Config, token *oauth2.Token) (oauth2.TokenSource, error) {
			err := s.secrets.update(ctx, func(v *vault) error {
				v.Logins[d.loginKey()] = login{
					ClientID: cfg.ClientID, ClientSecret: cfg.ClientSecret, AuthStyle: cfg.Endpoint.AuthStyle, TokenURL: cfg.Endpoint.TokenURL,
					Scopes: requested, Token: token,
				}
				return nil
			})
			return oauth2.StaticTokenSource(token), err
		},
	}
	if s.oauth.document != "" {
		cfg.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: s.oauth.document}
	}
	handler, err := auth.NewAuthorizationCodeHandler(cfg)
	if err != nil {
		return err
	}
	return handler.Authorize(ctx, req, &http.Response{StatusCode: asked.status, Header: asked.header, Body: http.NoBody})
}

// LoginEnd ends a login.
func (s *Service) LoginEnd(ctx context.Context, req proto.LoginEnd) (proto.Empty, error) {
	s.oauth.mu.Lock()
	p := s.oauth.pending[req.Login]
	delete(s.oauth.pending, req.Login)
	s.oauth.mu.Unlock()
	if p == nil {
		return proto.Empty{}, proto.Errorf(proto.CodeInvalid, "unknown or expired login: begin it again")
	}
	defer p.cancel()
	p.answer <- &auth.AuthorizationResult{Code: req.Code, State: req.State, Iss: req.Iss}
	select {
	case err := <-p.done:
		if err != nil {
			return proto.Empty{}, proto.Errorf(proto.CodeDenied, "the login failed: %s", text.Clip(clean(text.OneLine(redact(err)), 1000), 500))
		}
	case <-time.After(beginTimeout):
		return proto.Empty{}, proto.Errorf(proto.CodeTimeout, "the authorization server does not answer")
	case <-ctx.Done():
		return proto.Empty{}, ctx.Err()
	}
	s.forget(p.key)
	return proto.Empty{}, nil
}

// forget ends the instances whose login changed, and drops what their server asked for.
func (s *Service) forget(key string) {
	s.oauth.mu.Lock()
	delete(s.oauth.challenges, key)
	s.oauth.mu.Unlock()
	s.restart(func(d *definition) bool { return d.loginKey() == key })
}

// Logout forgets the tokens of a server.
func (s *Service) Logout(ctx context.Context, req proto.Logout) (proto.Empty, error) {
	d, err := s.find(scope{root: req.Root, project: req.Project}, req.Server)
	if err != nil {
		return proto.Empty{}, err
	}
	err = s.secrets.update(ctx, func(v *vault) error {
		if _, ok := v.Logins[d.loginKey()]; !ok {
			return proto.Errorf(proto.CodeInvalid, "%s has no login", d.name)
		}
		delete(v.Logins, d.loginKey())
		return nil
	})
	if err == nil {
		s.forget(d.loginKey())
	}
	if _, ok := errors.AsType[*proto.Error](err); err != nil && !ok {
		err = fmt.Errorf("cannot remove the login: %w", err)
	}
	return proto.Empty{}, err
}
