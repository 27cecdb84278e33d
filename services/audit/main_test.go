package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/audit/chain"
	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/pkg/zinotest"
	"zino/proto"
)

// env is a service on a socket, and its directory.
type env struct {
	*Service
	cfg    config.Audit
	client *rpc.Client
	stop   func()
}

// start starts a service on a directory, which is new if it is empty.
func start(t *testing.T, dir string) *env {
	t.Helper()
	if dir == "" {
		dir = zinotest.Dir(t)
	}
	cfg := config.Default().Audit
	cfg.DataDir, cfg.Mirror, cfg.Socket = filepath.Join(dir, "audit"), config.MirrorNone, filepath.Join(dir, "audit.sock")
	s, err := Open(cfg, slog.New(slog.NewTextHandler(io.Discard, nil)))
	zinotest.Must(t, err)
	srv := rpc.NewServer("audit", slog.New(slog.NewTextHandler(io.Discard, nil)))
	s.Register(srv)
	_, err = service.ListenAndServe(srv, "audit", cfg.Socket)
	zinotest.Must(t, err)
	e := &env{Service: s, cfg: cfg, client: &rpc.Client{Service: "audit", Path: cfg.Socket}}
	e.stop = func() {
		e.stop = func() {}
		e.client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		zinotest.Must(t, srv.Shutdown(ctx))
		zinotest.Must(t, s.Close())
	}
	t.Cleanup(func() { e.stop() })
	return e
}

// entries returns n records.
func entries(n int) (list []proto.AuditEntry) {
	for i := range n {
		list = append(list, proto.AuditEntry{Kind: proto.AuditCall, Session: "s", Turn: "t-1", Call: fmt.Sprintf("c%d", i), Data: proto.Raw(`{"tool":"bash","input":"{\"command\":\"make\"}"}`)})
	}
	return list
}

// add appends n records, in requests of a few.
func (e *env) add(t *testing.T, n int) (seq int64) {
	t.Helper()
	for n > 0 {
		some := min(n, 100)
		r, err := rpc.Call(t.Context(), e.client, proto.AuditRecord, proto.RecordAudit{Records: entries(some), Src: "exc"})
		zinotest.Must(t, err)
		seq, n = r.Seq, n-some
	}
	return seq
}

// verify verifies a directory with the key in it.
func verify(dir string) (chain.Report, error) {
	key, err := os.ReadFile(filepath.Join(dir, chain.VerifierFile))
	if err != nil {
		return chain.Report{}, err
	}
	return chain.Verify(dir, strings.TrimSpace(string(key)), nil)
}

// mustVerify is verify of a log that must be whole.
func mustVerify(t *testing.T, dir string) chain.Report {
	t.Helper()
	r, err := verify(dir)
	zinotest.Must(t, err)
	return r
}

// problem returns what verify finds.
func problem(t *testing.T, dir string) string {
	t.Helper()
	_, err := verify(dir)
	if err == nil {
		return ""
	}
	if p, ok := errors.AsType[*chain.Problem](err); ok && p.Seq < 1 {
		t.Errorf("the number of the record is %d: %v", p.Seq, err)
	}
	return err.Error()
}

// copyDir copies the files of a log.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := zinotest.Dir(t)
	zinotest.Must(t, os.CopyFS(to, os.DirFS(from)))
	return to
}

// codeOf returns the code of a reply's error.
func codeOf(err error) proto.Code {
	if e, ok := errors.AsType[*proto.Error](err); ok {
		return e.Code
	}
	return ""
}
