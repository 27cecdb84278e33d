package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// fakeRepl is a REPL with some pages. The value of code is its text, except for the
// code in eval.
type fakeRepl struct {
	socket string

	mu    sync.Mutex
	pages []proto.Page
	heard []proto.Eval
	ended chan error // errors of evaluations that waited
}

// newFakeRepl starts the user's REPL in a world.
func newFakeRepl(t *testing.T, w world, pages ...proto.Page) *fakeRepl {
	t.Helper()
	dir := filepath.Join(w.runtime, "zino")
	zinotest.Must(t, os.MkdirAll(dir, 0o700))
	return newFakeReplAt(t, filepath.Join(dir, "repl.sock"), pages...)
}

func newFakeReplAt(t *testing.T, socket string, pages ...proto.Page) *fakeRepl {
	t.Helper()
	f := &fakeRepl{socket: socket, pages: pages, ended: make(chan error, 4)}
	rpctest.New(t, "repl", socket, func(s *rpc.Server) {
		rpc.Handle(s, proto.ReplPages, func(context.Context, proto.PagesRequest) (proto.Pages, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return proto.Pages{Pages: append([]proto.Page{}, f.pages...)}, nil
		})
		rpc.Handle(s, proto.ReplEval, f.eval)
		rpc.Handle(s, proto.ReplLog, func(_ context.Context, req proto.ReadPageLog) (proto.PageLog, error) {
			return proto.PageLog{Events: []proto.PageEvent{
				{Type: "console", Source: "console.warn", TS: "10:02:12.120", Place: "app.js:12", Message: "no\x1b total " + req.After},
				{Type: "window.onerror", Message: "d", Stack: "Error: d\n  at e"},
			}, Next: "e-7", LeftOut: int64(req.Limit)}, nil
		})
		rpc.Handle(s, proto.ReplOutline, func(_ context.Context, req proto.OutlinePage) (proto.Outline, error) {
			return proto.Outline{Text: fmt.Sprintf("main %s %s %d\x1b", req.Page, req.Selector, req.Depth)}, nil
		})
		s.OnStats(func(stats *proto.Stats) { stats.Info = map[string]string{"http": "127.0.0.1:5173"} })
	})
	return f
}

func (f *fakeRepl) eval(ctx context.Context, req proto.Eval) (proto.Evaluated, error) {
	f.mu.Lock()
	f.heard = append(f.heard, req)
	f.mu.Unlock()
	r := proto.Evaluated{OK: true, Kind: "text", Value: &req.Code, Background: []proto.PageEvent{}, DurationMS: 17, File: "debug/shop-1a2b.md"}
	switch req.Code {
	case "wait":
		<-ctx.Done()
		f.ended <- ctx.Err()
		return r, ctx.Err()
	case "throw":
		r.OK, r.Kind, r.Value, r.Error = false, "", nil, "Error: \x1b[31m\n  at x\n"
	case "long":
		r.Whole = "debug/shop-1a2b/3.txt"
	case "events":
		r.Background = []proto.PageEvent{
			{Type: "console", Level: "log", Source: "console.log", Message: "a\x1b\nb"},
			{Type: "console", Level: "warn", Message: "c", Stack: "no"},
			{Type: "window.onerror", Message: "d", Stack: "Error: d\n  at e"},
			{Type: "unhandledrejection", Message: "f"},
		}
		r.Omitted = 7
	}
	if req.Page == "none" {
		return r, &proto.Error{Code: proto.CodeNotFound, Message: "No page \"none\" is connected."}
	}
	return r, nil
}

func (f *fakeRepl) requests() []proto.Eval {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]proto.Eval{}, f.heard...)
}

func aPage(name, id string) proto.Page {
	return proto.Page{
		ID: id, Name: name, File: "debug/" + name + "-" + id + ".md", URL: "http://localhost:5173/" + name, Lang: "js", Kind: "page",
		State: "completed (17ms)", LastSeen: "2026-11-21T14:03:07Z",
	}
}

// TestReplWhere checks the order: the configured REPL, the user's, the host's.
func TestReplWhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	host := newFakeReplAt(t, filepath.Join(w.runtime, "repl.sock"), aPage("host", "0001"))
	named := newFakeReplAt(t, filepath.Join(w.cwd, "own.sock"), aPage("named", "0002"))
	for name, text := range map[string]string{"own.toml": "[repl]\nsocket = \"own.sock\"\n", "none.toml": "[repl]\nsocket = \"none.sock\"\n", "other.toml": ""} {
		zinotest.Write(t, filepath.Join(w.cwd, name), text)
	}
	const none = "Error [internal]: no REPL is running; start one with zino repl, in the directory that its files belong to\n"
	for _, test := range []struct {
		args, shows string
		own         bool // start the user's REPL first
	}{
		{"pages", "host-0001", false},
		{"--config own.toml pages", "named-0002", false},
		{"--config none.toml pages", "", false},
		{"--config other.toml pages", "host-0001", false},
		{"pages", "user-0003", true},
		{"--config other.toml pages", "user-0003", false},
		{"--config own.toml pages", "named-0002", false},
		{"--config own.toml --host pages", "host-0001", false},
		{"--socket /nowhere pages", "user-0003", false},
	} {
		if test.own {
			newFakeRepl(t, w, aPage("user", "0003"))
		}
		status, out, stderr := run(t, w.command(strings.Fields(test.args)...), "")
		if found := test.shows != ""; found != (status == 0) || !strings.Contains(out, test.shows) || !found && stderr != none || found && stderr != "" {
			t.Errorf("%s: status %d, stdout %q, stderr %q", test.args, status, out, stderr)
		}
	}
	if n := len(host.requests()) + len(named.requests()); n > 0 {
		t.Errorf("%d evaluations", n)
	}
}

// TestReplForbidden checks the error for a REPL that this user may not use.
func TestReplForbidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := zinotest.Dir(t)
	zinotest.Must(t, os.Chmod(dir, 0o755))
	socket := filepath.Join(dir, "s")
	newFakeReplAt(t, socket)
	zinotest.Must(t, os.Chmod(socket, 0))
	zinotest.Must(t, os.WriteFile(filepath.Join(dir, "c.toml"), []byte("[repl]\nsocket = \"s\"\n"), 0o644))
	cmd := w.command("--config", filepath.Join(dir, "c.toml"), "pages")
	if os.Getuid() == 0 { // the mode does not apply to root
		cmd = asNobody(t, w, cmd)
	}
	status, out, stderr := run(t, cmd, "")
	if status != 1 || out != "" || !strings.HasPrefix(stderr, "Error [internal]: you may not use the REPL that is there: Could not connect to repl: ") || !strings.HasSuffix(stderr, "permission denied\n") {
		t.Errorf("status %d, stdout %q, stderr %q", status, out, stderr)
	}
}

// asNobody runs a command as an unprivileged user, from a copy of the program that
// this user can reach.
func asNobody(t *testing.T, w world, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	const nobody = 65534
	dir := zinotest.Dir(t)
	copyProgram(t, filepath.Join(dir, "zino"))
	for _, err := range []error{
		os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(w.home), 0o755), os.Chmod(w.cwd, 0o755),
		os.Chmod(filepath.Join(dir, "zino"), 0o755), os.Chown(w.home, nobody, nobody), os.Chown(w.runtime, nobody, nobody),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd.Path = filepath.Join(dir, "zino")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}
