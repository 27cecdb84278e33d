// Package zinotest holds what the tests of every package need: short
// directories, waiting, log buffers, child processes, small disks. It imports
// the standard library only, and only test files import it; rpctest, below it,
// adds sockets that speak the protocol.
//
// Directories and files. The path of a Unix socket holds 107 bytes, which
// t.TempDir can exceed:
//
//	dir := zinotest.Dir(t)
//	zinotest.Write(t, filepath.Join(dir, "tools/bash.json"), `{}`)
//	text := zinotest.Read(t, path)
//
// Waiting. A test waits for a condition, never for time; Timeout only ends a
// test that would hang:
//
//	zinotest.Eventually(t, "the page is saved", func() bool { return saved.Load() })
//	result := zinotest.Receive(t, "the result", results)
//
// Logs that are read while they are written:
//
//	log := new(zinotest.Buffer)
//	s := New(cfg, log.Logger())
//	log.WaitFor(t, "listening")
//
// Other processes. The test binary runs again in a role, a function that gets
// the arguments of the command:
//
//	func TestMain(m *testing.M) {
//		zinotest.Child(zinotest.Roles{"writer": writeForever})
//		m.Run()
//	}
//
//	lines := zinotest.KillAfter(t, zinotest.Command(t, "writer", dir), 12) // SIGKILL after 12 lines
//	p := zinotest.Start(t, zinotest.Command(t, "server", dir))             // killed when the test ends
//	p.WaitFor("listening")
//	p.Signal(syscall.SIGTERM)
//	status := p.Exit()
//
// Disks that are full or read-only. The role calls Mount and sees its own disk:
//
//	zinotest.SmallDisk(t, zinotest.Command(t, "full", dir))
//
// or the test runs again with it:
//
//	dir, done := zinotest.OnSmallDisk(t, "size=1m")
//	if done { return }
//	free := zinotest.Fill(t, dir)
//
// Comparing. These report and go on; the text says what was compared:
//
//	zinotest.Equal(t, "stats", got, want)
//	zinotest.Contains(t, "the log", log.String(), "refused", "uid 65534")
//	zinotest.Error(t, err, proto.ErrInvalid, "channel_id")
package zinotest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Timeout ends a test that waits for something that does not happen. No test
// depends on its length.
const Timeout = 30 * time.Second

// Dir returns a directory with a path short enough for sockets. It is removed
// when the test ends.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "z")
	Must(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Read returns the text of a file.
func Read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	Must(t, err)
	return string(b)
}

// Write writes a file, readable by its owner only, and makes its directory.
func Write(t testing.TB, path, text string) {
	t.Helper()
	Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	Must(t, os.WriteFile(path, []byte(text), 0o600))
}

// WriteFiles writes files by their names below dir.
func WriteFiles(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		Write(t, filepath.Join(dir, name), text)
	}
}

// Append appends text to a file with one write, as `echo >>` does.
func Append(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	Must(t, err)
	_, err = f.WriteString(text)
	Must(t, errors.Join(err, f.Close()))
}

// Names returns the names of the files in dir, sorted and joined by blanks.
func Names(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	Must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// Listen listens on a Unix socket at path, or in a directory of its own if path
// is empty. It is closed when the test ends.
func Listen(t testing.TB, path string) net.Listener {
	t.Helper()
	if path == "" {
		path = filepath.Join(Dir(t), "s")
	}
	l, err := net.Listen("unix", path)
	Must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// Untouched listens on a Unix socket until the test ends. A connection to it fails
// the test: it would start an idle service.
func Untouched(t testing.TB, path string) {
	t.Helper()
	l := Listen(t, path)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if nc, err := l.Accept(); err == nil {
			nc.Close()
			t.Errorf("a connection to %s would have started an idle service", path)
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
}

// Must ends the test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Equal reports a value that differs from the one wanted.
func Equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got == want {
		return
	}
	if _, ok := any(got).(string); ok {
		t.Errorf("%s:\n got %s\nwant %s", what, fmt.Sprintf("%q", any(got)), fmt.Sprintf("%q", any(want)))
		return
	}
	t.Errorf("%s: got %v, want %v", what, got, want)
}

// Contains reports the parts that text lacks.
func Contains(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, text)
		}
	}
}

// Error reports an error that is not want (errors.Is), whose text lacks one of
// the parts, or has more than one line. A nil want is any error.
func Error(t testing.TB, err, want error, parts ...string) {
	t.Helper()
	if err == nil || want != nil && !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
		return
	}
	Contains(t, "the error", err.Error(), parts...)
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has several lines: %q", err)
	}
}

// Eventually waits until condition holds.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	EventuallyIn(t, Timeout, what, condition)
}

// EventuallyIn is Eventually with another limit, for what takes minutes on a
// busy host.
func EventuallyIn(t testing.TB, timeout time.Duration, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(timeout); !condition(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("timed out waiting: %s", what)
		}
	}
}

// Receive waits for a value from c, or for c to be closed.
func Receive[T any](t testing.TB, what string, c <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-c:
	case <-time.After(Timeout):
		t.Fatalf("timed out waiting: %s", what)
	}
	return value
}

// Endless reads as zeros without end.
type Endless struct{}

func (Endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

var _ io.Reader = Endless{}
