package auth

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"zino/pkg/keys"
	"zino/pkg/text"
)

const exchangeLimit = 30 * time.Second

// exchange turns a code into a key.
func (l *login) exchange(ctx context.Context, code string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, exchangeLimit, fmt.Errorf("no answer within %v", exchangeLimit))
	defer cancel()
	key, err := l.post(ctx, code)
	if err == nil {
		return key, nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return "", fmt.Errorf("OpenRouter gave no key: %s; start again with: zino auth login openrouter", brief(err.Error(), code, l.verifier))
}

func (l *login) post(ctx context.Context, code string) (string, error) {
	const answerMax = 64 << 10
	body, err := json.Marshal(map[string]string{"code": code, "code_verifier": l.verifier, "code_challenge_method": "S256"})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.api.JoinPath("auth", "keys").String(), bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{CheckRedirect: sameHost}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, answerMax))
	if err != nil {
		return "", err
	}
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("HTTP %d: %s", res.StatusCode, parseError(answer))
	}
	return parseKey(answer)
}

// sameHost refuses redirects that would send the code to another host.
func sameHost(req *http.Request, via []*http.Request) error {
	if first := via[0].URL; req.URL.Host != first.Host || req.URL.Scheme != first.Scheme || len(via) > 3 {
		return errors.New("it sends us elsewhere")
	}
	return nil
}

func parseKey(answer []byte) (string, error) {
	var reply struct {
		Key string `json:"key"`
	}
	if json.Unmarshal(answer, &reply) != nil {
		return "", errors.New("its answer is not understood")
	}
	key, err := keys.Clean(reply.Key)
	if err != nil || key == "" {
		return "", errors.New("there is no usable key in its answer")
	}
	return key, nil
}

// parseError returns the message in an error's body: {"error":{"message":…}},
// {"error":…} or {"message":…}.
func parseError(answer []byte) string {
	var whole struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(answer, &whole) != nil {
		return "no reason was given" // most likely a web page
	}
	var inner struct {
		Message string `json:"message"`
	}
	var plain string
	if json.Unmarshal(whole.Error, &inner) != nil && json.Unmarshal(whole.Error, &plain) != nil {
		plain = "" // neither form; there may be a message beside it
	}
	return cmp.Or(strings.TrimSpace(inner.Message), strings.TrimSpace(plain), strings.TrimSpace(whole.Message), "no reason was given")
}

// keyPattern matches what looks like a key, behind any prefix.
var keyPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`sk-[A-Za-z0-9_-]{12,}`) })

// brief shortens foreign text for an error: one line, without keys and without the
// secrets that were sent.
func brief(s string, secrets ...string) string {
	const (
		limit       = 200 // bytes
		hidden      = "[hidden]"
		shortSecret = 4 // shorter ones are not secret, and would garble the text
	)
	for _, secret := range secrets {
		if len(secret) >= shortSecret {
			s = strings.NewReplacer(secret, hidden, url.QueryEscape(secret), hidden).Replace(s)
		}
	}
	s = keyPattern().ReplaceAllString(s, hidden)
	s = strings.Join(strings.Fields(text.Visible(strings.ToValidUTF8(s, "\uFFFD"))), " ")
	if len(s) <= limit {
		return s
	}
	return text.Head(s, limit) + "…"
}
