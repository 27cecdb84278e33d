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

// serveEnv makes the test binary a service in its own process. Its value is a
// directory with tools/, in which the socket is made.
const serveEnv = "EXC_TEST_SERVE"

func TestMain(m *testing.M) {
	Supervise()
	if dir := os.Getenv(serveEnv); dir != "" {
		if err := serve(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if way := os.Getenv(attackEnv); way != "" {
		attackMain(way)
		os.Exit(0)
	}
	status := m.Run()
	os.RemoveAll(attackerDir)
	os.Exit(status)
}

// serve is a service until SIGTERM.
func serve(dir string) error {
	log := slog.New(slog.DiscardHandler)
	cat, err := catalog.Open(filepath.Join(dir, "tools"), "", log)
	if err != nil {
		return err
	}
	s, err := New(config.Default().Exc, cat, log)
	if err != nil {
		return err
	}
	server := rpc.NewServer("exc", log)
	s.Register(server)
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
}

// markEnv marks the processes of executed code.
const markEnv = "EXC_TEST_MARK"

// mark marks the environment of all code that runs from now on, and returns a
// function that lists the marked processes. Supervisors are marked, too.
func mark(t testing.TB) (marked func() []string) {
	t.Helper()
	value := fmt.Sprintf("%s=%d-%s", markEnv, os.Getpid(), t.Name())
	t.Setenv(markEnv, strings.TrimPrefix(value, markEnv+"="))
	return func() (found []string) {
		environs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, file := range environs {
			env, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(env)+"\x00", value+"\x00") {
				continue
			}
			cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			if filepath.Base(filepath.Dir(file)) != fmt.Sprint(os.Getpid()) {
				found = append(found, strings.ReplaceAll(string(cmdline), "\x00", " "))
			}
		}
		return found
	}
}

// exists reports whether a file is there.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// tools are the definitions of newService.
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cat.Close() })
	cfg := config.Default().Exc
	if change != nil {
		change(&cfg)
	}
	s, err := newIn(dir, cfg, cat, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &service{s, dir, lines}
}
