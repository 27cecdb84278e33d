package gate

import (
	"crypto/ed25519"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/proto"
)

// keyPair makes the daemon's key.
func keyPair(t *testing.T) (*Signer, *Verifier) {
	t.Helper()
	dir := zinotest.Dir(t)
	v := NewVerifier(filepath.Join(dir, "daemon.sock"), filepath.Join(dir, "none"))
	s, err := OpenSigner(filepath.Join(dir, "data"), v.paths[0])
	zinotest.Must(t, err)
	return s, v
}

var aTurn = Turn{
	Session: "s1", Turn: "t-1", Mode: Auto, By: 1000, Root: "/home/ann/p",
	Sandbox: proto.LevelWorkspaceWrite, Network: new(false), Reachable: true,
}

func TestToken(t *testing.T) {
	s, v := keyPair(t)
	now := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	token, err := s.Sign(aTurn, now)
	zinotest.Must(t, err)
	got, err := v.Verify(token, now.Add(Life-time.Second))
	zinotest.Must(t, err)
	zinotest.Equal(t, "the mode", got.Mode, Auto)
	payload, _, _ := split(token)
	zinotest.Equal(t, "the payload", string(payload), `{"v":1,"session":"s1","turn":"t-1","mode":"auto","by":1000,"root":"/home/ann/p","sandbox":"workspace-write","network":false,"reachable":true,"expires":"2026-11-24T10:00:00Z"}`)
	if _, err := v.Verify(token, now.Add(Life)); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("an expired token: %v", err)
	}
}

// TestTokenRefused changes each byte of a token, and cuts it at each.
func TestTokenRefused(t *testing.T) {
	s, v := keyPair(t)
	now := time.Now()
	token, err := s.Sign(aTurn, now)
	zinotest.Must(t, err)
	for i := range token {
		for _, c := range []byte{'A', 'B', '.', '\n', '='} {
			changed := token[:i] + string(c) + token[i+1:]
			if _, err := v.Verify(changed, now); err == nil && changed != token {
				t.Fatalf("accepted with %q at byte %d", c, i)
			}
		}
		if _, err := v.Verify(token[:i], now); err == nil {
			t.Fatalf("accepted %d bytes of %d", i, len(token))
		}
	}
	other, _ := keyPair(t)
	foreign, err := other.Sign(aTurn, now)
	zinotest.Must(t, err)
	if _, err := v.Verify(foreign, now); err == nil {
		t.Error("accepted a token of another daemon")
	}
	for name, payload := range map[string]any{
		"a grant":         map[string]any{"v": 1, "approval": "ap-1", "digest": "sha256:00", "mode": "yolo", "expires": now.Add(time.Hour)},
		"another version": map[string]any{"v": 2, "mode": "yolo", "expires": now.Add(time.Hour)},
		"an unknown mode": map[string]any{"v": 1, "mode": "root", "expires": now.Add(time.Hour)},
	} {
		text, err := json.Marshal(payload)
		zinotest.Must(t, err)
		token := encoding.EncodeToString(text) + "." + encoding.EncodeToString(ed25519.Sign(s.key, append([]byte(signed), text...)))
		if _, err := v.Verify(token, now); err == nil {
			t.Errorf("accepted %s as the token of a turn", name)
		}
	}
}

func TestKeyIsMadeOnce(t *testing.T) {
	dir := zinotest.Dir(t)
	public := filepath.Join(dir, "gate.pub")
	tokens := make([]*Signer, 8)
	var all sync.WaitGroup
	for i := range tokens {
		all.Go(func() {
			s, err := OpenSigner(filepath.Join(dir, "data"), public)
			if err != nil {
				t.Error(err)
				return
			}
			tokens[i] = s
		})
	}
	all.Wait()
	for _, s := range tokens {
		if s == nil || !s.key.Equal(tokens[0].key) {
			t.Fatal("two daemons have different keys")
		}
	}
	left, err := os.ReadDir(filepath.Join(dir, "data"))
	zinotest.Must(t, err)
	if len(left) != 2 {
		t.Errorf("left in the directory: %v", left)
	}
	for path, mode := range map[string]os.FileMode{filepath.Join(dir, "data", KeyName): 0o600, public: 0o600} {
		info, err := os.Stat(path)
		zinotest.Must(t, err)
		zinotest.Equal(t, "the mode of "+path, info.Mode(), mode)
	}
}

