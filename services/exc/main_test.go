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
	"sync"
	"syscall"
	"testing"
	"time"

	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/pkg/rpc"
)

// serveEnv makes the test binary a service in its own process: its value is a
// directory that holds tools/ and takes the socket.
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
	if path := os.Getenv(listenEnv); path != "" {
		l, err := net.Listen("unix", path)
		if err == nil {
			_, err = l.Accept()
		}
		fmt.Fprintln(os.Stderr, err)
		select {} // until the test ends it
	}
	if way := os.Getenv(attackEnv); way != "" {
		attackMain(way)
		os.Exit(0)
	}
	status := m.Run()
	os.RemoveAll(attackerDir)
	os.Exit(status)
}

// listenEnv makes the test binary listen on the socket that is its value.
const listenEnv = "EXC_TEST_LISTEN"

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

// service is a service under test with what it was given.
type service struct {
	*Service
	dir string // a directory of the test's own, with tools/ in it
	log *logged
}

// logged is a log to look at.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// eventually waits until ok holds. What never comes true is ended by go test's
// own time limit, with this line on the stack.
func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		<-tick.C
	}
}

// markEnv marks all that executed code starts.
const markEnv = "EXC_TEST_MARK"

// mark has code that runs from now on, and its descendants, carry a mark, and
// returns what finds them. A supervisor carries it as well.
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

// tools are definitions that tests use beside the shipped ones' kind.
var tools = map[string]string{
	"bash.json":    `{"meta":{"executor":"bash","file_extension":".sh"}}`,
	"python3.json": `{"meta":{"executor":"python3","file_extension":".py","static_analysis":"python3 -m py_compile"}}`,
	"missing.json": `{"meta":{"executor":"zino-no-such-command"}}`,
}

// shortDir makes a directory for sockets, whose paths are limited.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// writeTools writes definitions to dir/tools.
func writeTools(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "tools"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, "tools", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// newService opens a service whose files are in a directory of the test's own.
func newService(t testing.TB, change func(*config.Exc), files map[string]string) *service {
	t.Helper()
	dir := shortDir(t)
	writeTools(t, dir, tools)
	writeTools(t, dir, files)
	lines := &logged{}
	log := slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
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
