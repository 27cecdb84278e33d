package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// TestMain lets the test binary be the program.
func TestMain(m *testing.M) {
	if os.Getenv("ZINO_REPL_TEST") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is a running zino-repl in a directory of its own.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	dir    string
	said   lockedBuffer
	done   chan struct{}
	client *rpc.Client
}

func start(t *testing.T, settings string) *program {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	text := "[repl]\nsocket = \"s\"\ndir = \"work\"\n" + settings
	if err := os.WriteFile(filepath.Join(dir, "ZINO.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, dir: dir, done: make(chan struct{}), client: &rpc.Client{Service: "repl", Path: filepath.Join(dir, "s")}}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Dir, p.cmd.Stderr = dir, &p.said
	p.cmd.Env = []string{"ZINO_REPL_TEST=1", "HOME=" + dir, "ZINO_HOME=" + dir}
	p.run()
	return p
}

// run starts it, and ends it with the test.
func (p *program) run() {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // its status is asked for
	}()
	p.t.Cleanup(func() {
		p.client.Close()
		p.cmd.Process.Kill()
		<-p.done
	})
}

// until waits for a condition while the program runs.
func (p *program) until(what string, condition func() bool) {
	p.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !condition() {
		select {
		case <-tick.C:
		case <-p.done:
			p.t.Fatalf("it ended before: %s\n%s", what, p.said.String())
		case <-late:
			p.t.Fatalf("waited in vain: %s\n%s", what, p.said.String())
		}
	}
}

// status waits for the end.
func (p *program) status() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		p.t.Fatalf("it does not end\n%s", p.said.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

// TestProgram starts it, asks on the socket and over HTTP, and ends it while a
// realm is connected.
func TestProgram(t *testing.T) {
	p := start(t, "http = \"127.0.0.1:0\"\nserve = \"work\"\n")
	p.until("it answers", func() bool {
		_, err := rpc.Call(t.Context(), p.client, proto.Ping, proto.PingRequest{})
		return err == nil
	})
	_, address, ok := strings.Cut(p.said.String(), "http=http://")
	if !ok {
		t.Fatalf("it does not say where it listens:\n%s", p.said.String())
	}
	address, _, _ = strings.Cut(address, "/")
	res, err := http.Get("http://" + address + "/zino.js")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK || !bytes.Contains(text, []byte(`"token"`)) {
		t.Errorf("the script: %s, %v", res.Status, err)
	}
	attached := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- attach(t.Context(), p.client.Path, attached)
	}()
	select {
	case file := <-attached:
		if !strings.HasPrefix(file, "debug/probe-") {
			t.Errorf("attached as %q", file)
		}
	case err := <-ended:
		t.Fatalf("not attached: %v", err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := p.status(); status != 0 {
		t.Errorf("status %d\n%s", status, p.said.String())
	}
	if err := <-ended; err != nil {
		t.Errorf("the realm: %v", err)
	}
}

// attach is a realm that does nothing, and tells its file. It ends with the
// service.
func attach(ctx context.Context, path string, attached chan<- string) error {
	client := &rpc.Client{Service: "repl", Path: path}
	defer client.Close()
	_, err := rpc.CallEvents(ctx, client, proto.ReplAttach, proto.Attach{Name: "probe"}, func(_ string, payload []byte) error {
		var a proto.Attached
		defer func() { attached <- a.File }()
		return wire.DecodeReply(payload, &a)
	})
	return err
}

// TestPortTaken says what to do.
func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := start(t, "http = \""+l.Addr().String()+"\"\n")
	if status := p.status(); status != 1 {
		t.Errorf("status %d", status)
	}
	if said := p.said.String(); !strings.HasPrefix(said, "zino-repl: ") || !strings.HasSuffix(said, "; set another port in ZINO.toml under [repl] http\n") {
		t.Errorf("said %q", said)
	}
}

// lockedBuffer is written while it is read.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
