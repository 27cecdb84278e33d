package service

import (
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
	"zino/pkg/zinotest"
	"zino/proto"
)

// hold is a method that replies when its gate, a socket, hangs up.
var hold = proto.Method[holdRequest, holdReply]{Service: "mem", Type: "hold", Reply: "held"}

type holdRequest struct {
	Gate  string `json:"gate"`
	Stuck bool   `json:"stuck"` // locks what the stats need
	Deaf  bool   `json:"deaf"`  // ignores cancellation
}

type holdReply struct {
	Environment []string `json:"environment"`
}

func TestMain(m *testing.M) {
	zinotest.Child(zinotest.Roles{"mem": runMem})
	os.Exit(m.Run())
}

// runMem is zino-mem's main with the method hold.
func runMem([]string) error {
	cfg, log := Start("mem")
	second, err := Inherited("http")
	Fail("mem", err)
	if second != nil {
		go newHolder(log).Serve(second)
	}
	Fail("mem", Serve(newHolder(log), "mem", cfg.Mem.Socket, log))
	return nil
}

// newHolder returns a service with the method hold.
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

// child is a service in a separate process.
type child struct {
	*exec.Cmd
	*zinotest.Process // after start
	t                 *testing.T
	socket            string
}

// command prepares a service in dir with a configuration. Its socket is configured or
// inherited.
func command(t *testing.T, dir, config string, args ...string) *child {
	t.Helper()
	file := filepath.Join(dir, "ZINO.toml")
	zinotest.Write(t, file, config)
	if args == nil {
		args = []string{"--config", file}
	}
	c := &child{Cmd: zinotest.Command(t, "mem", args...), t: t, socket: filepath.Join(dir, "mem.sock")}
	c.Dir = dir
	c.Env = append(c.Env, "ZINO_CONFIG=")
	return c
}

// start starts the process; it is killed when the test ends.
func (c *child) start() *child {
	c.t.Helper()
	c.Process = zinotest.Start(c.t, c.Cmd)
	return c
}

// serve starts a service on mem.sock in a new directory.
func serve(t *testing.T) *child {
	t.Helper()
	return command(t, zinotest.Dir(t), socketOnly).start().listening()
}

const socketOnly = "[mem]\nsocket = \"mem.sock\"\n"

func (c *child) listening() *child {
	c.t.Helper()
	c.WaitFor("listening")
	return c
}

// exits waits for the process to exit and checks its status, -1 after a signal.
func (c *child) exits(status int) {
	c.t.Helper()
	if got := c.Exit(); got != status {
		c.t.Errorf("exit status %d, want %d: %s", got, status, c.output())
	}
}

// output returns what the process has written to its standard error.
func (c *child) output() string { return c.Process.Err.String() }

// held is a request in flight that ends when its gate is closed.
type held struct {
	gate   net.Conn
	answer chan error
}

// holdOne sends a request and returns when its handler runs.
func holdOne(t *testing.T, socket string) *held {
	t.Helper()
	return holdWith(t, socket, holdRequest{})
}

// holdWith sends req, calls then, and returns when the handler runs.
func holdWith(t *testing.T, socket string, req holdRequest, then ...func()) *held {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(zinotest.Dir(t), "g"))
	zinotest.Must(t, err)
	defer l.Close()
	h := &held{answer: make(chan error, 1)}
	req.Gate = l.Addr().String()
	go func() { h.answer <- call(socket, req) }()
	for _, do := range then {
		do()
	}
	zinotest.Must(t, l.(*net.UnixListener).SetDeadline(time.Now().Add(zinotest.Timeout)))
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

// oneLine checks that text is one line that begins with zino-mem.
func oneLine(t *testing.T, text string) {
	t.Helper()
	if !strings.HasPrefix(text, "zino-mem: ") || strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		t.Errorf("want one line that begins with zino-mem: %q", text)
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
