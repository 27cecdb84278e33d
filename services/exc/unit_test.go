package exc

import (
	"context"
	"encoding/json"
	"errors"
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
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/exc/run"
	"zino/services/exc/sandbox"
)

// unitHost answers on a socket as the host's zino-run.socket does: with a
// program for each connection, here a goroutine. errs brings how each ended.
func unitHost(t *testing.T) (socket string, errs chan error) {
	t.Helper()
	return unitHostUntil(t, context.Background())
}

// unitHostUntil is unitHost; all units end with ctx.
func unitHostUntil(t *testing.T, ctx context.Context) (socket string, errs chan error) {
	t.Helper()
	socket, errs = filepath.Join(zinotest.Dir(t), "run"), make(chan error, 100)
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				errs <- run.ServeConn(ctx, c.(*net.UnixConn), slog.New(slog.DiscardHandler))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return socket, errs
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
	return s
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
	if left := marked(); len(left) > 0 {
		t.Errorf("still there: %q", left)
	}
}

func TestUnitMuchOutput(t *testing.T) {
	t.Parallel()
	s := newUnitService(t, nil)
	got, err := s.call(t.Context(), call("bash", s.dir, in{"command": "seq 200000; seq 200000 >&2"}), nil)
	var env struct {
		OK   bool
		Data bashData
	}
	if err == nil {
		err = json.Unmarshal(got.Result, &env)
	}
	if err != nil || !env.OK || !env.Data.Truncated || !strings.HasSuffix(env.Data.Stdout, "200000\n") || !strings.HasSuffix(env.Data.Stderr, "200000\n") {
		t.Errorf("%v, %.300s", err, got.Result)
	}
}

func TestUnitTimeout(t *testing.T) {
	marked := mark(t)
	s := newUnitService(t, func(c *config.Exc) { c.Timeout = 0.3 })
	got, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Code: "trap 'echo bye; exit' TERM; echo so far; setsid sleep 1000 & sleep 1000 & wait"})
	if err != nil || !got.TimedOut || got.Stdout != "so far\nbye\n" || got.Confinement.Limit != "time" {
		t.Errorf("%v, %+v", err, got)
	}
	if left := marked(); len(left) > 0 {
		t.Errorf("still there: %q", left)
	}
}

// A command that ends with its unit is reported, with its output.
func TestUnitEndedByHost(t *testing.T) {
	t.Parallel()
	s := newUnitService(t, nil)
	ctx, end := context.WithCancel(t.Context())
	var errs chan error
	s.host.unit, errs = unitHostUntil(t, ctx)
	dir := zinotest.Dir(t)
	pipe := filepath.Join(dir, "begun")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = os.ReadFile(pipe) // returns when the command has closed it
		end()
	}()
	got, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Code: "echo half; : >" + pipe + "; exec sleep 1000"})
	if err != nil || got.ExitCode != -15 || got.Stdout != "half\n" || got.TimedOut {
		t.Errorf("%+v, %v", got, err)
	}
	if err := <-errs; err != nil {
		t.Error(err)
	}
}

// leave runs code and hangs up when the file up exists.
func (s *service) leave(t *testing.T, up, code string) {
	t.Helper()
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	ended := make(chan error)
	go func() {
		r, err := s.execute(ctx, proto.Execute{Executor: "bash", Code: code})
		if err == nil && !r.Interrupted {
			err = fmt.Errorf("got %+v", r)
		}
		ended <- err
	}()
	zinotest.Eventually(t, "the command is up", func() bool { return exists(up) })
	hangUp()
	if err := <-ended; err != nil {
		t.Errorf("got %v", err)
	}
}

func TestUnitCallerHangsUp(t *testing.T) {
	marked := mark(t)
	up := upFile(t)
	s := newUnitService(t, nil)
	s.leave(t, up, "touch $UP; sleep 1000")
	zinotest.Eventually(t, "no process is left", func() bool { return len(marked()) == 0 })
}

// Without a socket for units, the level is an error with its reason, also in the
// result of a call.
func TestUnitMissing(t *testing.T) {
	t.Parallel()
	s := newUnitService(t, nil)
	s.host.unit = s.dir + "/nobody"
	_, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Code: "echo hi"})
	var e *proto.Error
	if !errors.As(err, &e) || e.Code != proto.CodeUnavailable || !strings.Contains(e.Message, "zino-run.socket") {
		t.Errorf("got %v", err)
	}
	got, err := s.call(t.Context(), call("bash", s.dir, in{"command": "echo hi"}), nil)
	if err != nil || !strings.Contains(string(got.Result), `"ok":false,"error":{"code":"sandbox"`) {
		t.Errorf("got %s, %v", got.Result, err)
	}
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
