package cli

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
	"time"

	keystore "zino/pkg/keys" // the type keys is the keyboard
	"zino/pkg/visible"
)

const (
	exchangeLimit = 30 * time.Second
	maxExchange   = 64 << 10 // bytes of an answer that are read
	maxBrief      = 200      // bytes of foreign words in an error

	hidden      = "[hidden]"
	shortSecret = 4 // what is shorter is no secret, and garbles the text it is taken out of
)

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
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxExchange))
	if err != nil {
		return "", err
	}
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("HTTP %d: %s", res.StatusCode, complaintIn(answer))
	}
	return keyIn(answer)
}

// sameHost keeps the code from travelling on.
func sameHost(req *http.Request, via []*http.Request) error {
	if first := via[0].URL; req.URL.Host != first.Host || req.URL.Scheme != first.Scheme || len(via) > 3 {
		return errors.New("it sends us elsewhere")
	}
	return nil
}

// keyIn finds the key in an answer.
func keyIn(answer []byte) (string, error) {
	var reply struct {
		Key string `json:"key"`
	}
	if json.Unmarshal(answer, &reply) != nil {
		return "", errors.New("its answer is not understood")
	}
	key, err := keystore.Clean(reply.Key)
	if err != nil || key == "" {
		return "", errors.New("there is no usable key in its answer")
	}
	return key, nil
}

// complaintIn finds the words for people in an error's body.
func complaintIn(answer []byte) string {
	var whole struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(answer, &whole) != nil {
		return "no reason was given" // a web page, most likely
	}
	var inner struct {
		Message string `json:"message"`
	}
	var plain string
	if json.Unmarshal(whole.Error, &inner) != nil && json.Unmarshal(whole.Error, &plain) != nil {
		plain = "" // neither form; there may still be a message beside it
	}
	return cmp.Or(strings.TrimSpace(inner.Message), strings.TrimSpace(plain), strings.TrimSpace(whole.Message), "no reason was given")
}

// keyShaped finds what looks like a key, whatever stands before it.
var keyShaped = regexp.MustCompile(`sk-[A-Za-z0-9_-]{12,}`)

// brief makes foreign text fit for an error: one line, short, and neither a key
// nor a secret that was sent in it.
func brief(text string, secrets ...string) string {
	for _, s := range secrets {
		if len(s) >= shortSecret {
			text = strings.NewReplacer(s, hidden, url.QueryEscape(s), hidden).Replace(text)
		}
	}
	text = keyShaped.ReplaceAllString(text, hidden)
	text = strings.Join(strings.Fields(visible.Text(strings.ToValidUTF8(text, "\uFFFD"))), " ")
	if len(text) <= maxBrief {
		return text
	}
	cut := maxBrief
	for cut > 0 && text[cut]&0xC0 == 0x80 { // not inside a character
		cut--
	}
	return text[:cut] + "…"
}