// TestKeyReplaced: with a new key of the daemon, older tokens are void.
func TestKeyReplaced(t *testing.T) {
	dir := zinotest.Dir(t)
	v := NewVerifier(filepath.Join(dir, "daemon.sock"), filepath.Join(dir, "none"))
	s, err := OpenSigner(dir, v.paths[0])
	zinotest.Must(t, err)
	token, err := s.Sign(aTurn, time.Now())
	zinotest.Must(t, err)
	zinotest.Must(t, os.Remove(filepath.Join(dir, KeyName)))
	s, err = OpenSigner(dir, v.paths[0])
	zinotest.Must(t, err)
	if _, err := v.Verify(token, time.Now()); err == nil {
		t.Error("accepted a token of the key before")
	}
	token, err = s.Sign(aTurn, time.Now())
	zinotest.Must(t, err)
	_, err = v.Verify(token, time.Now())
	zinotest.Must(t, err)
}

func TestKeyRefused(t *testing.T) {
	s, v := keyPair(t)
	token, err := s.Sign(aTurn, time.Now())
	zinotest.Must(t, err)
	key, err := os.ReadFile(v.paths[0])
	zinotest.Must(t, err)
	for name, change := range map[string]func() error{
		"no file":               func() error { return nil },
		"writable by the group": func() error { zinotest.Write(t, v.paths[0], string(key)); return os.Chmod(v.paths[0], 0o664) },
		"a symbolic link": func() error {
			zinotest.Write(t, v.paths[0]+"2", string(key))
			return os.Symlink(v.paths[0]+"2", v.paths[0])
		},
		"a directory": func() error { return os.Mkdir(v.paths[0], 0o755) },
		"half a key":  func() error { zinotest.Write(t, v.paths[0], string(key[:20])); return os.Chmod(v.paths[0], 0o644) },
		"another user's": func() error {
			zinotest.Write(t, v.paths[0], string(key))
			v.owners[0]++
			return os.Chmod(v.paths[0], 0o644)
		},
	} {
		zinotest.Must(t, os.RemoveAll(v.paths[0]))
		zinotest.Must(t, change())
		_, err := v.Verify(token, time.Now())
		if err == nil || !strings.Contains(err.Error(), "approvals are not available: no key of the daemon at "+v.paths[0]) {
			t.Errorf("%s: %v", name, err)
		}
		v.owners[0] = os.Geteuid()
	}
	private := filepath.Join(filepath.Dir(v.paths[0]), "data", KeyName)
	zinotest.Must(t, os.Chmod(private, 0o640))
	if _, err := OpenSigner(filepath.Dir(private), v.paths[0]); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a private key that others can read: %v", err)
	}
	zinotest.Write(t, private, "no key")
	zinotest.Must(t, os.Chmod(private, 0o600))
	if _, err := OpenSigner(filepath.Dir(private), v.paths[0]); err == nil || !strings.Contains(err.Error(), "is not a key") {
		t.Errorf("a damaged private key: %v", err)
	}
}

// FuzzToken feeds tokens to the parser, and to the check of the signature.
func FuzzToken(f *testing.F) {
	dir := f.TempDir()
	v := NewVerifier(filepath.Join(dir, "daemon.sock"), filepath.Join(dir, "none"))
	s, err := OpenSigner(dir, v.paths[0])
	if err != nil {
		f.Fatal(err)
	}
	token, err := s.Sign(aTurn, time.Now())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(token)
	f.Add("")
	f.Add(".")
	f.Add(encoding.EncodeToString([]byte(`{"v":1,"mode":"yolo"}{}`)) + "." + strings.Repeat("A", 86))
	f.Fuzz(func(t *testing.T, text string) {
		if payload, _, err := split(text); err == nil {
			if turn, err := decodeTurn(payload); err == nil && (turn.V != 1 || !turn.Mode.valid()) {
				t.Errorf("parsed %q as %+v", text, turn)
			}
		}
		if _, err := v.Verify(text, time.Now()); err == nil && text != token {
			t.Errorf("accepted %q", text)
		}
	})
}
