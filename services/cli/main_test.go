package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
	"zino/services/cli/connect"
	"zino/services/cli/doctor"
	"zino/services/cli/turn"
)

// mainEnv makes the test binary run as zino.
const mainEnv = "CLI_TEST_MAIN"

// Exit statuses.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// exitAfter returns the exit status of a run that a signal interrupted.
func exitAfter(s syscall.Signal) int {
	if s == syscall.SIGHUP {
		return 129
	}
	return exitInterrupted
}

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "zino-repl" {
		standIn()
		return
	}
	if os.Getenv(mainEnv) != "" {
		if version := os.Getenv("CLI_TEST_VERSION"); version != "" {
			rpc.Build = version
		}
		if socket := os.Getenv("CLI_TEST_HOST"); socket != "" {
			connect.HostSocket = socket
		}
		if limit, err := time.ParseDuration(os.Getenv("CLI_TEST_LIMIT")); err == nil {
			doctor.ReachLimit = limit
		}
		doctor.LingerDir = cmp.Or(os.Getenv("CLI_TEST_LINGER"), doctor.LingerDir)
		if limit, err := time.ParseDuration(os.Getenv("CLI_TEST_RECONNECT")); err == nil {
			turn.ReconnectLimit = limit
		}
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// fake is a daemon with the services behind it.
type fake struct {
	socket string

	mu       sync.Mutex
	heard    []proto.Chat
	sessions map[string]int // number of messages by id
	removed  []string
	script   func(ctx context.Context, req proto.Chat, out *rpc.Out) (proto.Text, error) // answers "play"
	stop     []func()
	ended    chan error // errors of turns that waited
	caps     proto.RouterCapabilities
	refuses  error // answer to a request for the list of models
}

// newFake starts a daemon that answers "echo: MESSAGE", except for the messages in
// chat.
func newFake(t *testing.T, path string) *fake {
	t.Helper()
	if path == "" {
		path = filepath.Join(zinotest.Dir(t), "d")
	}
	f := &fake{socket: path, sessions: map[string]int{}, ended: make(chan error, 16), caps: proto.RouterCapabilities{Streaming: true, Model: "fake", Provider: "openai"}}
	others := filepath.Join(zinotest.Dir(t), "o")
	for _, service := range []string{"daemon", "others"} {
		s := rpc.NewServer(service, slog.New(slog.DiscardHandler))
		path := others
		if service == "daemon" {
			path = f.socket
			rpc.HandleText(s, proto.DaemonChat, f.chat)
			rpc.HandleRelay(s, proto.DaemonForward, func(ctx context.Context, req proto.Forward, out *rpc.Out) error {
				c := &rpc.Client{Service: req.Service, Path: others}
				defer c.Close()
				return rpc.Relay(ctx, c, req.Request, out)
			})
		}
		rpc.Handle(s, proto.RtrCapabilities, func(context.Context, proto.ModelSelector) (proto.RouterCapabilities, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.caps, nil
		})
		rpc.Handle(s, proto.RtrModels, func(context.Context, proto.ModelsRequest) (proto.ModelList, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return proto.ModelList{Models: []proto.Model{{Name: "m"}}}, f.refuses
		})
		rpc.Handle(s, proto.MemFindSession, f.find)
		rpc.Handle(s, proto.MemForkSession, f.fork)
		rpc.Handle(s, proto.MemRemoveSession, f.remove)
		l, err := net.Listen("unix", path)
		zinotest.Must(t, err)
		go s.Serve(l)
		f.stop = append(f.stop, func() {
			at, cancel := context.WithCancel(context.Background())
			cancel()
			s.Shutdown(at) // cancelled: don't wait for running requests
		})
	}
	t.Cleanup(f.die)
	return f
}

func (f *fake) chat(ctx context.Context, req proto.Chat, out *rpc.Out) (proto.Text, error) {
	f.mu.Lock()
	f.heard = append(f.heard, req)
	if req.SessionID != "" && !req.NoSave {
		f.sessions[req.SessionID] += 2
	}
	script := f.script
	f.mu.Unlock()
	switch message := strings.TrimSpace(req.Message); {
	case message == "":
		return proto.Text{}, &proto.Error{Code: proto.CodeInvalid, Message: "Empty message."}
	case message == "fail":
		return proto.Text{}, &proto.Error{Code: proto.CodeInternal, Message: "this\nfails \x1b[31m"}
	case message == "too long":
		return proto.Text{}, &proto.Error{Code: proto.CodeTooLarge, Message: "Agentic runtime error: rtr error: HTTP 400: too long. Go on in a new session: zino handoff --from-session x --goal \"…\"", Service: "agr"}
	case message == "nothing":
		return proto.Text{}, nil
	case message == "play":
		return script(ctx, req, out)
	case message == "wait":
		delta(req, out, "so far")
		<-ctx.Done()
		f.ended <- ctx.Err()
		return proto.Text{}, ctx.Err()
	case message == "flood":
		for ctx.Err() == nil && delta(req, out, strings.Repeat("flood\n", 1000)) == nil {
		}
		f.ended <- context.Canceled
		return proto.Text{}, context.Canceled
	}
	return proto.Text{Content: "echo: " + req.Message}, delta(req, out, "echo: "+req.Message)
}

// die stops the daemon. A second call does nothing.
func (f *fake) die() {
	for _, stop := range f.stop {
		stop()
	}
}

// plays sets the answer to "play".
func (f *fake) plays(script func(context.Context, proto.Chat, *rpc.Out) (proto.Text, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script = script
}

// has sets the sessions.
func (f *fake) has(sessions map[string]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions = sessions
}

// delta sends a piece of the answer, as an event or as text.
func delta(req proto.Chat, out *rpc.Out, text string) error {
	if req.Events {
		return out.Event(proto.TypeAssistantDelta, proto.AssistantDelta{Text: text})
	}
	return errors.Join(out.Text([]byte(text)), out.Flush())
}

func (f *fake) find(_ context.Context, req proto.FindSession) (proto.SessionSummary, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []string
	for id := range f.sessions {
		if strings.HasPrefix(id, req.SessionID) {
			found = append(found, id)
		}
	}
	switch n, ok := f.sessions[req.SessionID]; {
	case ok:
		return proto.SessionSummary{SessionID: req.SessionID, Messages: n}, nil
	case len(found) == 0:
		return proto.SessionSummary{}, &proto.Error{Code: proto.CodeNotFound, Message: "No sessions found."}
	case len(found) > 1:
		return proto.SessionSummary{}, &proto.Error{Code: proto.CodeInvalid, Message: "Several sessions begin with that."}
	}
	return proto.SessionSummary{SessionID: found[0], Messages: f.sessions[found[0]]}, nil
}

func (f *fake) fork(_ context.Context, req proto.ForkSession) (proto.SessionPlace, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions["copy"] = f.sessions[req.SessionID]
	return proto.SessionPlace{SessionID: "copy"}, nil
}

func (f *fake) remove(_ context.Context, req proto.RemoveSession) (proto.SessionName, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removed = append(f.removed, req.SessionID)
	delete(f.sessions, req.SessionID)
	return proto.SessionName(req), nil
}

// requests returns the requests so far.
func (f *fake) requests() []proto.Chat {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.heard)
}

// messages returns the messages so far.
func (f *fake) messages() (list []string) {
	for _, req := range f.requests() {
		list = append(list, req.Message)
	}
	return list
}

// waiting waits until n turns have begun.
func (f *fake) waiting(t *testing.T, n int) {
	t.Helper()
	zinotest.Eventually(t, "the turn has begun", func() bool { return len(f.messages()) >= n })
}

// world is the environment of a command: a home and a runtime directory.
type world struct{ home, runtime, cwd string }

func newWorld(t *testing.T) world {
	t.Helper()
	dir := zinotest.Dir(t)
	w := world{filepath.Join(dir, "h"), filepath.Join(dir, "r"), filepath.Join(dir, "w")}
	for _, d := range []string{w.home, w.runtime, w.cwd} {
		zinotest.Must(t, os.Mkdir(d, 0o700))
	}
	return w
}

// command returns a zino command in that world, without the environment of the tests.
func (w world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Dir = w.cwd
	cmd.Env = []string{
		mainEnv + "=1", "GORACE=atexit_sleep_ms=0", "PATH=" + os.Getenv("PATH"), "TERM=xterm",
		"HOME=" + w.home, "XDG_RUNTIME_DIR=" + w.runtime, "CLI_TEST_HOST=" + w.runtime + "/host.sock",
	}
	cmd.Env = append(cmd.Env, zinotest.CoverEnv()...)
	return cmd
}

// expect runs a command and compares its status and all that it prints.
func expect(t *testing.T, cmd *exec.Cmd, input string, status int, out, stderr string) {
	t.Helper()
	gotStatus, gotOut, gotErr := run(t, cmd, input)
	if gotStatus != status || gotOut != out || gotErr != stderr {
		t.Errorf("%.200q: status %d, stdout\n%s\nstderr\n%s\nwant %d\n%s\n%s", cmd.Args[1:], gotStatus, gotOut, gotErr, status, out, stderr)
	}
}

// newDaemon starts a daemon with the methods that own registers. It forwards requests
// for any service to one with the methods that behind registers.
func newDaemon(t *testing.T, behind func(*rpc.Server), own ...func(*rpc.Server)) (socket string) {
	t.Helper()
	others, _ := rpctest.New(t, "others", "", behind)
	socket, _ = rpctest.New(t, "daemon", "", func(s *rpc.Server) {
		rpc.HandleRelay(s, proto.DaemonForward, func(ctx context.Context, req proto.Forward, out *rpc.Out) error {
			c := &rpc.Client{Service: req.Service, Path: others}
			defer c.Close()
			return rpc.Relay(ctx, c, req.Request, out)
		})
		for _, register := range own {
			register(s)
		}
	})
	return socket
}

// run runs the command to its end.
func run(t *testing.T, cmd *exec.Cmd, input string) (status int, out, errors string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	cmd.WaitDelay = zinotest.Timeout
	err := cmd.Run()
	if _, ok := err.(*exec.ExitError); err != nil && !ok {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}
