package gate

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"zino/proto"
)

// signed precedes the payload in what a signature covers.
const signed = "zino-grant-1\n"

// tokenMax limits the length of a token.
const tokenMax = 64 << 10

// Life is how long the token of a turn is valid.
const Life = 24 * time.Hour

// Turn is what the daemon vouches for in the token of a turn. Every call of the turn
// carries it.
type Turn struct {
	V       int    `json:"v"` // 1
	Session string `json:"session"`
	Turn    string `json:"turn"`
	Mode    Mode   `json:"mode"`
	By      int    `json:"by"`   // uid of the requester, -1: unknown
	Root    string `json:"root"` // working directory of the tools; empty: that of the service
	// Sandbox and Network are absent where the service's configuration decides.
	Sandbox   proto.Level `json:"sandbox,omitzero"`
	Network   *bool       `json:"network,omitzero"`
	Reachable bool        `json:"reachable"` // a person can be asked
	Expires   time.Time   `json:"expires"`
}

// Sign returns the token of a turn, valid for Life from now on.
func (s *Signer) Sign(t Turn, now time.Time) (string, error) {
	t.V, t.Expires = 1, now.Add(Life).UTC().Truncate(time.Second)
	return s.sign(t)
}

// Turn returns the content of a token that this signer has signed, and that has not expired.
func (s *Signer) Turn(token string, now time.Time) (Turn, error) {
	return verifyTurn(token, now, func(message, signature []byte) error {
		if !ed25519.Verify(s.key.Public().(ed25519.PublicKey), message, signature) {
			return errSignature
		}
		return nil
	})
}

// sign returns the token with a payload.
func (s *Signer) sign(content any) (string, error) {
	payload, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	signature := ed25519.Sign(s.key, append([]byte(signed), payload...))
	return encoding.EncodeToString(payload) + "." + encoding.EncodeToString(signature), nil
}

// Verify returns the content of a token that the daemon has signed, and that has not
// expired.
func (v *Verifier) Verify(token string, now time.Time) (Turn, error) {
	return verifyTurn(token, now, v.check)
}

func verifyTurn(token string, now time.Time, check func(message, signature []byte) error) (Turn, error) {
	payload, signature, err := split(token)
	if err != nil {
		return Turn{}, err
	}
	if err := check(append([]byte(signed), payload...), signature); err != nil {
		return Turn{}, err
	}
	t, err := decodeTurn(payload)
	if err == nil && !now.Before(t.Expires) {
		err = fmt.Errorf("it expired at %s", t.Expires.Format(time.RFC3339))
	}
	return t, err
}

// encoding rejects unused bits and line ends: a token has one form.
var encoding = base64.RawURLEncoding.Strict()

var errForm = errors.New("it is malformed")

func split(token string) (payload, signature []byte, err error) {
	first, second, found := strings.Cut(token, ".")
	if !found || len(token) > tokenMax || strings.ContainsAny(token, "\r\n") {
		return nil, nil, errForm
	}
	if payload, err = encoding.DecodeString(first); err != nil {
		return nil, nil, errForm
	}
	if signature, err = encoding.DecodeString(second); err != nil || len(signature) != ed25519.SignatureSize {
		return nil, nil, errForm
	}
	return payload, signature, nil
}

func decodeTurn(payload []byte) (t Turn, err error) {
	if err = decode(payload, &t); err == nil && (t.V != 1 || !t.Mode.valid()) {
		err = errForm
	}
	return t, err
}

// decode reads a payload. A key that the kind of token lacks is an error: tokens of all
// kinds are signed with one key.
func decode(payload []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return errForm
	}
	if _, err := d.Token(); err != io.EOF {
		return errForm
	}
	return nil
}

func (m Mode) valid() bool { return slices.Contains(Modes, m) }
