package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/seal"
	"zino/pkg/zinotest"
	"zino/proto"
)

// credentials is a service for credentials that hands back what it gets.
type credentials struct {
	socket  string
	refuses atomic.Bool // as on another host
}

func newCredentials(t *testing.T) *credentials {
	t.Helper()
	s := &credentials{socket: filepath.Join(zinotest.Dir(t), "credentials")}
	l, err := net.Listen("unix", s.socket)
	zinotest.Must(t, err)
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			request, _ := bufio.NewReader(c).ReadBytes(0)
			var r struct{ Parameters struct{ Data, Blob string } }
			if err := json.Unmarshal(request[:max(0, len(request)-1)], &r); err != nil || s.refuses.Load() {
				fmt.Fprint(c, `{"error":"io.systemd.Credentials.BadFormat"}`+"\x00")
			} else {
				fmt.Fprintf(c, `{"parameters":{"blob":%q,"data":%q}}`+"\x00", r.Parameters.Data, r.Parameters.Blob)
			}
			c.Close()
		}
	}()
	return s
}

// TestSecretsEncrypted: the file is encrypted where systemd does that, one that is not yet
// is encrypted at the start, and one that cannot be decrypted stays as it is.
func TestSecretsEncrypted(t *testing.T) {
	systemd := newCredentials(t)
	dir := zinotest.Dir(t)
	path := filepath.Join(dir, secretsFile)
	process := func(socket string) *secrets {
		return &secrets{dir: dir, box: &seal.Box{Socket: socket, Name: "zino-mcp"}}
	}
	store := func(s *secrets, value string) error {
		return s.update(t.Context(), func(v *vault) error {
			v.Secrets["a"] = value
			return nil
		})
	}
	get := func(s *secrets) string {
		t.Helper()
		v, err := s.read()
		zinotest.Must(t, err)
		return v.Secrets["a"]
	}
	without := process("/none/credentials")
	zinotest.Must(t, without.protect(t.Context())) // no file yet
	zinotest.Must(t, store(without, "CANARY-1"))
	zinotest.Contains(t, "the file without systemd", zinotest.Read(t, path), "CANARY-1")
	zinotest.Contains(t, "its form", without.form, "not encrypted", "systemd 256")
	before, err := os.Stat(path)
	zinotest.Must(t, err)
	zinotest.Must(t, process("/none/credentials").protect(t.Context()))
	after, err := os.Stat(path)
	zinotest.Must(t, err)
	zinotest.Equal(t, "it is the same", os.SameFile(before, after), true)

	first := process(systemd.socket)
	zinotest.Equal(t, "before the start", get(first), "CANARY-1")
	zinotest.Must(t, first.protect(t.Context()))
	file := zinotest.Read(t, path)
	zinotest.Equal(t, "the file is encrypted", seal.Sealed([]byte(file)) && !strings.Contains(file, "CANARY"), true)
	zinotest.Equal(t, "its form", first.form, encrypted)
	info, err := os.Stat(path)
	zinotest.Must(t, err)
	zinotest.Equal(t, "its mode", info.Mode().Perm(), 0o600)
	second := process(systemd.socket)
	zinotest.Must(t, second.protect(t.Context()))
	zinotest.Equal(t, "another process", get(second), "CANARY-1")
	zinotest.Equal(t, "the first one", get(first), "CANARY-1")

	// Once it has the key a process needs no service, also for a token that is refreshed.
	systemd.refuses.Store(true)
	zinotest.Must(t, store(second, "CANARY-2"))
	zinotest.Equal(t, "the first one", get(first), "CANARY-2")
	file = zinotest.Read(t, path)
	zinotest.Equal(t, "the file is encrypted", seal.Sealed([]byte(file)) && !strings.Contains(file, "CANARY"), true)

	elsewhere := process(systemd.socket)
	const remedy = "move it away and store the secrets again"
	zinotest.Error(t, elsewhere.protect(t.Context()), nil, "cannot decrypt "+path, "BadFormat", remedy)
	zinotest.Error(t, store(elsewhere, "lost"), nil, remedy)
	zinotest.Error(t, store(process("/none/credentials"), "lost"), nil, "systemd-creds.socket", remedy)
	zinotest.Equal(t, "the file", zinotest.Read(t, path), file)
	systemd.refuses.Store(false)
	zinotest.Equal(t, "later", get(elsewhere), "CANARY-2")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	zinotest.Error(t, process(systemd.socket).update(ctx, func(*vault) error { return nil }), context.Canceled)
	zinotest.Equal(t, "the file", zinotest.Read(t, path), file)
}

// TestSecretsProblem: a file that cannot be decrypted is a problem of the service.
func TestSecretsProblem(t *testing.T) {
	e := newEnv(t, "")
	e.secrets.box = &seal.Box{Socket: newCredentials(t).socket, Name: "zino-mcp"}
	_, err := rpc.Call(t.Context(), e.client, proto.MCPSecretSet, proto.SetSecret{Name: "a", Value: "b"})
	zinotest.Must(t, err)
	st, err := rpc.Call(t.Context(), e.client, proto.GetStats, proto.StatsRequest{})
	zinotest.Must(t, err)
	zinotest.Equal(t, "its form", st.Info["secrets"], encrypted)
	zinotest.Equal(t, "problems", fmt.Sprint(st.Problems), "[]")
	e.secrets.box = &seal.Box{Socket: "/none/credentials", Name: "zino-mcp"}
	_, err = rpc.Call(t.Context(), e.client, proto.MCPSecretSet, proto.SetSecret{Name: "a", Value: "c"})
	zinotest.Error(t, err, nil, "cannot decrypt")
	st, err = rpc.Call(t.Context(), e.client, proto.GetStats, proto.StatsRequest{})
	zinotest.Must(t, err)
	zinotest.Contains(t, "problems", fmt.Sprint(st.Problems), "cannot decrypt", "systemd-creds.socket")
}
