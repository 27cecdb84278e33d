package exc

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
)

func TestMain(m *testing.M) {
	Supervise()
	zinotest.Child(zinotest.Roles{"serve": serve, "piper": piper})
	if way := os.Getenv(attackEnv); way != "" {
		attackMain(way)
		os.Exit(0)
	}
	status := m.Run()
	os.RemoveAll(attackerDir)
	os.Exit(status)
}

// killEnv names the step of a call with a key at which a peer kills itself.
const killEnv = "EXC_TEST_KILL"

// serve runs a service until SIGTERM. Its argument is a directory with tools/, in
// which the socket is made.
func serve(args []string) error {
	dir, log := args[0], slog.New(slog.DiscardHandler)
	cat, err := catalog.Open(filepath.Join(dir, "tools"), "", log)
	if err != nil {
		return err
	}
	cfg := config.Default().Exc
	cfg.Socket, cfg.DataDir = filepath.Join(dir, "s"), filepath.Join(dir, "data", "exc")
	s, err := New(cfg, nil, cat, log)
	if err != nil {
		return err
	}
	if err := s.OpenUndo(config.Default().Undo); err != nil {
		return err
	}
	s.at = func(step string) {
		if step == os.Getenv(killEnv) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	server := rpc.NewServer("exc", log)
	s.Register(server)
	_ = os.Remove(filepath.Join(dir, "s")) // of a service that was killed
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go server.Serve(l)
	<-ctx.Done()
	expired, cancel := context.WithCancel(context.Background())
	cancel() // what runs is cancelled at once
	_ = server.Shutdown(expired)
	return s.Close()
}

// service is a service under test.
type service struct {
	*Service
	dir string // a directory of the test's own, with tools/ in it
	log *zinotest.Buffer
	cfg config.Exc

	unitHomes string // of newUnitService
}

// markEnv marks the processes of executed code.
const markEnv = "EXC_TEST_MARK"

// mark marks the environment of all code that runs from now on, and returns a
// function that lists the marked processes. Supervisors are marked, too.
func mark(t testing.TB) (marked func() []string) {
	t.Helper()
	value := fmt.Sprintf("%d-%s", os.Getpid(), t.Name())
	t.Setenv(markEnv, value)
	return func() (found []string) {
		for pid, line := range zinotest.CommandLines() {
			env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if err == nil && pid != os.Getpid() && strings.Contains(string(env)+"\x00", markEnv+"="+value+"\x00") {
				found = append(found, line)
			}
		}
		return found
	}
}

// mustLeaveNothing reports processes and directories of runs.
func (s *service) mustLeaveNothing(t testing.TB, marked func() []string) {
	t.Helper()
	left := s.workspaces()
	if marked != nil {
		left = append(left, marked()...)
	}
	if len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// exists reports whether a file is there.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// tools are the definitions of each service.
var tools = map[string]string{
	"bash.json":    `{"meta":{"executor":"bash","file_extension":".sh"}}`,
	"python3.json": `{"meta":{"executor":"python3","file_extension":".py","static_analysis":"python3 -m py_compile"}}`,
	"missing.json": `{"meta":{"executor":"zino-no-such-command"}}`,
}

// writeTools writes definitions to dir/tools.
func writeTools(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	zinotest.WriteFiles(t, filepath.Join(dir, "tools"), files)
}

// newService opens a service in a directory of its own. change and files, if not
// nil, change its configuration and add definitions.
func newService(t testing.TB, change func(*config.Exc), files map[string]string) *service {
	t.Helper()
	dir := zinotest.Dir(t)
	writeTools(t, dir, tools)
	writeTools(t, dir, files)
	lines := new(zinotest.Buffer)
	log := lines.Logger()
	cat, err := catalog.Open(filepath.Join(dir, "tools"), "", log)
	zinotest.Must(t, err)
	t.Cleanup(func() { cat.Close() })
	cfg := config.Default().Exc
	cfg.Socket, cfg.DataDir = filepath.Join(dir, "s"), filepath.Join(dir, "data", "exc")
	if change != nil {
		change(&cfg)
	}
	s := &service{dir: dir, log: lines, cfg: cfg}
	s.open(t, cat)
	return s
}

// open opens the service. When the test ends its jobs end, then it closes.
func (s *service) open(t testing.TB, cat *catalog.Catalog) {
	t.Helper()
	opened, err := newIn(s.dir, s.cfg, cat, s.log.Logger())
	zinotest.Must(t, err)
	lifeline, end, err := os.Pipe()
	zinotest.Must(t, err)
	zinotest.Must(t, opened.EndWith(lifeline))
	t.Cleanup(func() {
		end.Close()
		for _, job := range opened.jobs.All() {
			if opened.ctx.Err() == nil {
				zinotest.Receive(t, "the end of a job", job.Done())
			}
		}
		opened.Close()
		lifeline.Close()
	})
	s.Service = opened
}

// restart closes the service and opens another one in its place.
func (s *service) restart(t testing.TB) *service {
	t.Helper()
	cat := s.catalog
	zinotest.Must(t, s.Close())
	next := &service{dir: s.dir, log: s.log, cfg: s.cfg}
	next.open(t, cat)
	return next
}
