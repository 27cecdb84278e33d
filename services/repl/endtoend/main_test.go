// Package endtoend_test tries the whole file REPL as people use it: the real
// binaries, a real browser, real editors, and an agent whose model is scripted.
// What a part does by itself is tried beside that part.
//
//	go test ./services/repl/endtoend -args -keep DIR
//
// leaves the agent's transcript and pictures of the pages in DIR, for a person
// to look at.
package endtoend_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	update  = flag.Bool("update", false, "write the golden transcript anew")
	keepDir = flag.String("keep", "", "a directory for the transcript and for pictures")
)

// patience is how long a test waits for something to become true. It bounds a
// test that hangs; nothing is measured with it.
const patience = 60 * time.Second

var (
	base string // a short directory for everything: paths of sockets are limited
	bin  string // where the binaries under test are built, once for all tests
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) (status int) {
	var err error
	if base, err = os.MkdirTemp("", "zr"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := os.RemoveAll(base); err != nil {
			fmt.Fprintln(os.Stderr, "something is left behind:", err)
			status = 1
		}
	}()
	bin = filepath.Join(base, "bin")
	// Without symbols: linking takes half as long.
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin+"/", "zino/services/...").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "the binaries do not build: %v\n%s", err, out)
		return 1
	}
	if err := os.CopyFS(filepath.Join(base, "share", "zino", "tools"), os.DirFS("../../../tools")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status = m.Run()
	if chromium.close != nil {
		chromium.close()
	}
	if left := lasting(base); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "processes were left behind: %q\n", left)
		status = 1
	}
	return status
}

// lasting lists the processes that do not end by themselves: those of the browser
// go one after the other.
func lasting(part string) (left []string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		if left = processes(part); len(left) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-late:
			return left
		}
	}
}

// processes lists the command lines of live processes that hold a text.
func processes(part string) (list []string) {
	entries, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return []string{err.Error()}
	}
	for _, entry := range entries {
		line, err := os.ReadFile(entry)
		if err == nil && strings.Contains(string(line), part) { // else it has just ended
			list = append(list, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return list
}

// keep writes what a person may want to look at, if a directory was named.
func keep(t *testing.T, name string, data []byte) {
	t.Helper()
	if *keepDir != "" {
		must(t, os.MkdirAll(*keepDir, 0o755))
		must(t, os.WriteFile(filepath.Join(*keepDir, name), data, 0o644))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
