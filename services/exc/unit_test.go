package exc

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/exc/run"
	"zino/services/exc/sandbox"
)

// unitHost serves a socket as the host's zino-run.socket does: with a process for
// each connection, here a goroutine. errs receives the error of each.
func unitHost(t *testing.T) (socket string, errs chan error) {
	t.Helper()
	return unitHostUntil(t, context.Background(), run.ServeConn)
}

// unitHostUntil is unitHost for processes that serve; all units end with ctx.
func unitHostUntil(t *testing.T, ctx context.Context, serve func(context.Context, *net.UnixConn, *slog.Logger) error) (socket string, errs chan error) {
	t.Helper()
	l := zinotest.Listen(t, "")
	errs = make(chan error, 100)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				errs <- serve(ctx, c.(*net.UnixConn), slog.New(slog.DiscardHandler))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return l.Addr().String(), errs
}

// newUnitService is a service whose commands run in units.
func newUnitService(t *testing.T, change func(*config.Exc)) *service {
	t.Helper()
	s := newService(t, func(c *config.Exc) {
		c.Sandbox = proto.LevelUnit
		if change != nil {
			change(c)
		}
	}, nil)
	s.host.unit, _ = unitHost(t)
	for i := range s.host.pipes {
		s.host.pipes[i], _ = unitHostUntil(t, t.Context(), servePipe(""))
	}
	s.unitHomes = zinotest.Dir(t)
	for i := range s.homes.units {
		s.homes.units[i], _ = unitHostUntil(t, t.Context(), servePipe(s.unitHomes))
	}
	return s
}

// servePipe is run.ServePipe with that directory of homes.
func servePipe(homes string) func(context.Context, *net.UnixConn, *slog.Logger) error {
	return func(ctx context.Context, conn *net.UnixConn, log *slog.Logger) error {
		return run.ServePipe(ctx, conn, homes, log)
	}
}

func TestUnit(t *testing.T) {
	t.Setenv("EXC_TEST_SEEN", "seen")
	t.Setenv("LLM_API_KEY", "secret")
	s := newUnitService(t, nil)
	dir := zinotest.Dir(t)
	tests := []struct {
		name, code, root string
		want             proto.Result
	}{
		{"both outputs", "echo out; echo err >&2; exit 7", "", proto.Result{ExitCode: 7, Stdout: "out\n", Stderr: "err\n"}},
		{"signal", "kill -9 $$", "", proto.Result{ExitCode: -9}},
		{"not UTF-8", `printf 'a\377\0b'`, "", proto.Result{Stdout: "a\uFFFD\x00b"}},
		{"script", `echo "${0##*/}"`, "", proto.Result{Stdout: "code.sh\n"}},
		{"environment", `echo "$EXC_TEST_SEEN $LLM_API_KEY $SSH_AUTH_SOCK"`, "", proto.Result{Stdout: "seen  \n"}},
		{"a home of its own", `[ "$HOME" = "$TMPDIR" ] && [ "$HOME" = "$PWD" ] && touch "$HOME/x" && echo ok`, "", proto.Result{Stdout: "ok\n"}},
		{"root", "pwd", dir, proto.Result{Stdout: dir + "\n"}},
		{"no input", "cat; echo $?", "", proto.Result{Stdout: "0\n"}},
		{"daemon", "(setsid sleep 1000 &) ; echo up", "", proto.Result{Stdout: "up\n"}},
	}
	marked := mark(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Code: tt.code, Root: tt.root})
			if c := got.Confinement; err != nil || c == nil || c.Sandbox != proto.LevelUnit || !slices.Equal(c.Means, []string{"unit"}) || c.Network {
				t.Fatalf("%v, confinement %+v", err, got.Confinement)
			}
			if got.Confinement = nil; got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
	s.mustLeaveNothing(t, marked)
}

func TestUnitMuchOutput(t *testing.T) {
	t.Parallel()
	s := newUnitService(t, nil)
	got := ask(t, s.dial(t), call("bash", s.dir, in{"command": "seq 200000; seq 200000 >&2"}))
	if !got.OK || !got.Data.Truncated || !strings.HasSuffix(got.Data.Stdout, "200000\n") || !strings.HasSuffix(got.Data.Stderr, "200000\n") {
		t.Errorf("%.300s", fmt.Sprint(got))
	}
}

