package gate

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
)

var aServer = Server{Definition: ServerDefinition([]string{"npx", "-y", "x"}, []string{"B", "A"}, ""), Sandbox: proto.LevelUnit, Network: true}

// TestServerDefinition: each part of a program changes its definition, and the order of the
// names of variables does not.
func TestServerDefinition(t *testing.T) {
	zinotest.Equal(t, "another order", ServerDefinition([]string{"npx", "-y", "x"}, []string{"A", "B"}, ""), aServer.Definition)
	seen := map[string]bool{aServer.Definition: true}
	for _, d := range []string{
		ServerDefinition([]string{"npx", "-y", "y"}, []string{"A", "B"}, ""), ServerDefinition([]string{"npx", "-yx"}, []string{"A", "B"}, ""),
		ServerDefinition([]string{"npx", "-y", "x", "A"}, []string{"B"}, ""), ServerDefinition([]string{"npx", "-y", "x"}, []string{"A", "B"}, "/"),
		ServerDefinition([]string{"npx", "-y", "x"}, []string{"A", "B", ""}, ""), ServerDefinition([]string{"npx", "-y", "x"}, nil, ""),
	} {
		if seen[d] || !strings.HasPrefix(d, "sha256:") {
			t.Errorf("%s is not its own", d)
		}
		seen[d] = true
	}
}

// TestServerToken: the token of a server holds for its definition, level and network, and no
// other token does.
func TestServerToken(t *testing.T) {
	s, v := keyPair(t)
	now := time.Now()
	token, err := s.SignServer(aServer, now)
	zinotest.Must(t, err)
	got, err := v.VerifyServer(token, now)
	zinotest.Must(t, err)
	zinotest.Equal(t, "content", fmt.Sprint(got.Definition, got.Sandbox, got.Network, IsServer(token)), fmt.Sprint(aServer.Definition, aServer.Sandbox, true, true))
	if _, err := v.VerifyServer(token, now.Add(Life)); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("an expired one: %v", err)
	}
	turn, err := s.Sign(aTurn, now)
	zinotest.Must(t, err)
	other, _ := keyPair(t)
	foreign, err := other.SignServer(aServer, now)
	zinotest.Must(t, err)
	refused := []string{"", ".", turn, signGrant(t, s, now), foreign, token + "A", token[1:]}
	for _, content := range []any{
		map[string]any{"v": 1, "kind": "server"},
		map[string]any{"v": 2, "kind": "server", "definition": "d", "sandbox": "off", "expires": now.Add(time.Hour)},
		map[string]any{"v": 1, "kind": "x", "definition": "d", "sandbox": "off", "expires": now.Add(time.Hour)},
		map[string]any{"v": 1, "kind": "server", "definition": "d", "sandbox": "off", "expires": now.Add(time.Hour), "session": ""},
	} {
		token, err := s.sign(content)
		zinotest.Must(t, err)
		refused = append(refused, token)
	}
	for _, token := range refused {
		if got, err := v.VerifyServer(token, now); err == nil {
			t.Errorf("accepted %q: %+v", token, got)
		}
	}
	if _, err := v.Verify(token, now); err == nil {
		t.Error("the token of a server is one of a turn")
	}
	zinotest.Equal(t, "a turn is a server", IsServer(turn), false)
}

func TestGuardServer(t *testing.T) {
	t.Setenv("ZINO_HOME", zinotest.Dir(t))
	cfg := config.Default()
	cfg.Daemon.Socket, cfg.Daemon.DataDir = filepath.Join(zinotest.Dir(t), "daemon.sock"), zinotest.Dir(t)
	s, err := OpenSigner(cfg.Daemon.DataDir, PublicPath(cfg.Daemon.Socket))
	zinotest.Must(t, err)
	zinotest.Must(t, NewGuard(cfg).Server("", aServer, proto.AskedCall{}))
	cfg.Gate.RequireToken = true
	g := NewGuard(cfg)
	n := Needed(g.Server("", aServer, proto.AskedCall{Tool: "pipe", Input: proto.Raw("{}"), Sandbox: proto.LevelUnit}))
	if n == nil || n.Kind != proto.ApprovalServer || n.Digest != aServer.Definition || n.Call.Tool != "pipe" {
		t.Fatalf("asked %+v", n)
	}
	token, err := s.SignServer(aServer, time.Now())
	zinotest.Must(t, err)
	zinotest.Must(t, g.Server(token, aServer, proto.AskedCall{}))
	for field, change := range map[string]func(*Server){
		"definition": func(w *Server) { w.Definition += "0" },
		"sandbox":    func(w *Server) { w.Sandbox = proto.LevelOff },
		"network":    nil,
	} {
		want, signed := aServer, token
		if change != nil {
			change(&want)
		} else {
			none := aServer
			none.Network = false
			signed, err = s.SignServer(none, time.Now())
			zinotest.Must(t, err)
		}
		err := g.Server(signed, want, proto.AskedCall{})
		if !errors.Is(err, proto.ErrDenied) || !strings.HasSuffix(err.Error(), "does not fit: "+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// FuzzServer feeds tokens to the parser: none is of two kinds.
func FuzzServer(f *testing.F) {
	for _, payload := range []string{`{"v":1,"kind":"server","definition":"sha256:00","sandbox":"unit","network":true}`, `{"v":1,"kind":"server"}`, `{"v":1,"mode":"yolo"}`, "{", ""} {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		server, err := decodeServer([]byte(payload))
		if err != nil {
			return
		}
		if _, err := decodeTurn([]byte(payload)); err == nil || server.Kind != serverKind || !IsServer(encoding.EncodeToString([]byte(payload))+".") {
			t.Errorf("%q is the token of %+v and of a turn, or of neither", payload, server)
		}
	})
}
