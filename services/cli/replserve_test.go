package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/rpc"
	"zino/pkg/service"
	"zino/pkg/zinotest"
	"zino/proto"
)

// standIn runs as a service zino-repl without pages that records how it was started. It
// fails if the file "fail" exists.
func standIn() {
	cfg, log := service.Start("repl")
	if text, err := os.ReadFile(filepath.Join(cfg.Repl.Dir, "fail")); err == nil {
		service.Fail("repl", fmt.Errorf("%s", text))
	}
	text, err := json.Marshal(started{cfg.Repl.Dir, cfg.Repl.Serve, cfg.Repl.HTTP, cfg.Logging.Level, cfg.Repl.Origins, os.Environ(), os.Getpid()})
	service.Fail("repl", err)
	service.Fail("repl", os.WriteFile(filepath.Join(cfg.Repl.Dir, "started"), text, 0o600))
	s := rpc.NewServer("repl", log)
	rpc.Handle(s, proto.ReplPages, func(context.Context, proto.PagesRequest) (proto.Pages, error) {
		return proto.Pages{Pages: []proto.Page{}}, nil
	})
	if runs, err := os.ReadFile(filepath.Join(cfg.Repl.Dir, "runs")); err == nil { // they end with the drain
		s.OnStats(func(stats *proto.Stats) { stats.Info = map[string]string{"runs": string(runs)} })
		s.BeforeShutdown(func(ctx context.Context) {
			<-ctx.Done()
			service.Fail("repl", os.WriteFile(filepath.Join(cfg.Repl.Dir, "marked"), nil, 0o600))
		})
	}
	service.Fail("repl", service.Serve(s, "repl", cfg.Repl.Socket, log))
}

type started struct {
	Dir, Serve, HTTP, Level string
	Origins, Env            []string
	PID                     int
}

// install copies zino and the stand-in to one directory.
func (w world) install(t *testing.T) (zino string) {
	t.Helper()
	for _, name := range []string{"zino", "zino-repl"} {
		copyProgram(t, filepath.Join(w.home, name))
	}
	return filepath.Join(w.home, "zino")
}

// copyProgram copies this program to another path, by cp: a file that this process
// has open for writing cannot be executed while a child that was just forked still has
// the descriptor.
func copyProgram(t *testing.T, path string) {
	t.Helper()
	if os.Link(os.Args[0], path) == nil {
		return
	}
	if out, err := exec.Command("cp", os.Args[0], path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// serving starts zino repl and waits for its first lines.
func (w world) serving(t *testing.T, zino string, args ...string) (x *terminal, s started) {
	t.Helper()
	cmd := w.command(append([]string{"repl"}, args...)...)
	cmd.Path = zino
	cmd.Env = append(cmd.Env, "ANTHROPIC_API_KEY=sk-secret", "OWN=kept")
	x = onTerminal(t, cmd)
	x.Shows("zino repl --origin, or [repl] origins, names them.\r\n")
	text, err := os.ReadFile(filepath.Join(w.cwd, "started"))
	zinotest.Must(t, err)
	zinotest.Must(t, json.Unmarshal(text, &s))
	return x, s
}

// over waits for zino repl to exit and checks that no process and no file is left.
func (w world) over(t *testing.T, x *terminal, s started, status int) {
	t.Helper()
	if got := x.Exit(); got != status {
		t.Errorf("status %d, want %d; the screen shows %q", got, status, x.Written.String())
	}
	zinotest.Eventually(t, "the service is gone", func() bool { return syscall.Kill(s.PID, 0) != nil })
	zinotest.Equal(t, "files left", zinotest.Names(t, w.runtime), "")
}

// TestRepl checks the service's settings and environment, the printed instructions, and
// that Ctrl-C stops it.
func TestRepl(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	zino := w.install(t)
	x, s := w.serving(t, zino, "--http", "localhost:0", "--serve", w.home, "--origin", "http://a:1", "--origin=https://b")
	address := regexp.MustCompile(`up at http://(127\.0\.0\.1:[0-9]+)/zino/; Ctrl-C stops it`).FindStringSubmatch(x.Written.String())
	if address == nil || s.HTTP != address[1] || s.Dir != w.cwd || s.Serve != w.home || s.Level != "WARN" || !slices.Equal(s.Origins, []string{"http://a:1", "https://b"}) {
		t.Errorf("started %+v, stderr %q", s, x.Written.String())
	}
	x.Shows("Its files are in " + w.cwd + ": debug.md lists the pages")
	x.Shows(`<script crossorigin src="http://` + s.HTTP + `/zino.js"></script>`)
	env := strings.Join(s.Env, "\n")
	if strings.Contains(env, "sk-secret") || !strings.Contains(env, "OWN=kept") || strings.Contains(env, "LISTEN_PID") {
		t.Errorf("environment %q", env)
	}
	status, out, stderr := run(t, w.command("status"), "")
	if status != 0 || !regexp.MustCompile(`(?m)^repl +up `).MatchString(out) || stderr != "" {
		t.Errorf("status: %d, stderr %q, printed:\n%s", status, stderr, out)
	}
	second := w.command("repl", "--http", "127.0.0.1:0")
	second.Path = zino
	status, out, stderr = run(t, second, "")
	if status != 1 || out != "" || !strings.HasPrefix(stderr, "Error [internal]: a REPL is running already, on ") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("a second: status %d, stderr %q", status, stderr)
	}
	x.Type("\x03")
	w.over(t, x, s, 0)
}

// TestReplEnds checks that each of command and service ends when the other does.
func TestReplEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		end    func(x *terminal, s started) error
		status int
		shows  string
	}{
		{"SIGTERM", func(x *terminal, _ started) error { return x.Process.Process.Signal(syscall.SIGTERM) }, 0, ""},
		{"SIGHUP", func(x *terminal, _ started) error { return x.Process.Process.Signal(syscall.SIGHUP) }, 0, ""},
		{"service killed", func(_ *terminal, s started) error { return syscall.Kill(s.PID, syscall.SIGKILL) }, exitError, "Error [internal]: the REPL was stopped by another process: signal: killed\r\n"},
		{"service stopped", func(_ *terminal, s started) error { return syscall.Kill(s.PID, syscall.SIGTERM) }, exitError, "Error [internal]: the REPL was stopped by another process: SIGTERM\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			x, s := w.serving(t, w.install(t), "--http", "127.0.0.1:0")
			zinotest.Must(t, test.end(x, s))
			w.over(t, x, s, test.status)
			x.Shows(test.shows)
		})
	}
}

