package gate

import (
	"crypto/ed25519"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
)

var aGrant = GrantToken{Approval: "ap-1", Key: "s1/t-1/1/c1", Digest: "sha256:00", Sandbox: "off", Network: true, By: 1000}

func signGrant(t *testing.T, s *Signer, now time.Time) string {
	t.Helper()
	token, err := s.SignGrant(aGrant, now)
	zinotest.Must(t, err)
	return token
}

func TestGrant(t *testing.T) {
	s, v := keyPair(t)
	now := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	token := signGrant(t, s, now)
	got, err := v.VerifyGrant(token, now)
	zinotest.Must(t, err)
	want := aGrant
	want.V, want.Expires, want.Boot, want.MonoMS = 1, now.Add(GrantLife), got.Boot, got.MonoMS
	zinotest.Equal(t, "the grant", got, want)
	payload, _, _ := split(token)
	text, _, _ := strings.Cut(string(payload), `"boot"`)
	zinotest.Equal(t, "the payload", text,
		`{"v":1,"approval":"ap-1","grant":"","key":"s1/t-1/1/c1","digest":"sha256:00","sandbox":"off","network":true,"by":1000,"expires":"2026-11-23T10:10:00Z",`)

	signed := time.Duration(got.MonoMS) * time.Millisecond
	for _, tt := range []struct {
		name string
		now  time.Time
		boot string
		mono time.Duration
		want error
	}{
		{"at once", now, got.Boot, signed, nil},
		{"at the last moment", now.Add(GrantLife - time.Second), got.Boot, signed + GrantLife - time.Millisecond, nil},
		{"expired", now.Add(GrantLife), got.Boot, signed, ErrExpired},
		{"expired, and the clock set back", now, got.Boot, signed + GrantLife, ErrExpired},
		{"another boot", now, "other", signed, ErrExpired},
		{"another boot, a short time ago", now, got.Boot, signed - time.Millisecond, ErrExpired},
	} {
		if _, err := v.verifyGrant(token, tt.now, tt.boot, tt.mono); err != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// TestGrantRefused changes each byte of a token, and cuts it at each.
func TestGrantRefused(t *testing.T) {
	s, v := keyPair(t)
	now := time.Now()
	token := signGrant(t, s, now)
	refused := func(what, token string) {
		t.Helper()
		if _, err := v.VerifyGrant(token, now); err != ErrSignature {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for i := range token {
		for _, c := range []string{"A", "B", ".", "\n", "="} {
			if changed := token[:i] + c + token[i+1:]; changed != token {
				refused("a changed byte", changed)
			}
		}
		refused("a part", token[:i])
	}
	other, _ := keyPair(t)
	refused("another daemon's", signGrant(t, other, now))
	turn, err := s.Sign(aTurn, now)
	zinotest.Must(t, err)
	refused("the token of a turn", turn)
	if _, err := v.Verify(token, now); err == nil {
		t.Error("accepted a grant as the token of a turn")
	}
	for _, content := range []any{
		map[string]any{"v": 1},
		map[string]any{"v": 1, "kind": "server", "definition": "sha256:00", "sandbox": "unit", "network": true, "expires": now.Add(time.Hour)},
		GrantToken{V: 2, Key: "k", Digest: "d", Sandbox: "off", Boot: "b"},
		GrantToken{V: 1, Digest: "d", Sandbox: "off", Boot: "b"},
		GrantToken{V: 1, Key: "k", Sandbox: "off", Boot: "b"},
		GrantToken{V: 1, Key: "k", Digest: "d", Boot: "b"},
		GrantToken{V: 1, Key: "k", Digest: "d", Sandbox: "off"},
	} {
		token, err := s.sign(content)
		zinotest.Must(t, err)
		refused("signed, and not a grant", token)
	}
	none := NewVerifier(filepath.Join(zinotest.Dir(t), "daemon.sock"), zinotest.Dir(t))
	if _, err := none.VerifyGrant(token, now); err == nil || !strings.Contains(err.Error(), "approvals are not available: no key of the daemon at ") {
		t.Errorf("without a key: %v", err)
	}
}

// FuzzGrant feeds tokens to the parser, and to the check of the signature.
func FuzzGrant(f *testing.F) {
	dir := f.TempDir()
	v := NewVerifier(filepath.Join(dir, "daemon.sock"), filepath.Join(dir, "none"))
	s, err := OpenSigner(dir, v.paths[0])
	if err != nil {
		f.Fatal(err)
	}
	token, err := s.SignGrant(aGrant, time.Now())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(token)
	f.Fuzz(func(t *testing.T, text string) {
		if payload, signature, err := split(text); err == nil {
			g, err := decodeGrant(payload)
			if err == nil && (g.V != 1 || g.Key == "" || g.Digest == "") || len(signature) != ed25519.SignatureSize {
				t.Errorf("parsed %q as %+v", text, g)
			}
			if _, err := decodeTurn(payload); err == nil && g.V == 1 && g.Key != "" {
				t.Errorf("%q is a grant and the token of a turn", text)
			}
		}
		if _, err := v.VerifyGrant(text, time.Now()); err == nil && text != token || err != nil && text != token && !errors.Is(err, ErrSignature) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
