package exc

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/audit"
	"zino/pkg/audit/line"
	"zino/pkg/config"
	"zino/pkg/gate"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// plainLog has the records of a service in a plain log, and returns a function that reads
// those of a kind.
func plainLog(t *testing.T, s *Service) func(kind string) (list []audit.Call) {
	t.Helper()
	home := zinotest.Dir(t)
	t.Setenv("ZINO_HOME", home)
	cfg := config.Default()
	cfg.Audit.Socket = ""
	l := audit.Open(cfg, "exc", slog.New(slog.NewTextHandler(io.Discard, nil)))
	t.Cleanup(func() { l.Close() })
	s.UseAudit(l, gate.Places{Host: filepath.Join(home, "host.toml"), User: filepath.Join(home, "policy.toml")})
	return func(kind string) (list []audit.Call) {
		zinotest.Must(t, l.RecordSync(t.Context(), "end", audit.Event{}))
		data, err := os.ReadFile(filepath.Join(home, "log", line.PlainFile))
		zinotest.Must(t, err)
		for text := range bytes.Lines(data) {
			r, err := line.Parse(text)
			zinotest.Must(t, err)
			if r.Kind != kind {
				continue
			}
			var c audit.Call
			zinotest.Must(t, wire.DecodeReply(r.Data, &c))
			list = append(list, c)
			if kind == proto.AuditCall && (r.Session != "s" || r.Turn != "t-1" || r.Call == "") {
				t.Errorf("the record belongs to %q %q %q", r.Session, r.Turn, r.Call)
			}
		}
		return list
	}
}

// TestAuditOfCalls checks which hashes are recorded, and that contents are not.
func TestAuditOfCalls(t *testing.T) {
	e := newUndoEnv(t)
	read := plainLog(t, e.Service)
	zinotest.WriteFiles(t, e.root, map[string]string{"a": "a\n", "gone": "gone\n"})
	token := "ghp_" + strings.Repeat("aB3dE6gH9", 4)
	e.tool(t, "t-1", proto.LevelOff, "write", map[string]any{"path": "new", "content": "the content\n"})
	e.tool(t, "t-1", proto.LevelOff, "edit", map[string]any{"path": "a", "old": "a", "new": "the content"})
	e.tool(t, "t-1", proto.LevelOff, "bash", map[string]any{"command": "echo more >> a; rm gone; echo the output # " + token})
	e.tool(t, "t-1", proto.LevelOff, "read", map[string]any{"path": "a"})
	list := read(proto.AuditCall)
	zinotest.Equal(t, "records", len(list), 4)
	hash := func(s string) string { return strings.TrimPrefix(audit.Digest([]byte(s)), "sha256:") }
	for i, want := range [][]audit.File{
		{{Path: e.root + "/new", After: hash("the content\n")}},
		{{Path: e.root + "/a", Before: hash("a\n"), After: hash("the content\n")}},
		{{Path: e.root + "/a", Before: hash("the content\n"), After: hash("the content\nmore\n")}, {Path: e.root + "/gone", Before: hash("gone\n")}},
	} {
		zinotest.Equal(t, "files", len(list[i].Files), len(want))
		for j, f := range want {
			zinotest.Equal(t, "file", list[i].Files[j], f)
		}
		zinotest.Equal(t, "ok", list[i].OK, true)
	}
	if x := list[2].Exit; x == nil || *x != 0 || list[2].Confinement == nil {
		t.Errorf("of bash: %+v", list[2])
	}
	data, err := os.ReadFile(filepath.Join(os.Getenv("ZINO_HOME"), "log", line.PlainFile))
	zinotest.Must(t, err)
	for _, secret := range []string{token, "the content", `the output\n`, `more\n`} {
		if bytes.Contains(data, []byte(secret)) {
			t.Errorf("the log has %q", secret)
		}
	}
	zinotest.Contains(t, "the log", string(data), "[masked:github:", `"kind":"policy"`)
}

// TestAuditRequired refuses calls while the audit does not answer.
func TestAuditRequired(t *testing.T) {
	e := newUndoEnv(t)
	cfg := config.Default()
	cfg.Audit.Socket, cfg.Audit.Required = filepath.Join(zinotest.Dir(t), "audit.sock"), true
	l := audit.Open(cfg, "exc", slog.New(slog.NewTextHandler(io.Discard, nil)))
	t.Cleanup(func() { l.Close() })
	e.UseAudit(l, gate.Places{})
	call := func() error {
		_, err := rpc.Call(t.Context(), e.client, proto.ExcExecute, proto.Execute{Executor: "bash", Code: "true"})
		return err
	}
	zinotest.Must(t, call()) // for 5 seconds
	zinotest.Eventually(t, "the call is refused", func() bool { return call() != nil })
	err := call()
	zinotest.Contains(t, "the error", err.Error(), "the audit service does not answer")
}
