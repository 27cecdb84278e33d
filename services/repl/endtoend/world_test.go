package endtoend_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

// world is a zino-repl with a directory for its files and a site that it serves.
type world struct {
	t      *testing.T
	dir    string
	config string
	url    string // of the site, without a slash at the end
	client *rpc.Client
	said   output
	cmd    *exec.Cmd
	ended  chan error
}

// newWorld starts one. settings are lines of [repl].
func newWorld(t *testing.T, settings string) *world {
	t.Helper()
	dir, err := os.MkdirTemp(base, "")
	must(t, err)
	w := &world{t: t, dir: dir, config: filepath.Join(dir, "ZINO.toml"), ended: make(chan error, 1)}
	w.client = &rpc.Client{Service: "repl", Path: filepath.Join(dir, "s")}
	for _, name := range []string{"work", "home", "run"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	must(t, os.CopyFS(filepath.Join(dir, "site"), os.DirFS("testdata/site")))
	w.configure("127.0.0.1:0", settings)
	t.Cleanup(w.stop)
	w.start()
	return w
}

func (w *world) configure(address, settings string) {
	w.t.Helper()
	text := fmt.Sprintf("[repl]\nsocket = \"s\"\nhttp = %q\ndir = \"work\"\nserve = \"site\"\n", address)
	must(w.t, os.WriteFile(w.config, []byte(text+settings), 0o600))
}

// again starts the service once more, where it was.
func (w *world) again() {
	w.t.Helper()
	w.configure(strings.TrimPrefix(w.url, "http://"), "")
	w.start()
}

func (w *world) start() {
	w.t.Helper()
	w.cmd = exec.Command(filepath.Join(bin, "zino-repl"), "--config", w.config)
	w.cmd.Dir, w.cmd.Env, w.cmd.Stderr = w.dir, w.env(), &w.said
	must(w.t, w.cmd.Start())
	go func() { w.ended <- w.cmd.Wait() }()
	w.until("zino-repl answers, and has said where it listens", func() bool {
		_, err := rpc.Call(w.t.Context(), w.client, proto.Ping, proto.PingRequest{})
		_, address, said := strings.Cut(w.said.String(), "http=http://")
		address, _, whole := strings.Cut(address, "/")
		w.url = "http://" + address
		return err == nil && said && whole
	})
}

// env is an environment without anything of the user's.
func (w *world) env(more ...string) []string {
	return append(more, "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+filepath.Join(w.dir, "home"), "XDG_RUNTIME_DIR="+filepath.Join(w.dir, "run"),
		"TMPDIR="+filepath.Join(w.dir, "run"), "LC_ALL=C.UTF-8", "TERM=dumb")
}

// stop ends the service, which has to end by itself and to have nothing to complain of.
func (w *world) stop() {
	w.client.Close()
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		w.t.Errorf("zino-repl ended before: %v", err)
	}
	kill := time.AfterFunc(patience, func() { w.cmd.Process.Kill() }) // then its status tells
	defer kill.Stop()
	if err := <-w.ended; err != nil {
		w.t.Errorf("zino-repl: %v\n%s", err, &w.said)
	}
	if said := w.said.String(); strings.Contains(said, "level=ERROR") {
		w.t.Errorf("it said:\n%s", said)
	}
}

// until waits for a condition.
func (w *world) until(what string, condition func() bool) {
	w.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); !condition(); {
		select {
		case <-tick.C:
		case <-late:
			w.t.Fatalf("waited in vain: %s\n%s%s", what, &w.said, w.everything())
		}
	}
}

// everything is all that stands in Markdown files.
func (w *world) everything() string {
	var all strings.Builder
	files, err := filepath.Glob(w.path("debug/*.md"))
	must(w.t, err)
	for _, file := range append(files, w.path("debug.md")) {
		text, err := os.ReadFile(file)
		must(w.t, err)
		all.WriteString("\n--- " + filepath.Base(file) + " ---\n" + string(text[max(0, len(text)-4000):]))
	}
	return all.String()
}

// path is a file's in the directory of the REPL.
func (w *world) path(file string) string { return filepath.Join(w.dir, "work", file) }

// file is a file's text; "" while an editor has it put aside.
func (w *world) file(name string) string {
	w.t.Helper()
	text, err := os.ReadFile(w.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	return string(text)
}

// pages are those that are connected.
func (w *world) pages() []proto.Page {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	list, err := rpc.Call(ctx, w.client, proto.ReplPages, proto.PagesRequest{})
	must(w.t, err)
	return list.Pages
}

// connected waits until n pages have a name and are idle, with files of their own.
func (w *world) connected(name string, n int) []proto.Page {
	w.t.Helper()
	var found []proto.Page
	w.until(name+" is connected", func() bool {
		found = nil
		for _, p := range w.pages() {
			if p.Name == name && strings.HasSuffix(w.file(p.File), footer) {
				found = append(found, p)
			}
		}
		return len(found) == n
	})
	return found
}

// output is written while it is read.
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
