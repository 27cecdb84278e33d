package adapters

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/repl"
)

// bench is a service on a socket and a program that is attached to it.
type bench struct {
	t      testing.TB
	dir    string
	socket string
	client *rpc.Client
	stop   func()
	err    output
}

// newBench starts a service in a short directory: socket paths are limited.
func newBench(t testing.TB) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &bench{t: t, dir: dir, socket: filepath.Join(dir, "s")}
	b.client = &rpc.Client{Service: "repl", Path: b.socket}
	t.Cleanup(b.client.Close)
	b.start()
	t.Cleanup(func() { b.stop() })
	return b
}

// start serves until stop is called.
func (b *bench) start() {
	b.t.Helper()
	cfg := config.Default().Repl
	cfg.Dir = b.dir
	log := slog.New(slog.DiscardHandler)
	s, err := repl.New(cfg, log)
	if err != nil {
		b.t.Fatal(err)
	}
	srv := rpc.NewServer("repl", log)
	s.Register(srv)
	l, err := net.Listen("unix", b.socket)
	if err != nil {
		b.t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	b.stop = func() {
		if err := s.Close(); err != nil {
			b.t.Error(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			b.t.Error(err)
		}
		if err := <-served; err != nil {
			b.t.Error(err)
		}
		b.stop = func() {}
	}
}

// TestForeignDirectory: a program does not connect to a socket in a directory that
// other users can write to, because it runs the code that comes from there.
func TestForeignDirectory(t *testing.T) {
	t.Parallel()
	for _, program := range [][]string{{"python3", "-B", "zino_repl.py"}, {"node", "zino_repl.mjs"}} {
		dir := t.TempDir()
		own := filepath.Join(dir, "zino")
		if err := errors.Join(os.Mkdir(own, 0o700), os.Chmod(own, 0o777), os.WriteFile(filepath.Join(own, "repl.sock"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program[0], program[1:]...)
		cmd.Env = append(os.Environ(), "ZINO_REPL_SOCKET=", "XDG_RUNTIME_DIR="+dir)
		said, err := cmd.CombinedOutput()
		want := own + " is not a directory that only you can use (mode 0700): remove it, or set ZINO_REPL_SOCKET\n"
		if cmd.ProcessState.ExitCode() != 1 || string(said) != want {
			t.Errorf("%s: %v, said %q", program[0], err, said)
		}
	}
}

// script writes a file for a runtime.
func (b *bench) script(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// run starts a program, which ends with the test.
func (b *bench) run(name string, arguments ...string) *exec.Cmd {
	b.t.Helper()
	cmd := exec.Command(name, arguments...)
	cmd.Env = append(os.Environ(), "ZINO_REPL_SOCKET="+b.socket, "HOME="+b.dir, "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stdout, cmd.Stderr = &b.err, &b.err
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	b.t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
		if b.t.Failed() {
			b.t.Logf("%s says %s", name, b.err.String())
		}
	})
	return cmd
}

func (b *bench) pages() []proto.Page {
	b.t.Helper()
	pages, err := rpc.Call(b.t.Context(), b.client, proto.ReplPages, proto.PagesRequest{})
	if err != nil {
		b.t.Fatal(err)
	}
	return pages.Pages
}

// page awaits the one page that is attached.
func (b *bench) page() proto.Page {
	b.t.Helper()
	for {
		if pages := b.pages(); len(pages) == 1 {
			return pages[0]
		}
		pause()
	}
}

// gone awaits that no page is attached any more.
func (b *bench) gone() {
	b.t.Helper()
	for len(b.pages()) > 0 {
		pause()
	}
}

// eval runs code in the page.
func (b *bench) eval(code string) proto.Evaluated {
	b.t.Helper()
	r, err := rpc.Call(b.t.Context(), b.client, proto.ReplEval, proto.Eval{Page: b.page().ID, Code: code})
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// has awaits words in the page's file.
func (b *bench) has(words ...string) {
	b.t.Helper()
	file := filepath.Join(b.dir, b.page().File)
	for {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a page is listed a moment before it has its file
			b.t.Fatal(err)
		}
		missing := false
		for _, w := range words {
			missing = missing || !strings.Contains(string(text), w)
		}
		if !missing {
			return
		}
		pause()
	}
}

var tick = time.NewTicker(5 * time.Millisecond)

// pause is the distance between two looks.
func pause() { <-tick.C }

// step is code and what is to come of it.
type step struct{ code, kind, value string }

// follow runs steps one after the other. The kind "error" expects the value in the
// error's text.
func (b *bench) follow(steps []step) {
	b.t.Helper()
	for _, s := range steps {
		r := b.eval(s.code)
		switch {
		case s.kind == "error" && (r.OK || !strings.Contains(r.Error, s.value)),
			s.kind != "error" && (!r.OK || r.Kind != s.kind || r.Value != s.value):
			b.t.Errorf("%s\ngot  %+v\nwant %s %q", s.code, r, s.kind, s.value)
		}
	}
}

// output is what a program writes.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// TestEarly: a program may be there before the service, and what it has to say is
// kept meanwhile.
func TestEarly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ runtime, adapter, script, text string }{
		{"node", "zino_repl.mjs", "early.mjs", `console.log("early")`},
		{"python3", "zino_repl.py", "early.py", `print("early", flush=True)`},
	} {
		t.Run(c.runtime, func(t *testing.T) {
			b := newBench(t)
			b.stop()
			b.run(c.runtime, c.adapter, b.script(c.script, c.text))
			for !strings.Contains(b.err.String(), "early") {
				pause()
			}
			b.start()
			b.has("\nearly\n")
		})
	}
}

// TestKept: a program has a connection for its answers as soon as it is attached,
// for a service that is about to stop accepts no more. What it has to say may be long.
func TestKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ runtime, adapter, say string }{
		{"node", "zino_repl.mjs", `console.log({ a: "x".repeat(20_000) })`},
		{"python3", "zino_repl.py", `import json; print(json.dumps({"a": "x" * 20_000}))`},
	} {
		t.Run(c.runtime, func(t *testing.T) {
			b := newBench(t)
			b.run(c.runtime, c.adapter)
			b.page()
			for b.connections() < 3 {
				pause()
			}
			if r := b.eval(c.say); len(r.Background) != 1 || len(r.Background[0].Message) < 20_000 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// connections is how many the service has, with the test's own.
func (b *bench) connections() int64 {
	b.t.Helper()
	stats, err := rpc.Call(b.t.Context(), b.client, proto.GetStats, proto.StatsRequest{})
	if err != nil {
		b.t.Fatal(err)
	}
	return stats.Connections
}