func TestUnitTimeout(t *testing.T) {
	marked := mark(t)
	s := newUnitService(t, func(c *config.Exc) { c.Timeout = 0.3 })
	got, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Code: "trap 'echo bye; exit' TERM; echo so far; setsid sleep 1000 & sleep 1000 & wait"})
	if err != nil || !got.TimedOut || got.Stdout != "so far\nbye\n" || got.Confinement.Limit != "time" {
		t.Errorf("%v, %+v", err, got)
	}
	s.mustLeaveNothing(t, marked)
}

// A command that ends with its unit is reported, with its output.
func TestUnitEndedByHost(t *testing.T) {
	t.Parallel()
	s := newUnitService(t, nil)
	ctx, end := context.WithCancel(t.Context())
	var errs chan error
	s.host.unit, errs = unitHostUntil(t, ctx, run.ServeConn)
	pipe := filepath.Join(zinotest.Dir(t), "begun")
	zinotest.Must(t, syscall.Mkfifo(pipe, 0o600))
	go func() {
		_, _ = os.ReadFile(pipe) // returns when the command has closed it
		end()
	}()
	got, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Code: "echo half; : >" + pipe + "; exec sleep 1000"})
	if err != nil || got.ExitCode != -15 || got.Stdout != "half\n" || got.TimedOut {
		t.Errorf("%+v, %v", got, err)
	}
	zinotest.Must(t, <-errs)
}

func TestUnitCallerHangsUp(t *testing.T) {
	marked := mark(t)
	up := upFile(t)
	s := newUnitService(t, nil)
	ctx, hangUp := context.WithCancel(t.Context())
	answer := s.start(ctx, t, up, "touch $UP", "")
	hangUp()
	zinotest.Must(t, <-answer)
	zinotest.Eventually(t, "no process is left", func() bool { return len(marked()) == 0 })
}

// Code in a unit cannot stop or disarm its supervisor and the unit's process.
func TestUnitIsWatched(t *testing.T) {
	t.Parallel()
	s := newUnitService(t, nil)
	code := fmt.Sprintf(`
import os, resource
def attempt(what, pid):
    try:
        what(pid)
        print("yes")
    except (PermissionError, ProcessLookupError):
        print("no")
for pid in os.getppid(), %d:
    attempt(lambda pid: os.kill(pid, 0), pid)
    attempt(lambda pid: resource.prlimit(pid, resource.RLIMIT_CORE), pid)
os.kill(os.getpid(), 0)
resource.prlimit(0, resource.RLIMIT_CORE)
`, os.Getpid())
	reached := map[bool]string{true: "no\nno\n", false: "yes\nno\n"}[sandbox.Scopes()]
	r, err := s.execute(t.Context(), proto.Execute{Executor: "python3", Code: code})
	if want := reached + reached; err != nil || r.ExitCode != 0 || r.Stdout != want {
		t.Errorf("got %+v, %v, want %q", r, err, want)
	}
	t.Logf("SIGNALS ARE KEPT TO THE RUN: %v", sandbox.Scopes())
}