// TestReplRuns checks that runs under way get time to end, and that the service marks
// the others before the command exits.
func TestReplRuns(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, runs, shows string
		end               func(x *terminal)
	}{
		{"twice", "1", "\rwaiting for 1 run, press Ctrl-C again to stop now\r\n", func(x *terminal) { x.Type("\x03") }},
		{"SIGTERM", "2", "\rwaiting for 2 runs, press Ctrl-C again to stop now\r\n", func(x *terminal) { zinotest.Must(x.t, x.Process.Process.Signal(syscall.SIGTERM)) }},
		{"once", "12", "\rwaiting for 12 runs, press Ctrl-C again to stop now\r\n", func(*terminal) {}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			zinotest.Write(t, filepath.Join(w.cwd, "runs"), test.runs)
			x, s := w.serving(t, w.install(t), "--http", "127.0.0.1:0")
			x.Type("\x03")
			x.Shows(test.shows)
			test.end(x)
			w.over(t, x, s, 0)
			zinotest.Equal(t, "requests are marked", zinotest.Read(t, filepath.Join(w.cwd, "marked")), "")
		})
	}
}

// TestReplKilled checks that the service ends with a killed command, and that the next
// one replaces the socket.
func TestReplKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	zino := w.install(t)
	x, s := w.serving(t, zino, "--http", "127.0.0.1:0")
	x.Kill()
	x.Exit()
	zinotest.Eventually(t, "the service is gone", func() bool { return syscall.Kill(s.PID, 0) != nil })
	x, s = w.serving(t, zino, "--http", "127.0.0.1:0")
	x.Type("\x03")
	w.over(t, x, s, 0)
}

// TestReplRefuses checks the errors of starting the REPL. Invalid flags are in
// testdata/script/mistakes.txtar.
func TestReplRefuses(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	zinotest.Must(t, err)
	defer l.Close()
	taken := l.Addr().String()
	for _, test := range []struct {
		args, config string
		status       int
		stderr       string
	}{
		{"--http " + taken, "", 1, "Error [internal]: " + taken + " is in use, by another REPL perhaps; name another address with zino repl --http or [repl] http\n"},
		{"--http 127.0.0.1:99999", "", 1, "Error [internal]: [repl] http: listen tcp: address 99999: invalid port\n"},
		{"", "[repl]\ndir = \"none\"\n", 1, "Error [usage]: [repl] dir: CWD/none is not a directory\n"},
		{"--http 127.0.0.1:0", "[repl]\nserve = \"none\"\n", 1, "Error [usage]: [repl] serve: CWD/none is not a directory\n"},
		{"--http 127.0.0.1:0", "", 1, "the service zino-repl is missing: it belongs beside "},
	} {
		w := newWorld(t)
		zinotest.Write(t, filepath.Join(w.cwd, "own.toml"), test.config)
		args := append([]string{"--config", "own.toml", "repl"}, strings.Fields(test.args)...)
		status, out, stderr := run(t, w.command(args...), "")
		want := strings.ReplaceAll(test.stderr, "CWD", w.cwd)
		if status != test.status || out != "" || strings.Count(stderr, "\n") != 1 || stderr != want && !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, stderr %q, want %q", test.args, status, stderr, want)
		}
		zinotest.Equal(t, "files left", zinotest.Names(t, w.runtime), "")
	}
}

// TestReplFails checks that the service's error is printed once.
func TestReplFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	zinotest.Write(t, filepath.Join(w.cwd, "fail"), "no room")
	cmd := w.command("repl", "--http", "127.0.0.1:0")
	cmd.Path = w.install(t)
	expect(t, cmd, "", exitError, "", "zino-repl: no room\n")
	zinotest.Equal(t, "files left", zinotest.Names(t, w.runtime), "")
}
