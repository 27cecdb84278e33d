package service

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
)

// serveEnv makes the test binary the service mem, as zino-mem's main would.
const serveEnv = "SERVICE_TEST_SERVE"

// patience ends a test that waits for something which never comes.
const patience = 20 * time.Second

// hold is a method that is answered when its gate, a socket, hangs up.
var hold = proto.Method[holdRequest, holdReply]{Service: "mem", Type: "hold", Reply: "held"}

type holdRequest struct {
	Gate  string `json:"gate"`
	Stuck bool   `json:"stuck"` // with what the stats need as well
	Deaf  bool   `json:"deaf"`  // to its being cancelled
}

type holdReply struct {
	Environment []string `json:"environment"`
}

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) == "" {
		os.Exit(m.Run())
	}
	cfg, log := Start("mem")
	second, err := Inherited("http")
	Fail("mem", err)
	if second != nil {
		go newHolder(log).Serve(second)
	}
	Fail("mem", Serve(newHolder(log), "mem", cfg.Mem.Socket, log))
}

// newHolder is a service with the method hold.
func newHolder(log *slog.Logger) *rpc.Server {
	s := rpc.NewServer("mem", log)
	var state sync.Mutex
	rpc.Handle(s, hold, func(ctx context.Context, req holdRequest) (holdReply, error) {
		if req.Stuck {
			state.Lock()
			defer state.Unlock()
		}
		if req.Deaf {
			ctx = context.WithoutCancel(ctx)
		}
		return holdReply{os.Environ()}, wait(ctx, req.Gate)
	})
	s.OnStats(func(*proto.Stats) {
		state.Lock()
		defer state.Unlock()
	})
	return s
}

func wait(ctx context.Context, gate string) error {
	if gate == "" {
		return nil
	}
	nc, err := net.Dial("unix", gate)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	_, err = nc.Read(make([]byte, 1))
	if errors.Is(err, io.EOF) {
		return nil
	}
	return cmp.Or(ctx.Err(), err)
}

// child is a service in a process of its own.
type child struct {
	*exec.Cmd
	t      *testing.T
	socket string
	said   *output
	ended  chan struct{}
}

// output collects what a process says, while it does.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// command prepares a service whose configuration is text; its socket is named
// by it or handed over.
func command(t *testing.T, dir, text string, args ...string) *child {
	t.Helper()
	file := filepath.Join(dir, "ZINO.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if args == nil {
		args = []string{"--config", file}
	}
	c := &child{Cmd: exec.Command(os.Args[0], args...), t: t, said: &output{}, ended: make(chan struct{}), socket: filepath.Join(dir, "mem.sock")}
	c.Dir, c.Stderr = dir, c.said
	// The race detector would have each child wait for a second at its end.
	c.Env = append(os.Environ(), serveEnv+"=1", "ZINO_CONFIG=", "GORACE=atexit_sleep_ms=0")
	return c
}

// start starts the process and sees to it that it ends with the test.
func (c *child) start() *child {
	c.t.Helper()
	if err := c.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() { c.Wait(); close(c.ended) }()
	c.t.Cleanup(func() {
		c.Process.Kill() // an error: it has ended
		<-c.ended
	})
	return c
}

// serve starts a service on mem.sock in a directory of its own.
func serve(t *testing.T) *child {
	t.Helper()
	return command(t, shortDir(t), socketOnly).start().listening()
}

const socketOnly = "[mem]\nsocket = \"mem.sock\"\n"

func (c *child) listening() *child {
	c.t.Helper()
	c.says("listening")
	return c
}

// says waits until the process has said text.
func (c *child) says(text string) {
	c.t.Helper()
	until(c.t, "the process says "+text, func() bool { return strings.Contains(c.said.String(), text) })
}

// status waits for the end and returns the exit status, -1 after a signal.
func (c *child) status() int {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(patience):
		c.t.Fatalf("the process does not end; it said: %s", c.said)
	}
	return c.ProcessState.ExitCode()
}

func (c *child) signal(s os.Signal) {
	c.t.Helper()
	if err := c.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// held is a request in flight: it is answered after release.
type held struct {
	gate   net.Conn
	answer chan error
}

// holdOne sends a request and returns when it has arrived.
func holdOne(t *testing.T, socket string) *held {
	t.Helper()
	return holdWith(t, socket, holdRequest{})
}

// holdWith sends req, does what comes then, and returns when it has arrived.
func holdWith(t *testing.T, socket string, req holdRequest, then ...func()) *held {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(shortDir(t), "g"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h := &held{answer: make(chan error, 1)}
	req.Gate = l.Addr().String()
	go func() { h.answer <- call(socket, req) }()
	for _, do := range then {
		do()
	}
	if err := l.(*net.UnixListener).SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if h.gate, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.gate.Close() })
	return h
}

func call(socket string, req holdRequest) error {
	c := &rpc.Client{Service: "mem", Path: socket}
	defer c.Close()
	_, err := rpc.Call(context.Background(), c, hold, req)
	return err
}

// until waits for a condition.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); !condition(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// shortDir is a directory whose name leaves room for a socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// oneLine fails unless text is exactly one line that begins with zino-mem.
func oneLine(t *testing.T, text string) {
	t.Helper()
	if !strings.HasPrefix(text, "zino-mem: ") || strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		t.Errorf("not one line of the program's: %q", text)
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