func TestUnitPipe(t *testing.T) {
	marked := mark(t)
	s := newUnitService(t, nil)
	c := s.dial(t)
	for _, network := range []bool{false, true} {
		req := sh(`cat /dev/stdin; [ "$HOME" = "$PWD" ] && echo home; echo $EXTRA_TOKEN$SSH_AUTH_SOCK >&2; exit 3`, new("input\n"))
		req.Network, req.Env = &network, map[string]string{"EXTRA_TOKEN": "given"}
		e := pipeTo(t, c, req)
		if e.err != nil || e.ExitCode != 3 || e.stdout != "input\nhome\n" || e.stderr != "given\n" || e.Confinement.Sandbox != proto.LevelUnit || e.Confinement.Network != network {
			t.Errorf("%+v", e)
		}
	}
	id, end := open(t.Context(), t, c, sh("cat; exit 7", nil))
	zinotest.Must(t, writeTo(t, c, proto.PipeWrite{Pipe: id, Text: "one\n"}))
	zinotest.Must(t, writeTo(t, c, proto.PipeWrite{Pipe: id, Text: "two\n", Close: true}))
	if e := zinotest.Receive(t, "the end", end); e.err != nil || e.ExitCode != 7 || e.stdout != "one\ntwo\n" {
		t.Errorf("%+v", e)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, end = open(ctx, t, c, sh("(setsid sh -c '(sleep 1000) & exit' &); cat", nil))
	cancel()
	zinotest.Receive(t, "the end", end)
	zinotest.Eventually(t, "no process is left", func() bool { return len(marked()) == 0 })
	s.host.pipes[0] = "/none/pipe.sock"
	zinotest.Error(t, pipeTo(t, c, sh("true", nil)).err, proto.ErrUnavailable, "zino-pipe.socket of a system installation")
}

// TestUnitHome: a program in a unit finds what its earlier runs left in its home, and
// nothing of the homes of others, which belong to the same user.
func TestUnitHome(t *testing.T) {
	s := newUnitService(t, nil)
	c := s.dial(t)
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	homes, err := filepath.EvalSymlinks(s.unitHomes)
	zinotest.Must(t, err)
	start := func(home, code string) ended {
		t.Helper()
		req := sh(code, new(""))
		req.Home, req.Network = home, new(false)
		return pipeTo(t, c, req)
	}
	keep := `[ "$PWD" = "$HOME" ] && cat kept 2>/dev/null; echo kept >kept; mkdir -p sub && mv kept sub && mv sub/kept . && touch "$TMPDIR/x" && echo ok >/dev/null && echo written`
	if err := s.homes.unitProblem(); err != nil {
		// Signals of the kernel's users are not scoped: the home ends with its unit.
		for range 2 {
			zinotest.Equal(t, "a home that is not kept", start(a, keep).stdout, "written\n")
		}
		st, statsErr := rpc.Call(t.Context(), c, proto.GetStats, proto.StatsRequest{})
		zinotest.Must(t, statsErr)
		zinotest.Equal(t, "the reason", st.Info["no homes in units"], err.Error())
		return
	}
	zinotest.Equal(t, "the first run", start(a, keep).stdout, "written\n")
	zinotest.Equal(t, "the second run", start(a, keep).stdout, "kept\nwritten\n")
	zinotest.Equal(t, "it is in the unit's directory", exists(homes+"/"+a+"/kept"), true)
	zinotest.Equal(t, "it is in that of exc", exists(s.cfg.DataDir+"/mcp/home/"+a), false)
	other := fmt.Sprintf(`cd / && for d in %[1]s %[1]s/%[2]s; do ls $d; done; cat %[1]s/%[2]s/kept; echo x >%[1]s/%[2]s/kept; echo x >%[1]s/%[2]s/new; mv %[1]s/%[2]s %[1]s/gone; rm -rf %[1]s/%[2]s; mkdir %[1]s/new; ln -s %[1]s/%[2]s $HOME/link; cat $HOME/link/kept
ln %[1]s/%[2]s/kept $HOME/hard; cp /proc/self/root/%[1]s/%[2]s/kept $HOME/copy; ls -A $HOME`, homes, a)
	if e := start(b, other); e.err != nil || e.stdout != "link\n" {
		t.Errorf("another program reaches the home: %+v", e)
	}
	zinotest.Equal(t, "the home afterwards", start(a, "cat kept; ls -A").stdout, "kept\nkept\nsub\n")

	running := sh("chmod 0 sub; echo up; cat", nil)
	running.Home = a
	ctx, cancel := context.WithCancel(t.Context())
	_, end := open(ctx, t, c, running)
	remove := func(name string) error {
		_, err := rpc.Call(t.Context(), c, proto.ExcRemoveHome, proto.RemoveHome{Home: name})
		return err
	}
	zinotest.Error(t, remove(a), proto.ErrBusy, "is running")
	cancel()
	zinotest.Receive(t, "the end", end)
	zinotest.Eventually(t, "the home is removed", func() bool { return remove(a) == nil })
	zinotest.Equal(t, "the home is there", exists(homes+"/"+a), false)
	zinotest.Equal(t, "another's is there", exists(homes+"/"+b), true)
	zinotest.Must(t, remove(a))

	f, err := os.Create(homes + "/" + b + "/large")
	zinotest.Must(t, err)
	defer f.Close()
	zinotest.Must(t, syscall.Fallocate(int(f.Fd()), 0, 0, 1<<20))
	s.homes.max = 1 << 20
	zinotest.Error(t, start(b, "true").err, proto.ErrInvalid, "more than 1 MiB", homes+"/"+b)
	zinotest.Equal(t, "programs that count", len(s.homes.used), 0)
	s.homes.units[0] = "/none/home.sock"
	zinotest.Error(t, s.homes.unitProblem(), os.ErrNotExist, "zino-home.socket")
}
