package zino_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"zino/pkg/fakellm"
)

// patience is how long a script waits for something to become true. It bounds
// a test that hangs; nothing is measured with it.
const patience = 20 * time.Second

// world is what a script has besides its files.
type world struct {
	runtime  string // XDG_RUNTIME_DIR
	provider *fakellm.Server
}

type worldKey struct{}

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

// provider starts a scripted provider: provider FILE. $BASE_URL names it.
func provider(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "provider FILE")
	turns, err := fakellm.Parse(ts.ReadFile(args[0]))
	ts.Check(err)
	server := fakellm.New(turns...)
	ts.Defer(server.Close)
	ts.Setenv("BASE_URL", server.URL)
	worldOf(ts).provider = server
}

// requests writes the bodies that the provider has been sent, a line each:
// requests FILE.
func requests(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "requests FILE")
	var all bytes.Buffer
	for _, r := range worldOf(ts).provider.Requests() {
		all.Write(append(bytes.TrimSpace(r.Body), '\n'))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), all.Bytes(), 0o600))
}

// gate lets the provider's turns that wait for a gate go on: gate NAME.
func gate(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "gate NAME")
	worldOf(ts).provider.Open(args[0])
}

// waitFor waits until something has become true:
//
//	waitfor listening SOCKET
//	waitfor text FILE TEXT
//	waitfor asked N         the provider has had N requests
//	waitfor gone            the client of the provider's last request hung up
//	waitfor ended TEXT      no process has TEXT in its command line
//	waitfor nothing         no process of this script's services is left
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) > 0, "waitfor listening SOCKET | text FILE TEXT | asked N | gone | ended TEXT | nothing")
	condition := conditionOf(ts, args)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); !condition(); {
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("waited in vain for: %s", strings.Join(args, " "))
		}
	}
}

func conditionOf(ts *testscript.TestScript, args []string) func() bool {
	w := worldOf(ts)
	switch {
	case args[0] == "listening" && len(args) == 2:
		return func() bool { return dials(args[1]) }
	case args[0] == "text" && len(args) == 3:
		return func() bool {
			data, err := os.ReadFile(ts.MkAbs(args[1]))
			return err == nil && bytes.Contains(data, []byte(args[2]))
		}
	case args[0] == "asked" && len(args) == 2:
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		return func() bool { return len(w.provider.Requests()) >= n }
	case args[0] == "gone":
		return func() bool {
			all := w.provider.Requests()
			return len(all) > 0 && all[len(all)-1].IsGone()
		}
	case args[0] == "ended" && len(args) == 2:
		return func() bool { return len(processes(args[1])) == 0 }
	case args[0] == "nothing":
		return func() bool { return len(processes(w.runtime+"/")) == 0 }
	}
	ts.Fatalf("waitfor: no such condition: %v", args)
	return nil
}

func dials(socket string) bool {
	nc, err := net.Dial("unix", socket)
	if err == nil {
		nc.Close()
	}
	return err == nil
}

var signals = map[string]syscall.Signal{"KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT}

// signalService sends a signal to a process of this script and waits, after
// KILL, until it is gone: service KILL zino-mem, or: service KILL "zino up".
func signalService(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2 && signals[args[0]] != 0, "service SIGNAL NAME")
	for pid, line := range commandLines() {
		if !strings.Contains(line, bin) || !strings.Contains(line, "/"+args[1]+" ") || !strings.Contains(line, worldOf(ts).runtime) {
			continue
		}
		ts.Check(syscall.Kill(pid, signals[args[0]]))
		if args[0] == "KILL" {
			awaitEnd(ts, pid)
		}
		return
	}
	ts.Fatalf("no process %s among %v", args[1], processes(worldOf(ts).runtime))
}

func awaitEnd(ts *testscript.TestScript, pid int) {
	for deadline := time.Now().Add(patience); commandLines()[pid] != ""; {
		if time.Now().After(deadline) {
			ts.Fatalf("process %d does not end", pid)
		}
	}
}

// commandLines lists the live processes by pid, words divided by blanks.
func commandLines() map[int]string {
	lines := map[int]string{}
	entries, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return lines
	}
	for _, entry := range entries {
		data, err := os.ReadFile(entry)
		pid, pidErr := strconv.Atoi(filepath.Base(filepath.Dir(entry)))
		if err == nil && pidErr == nil && len(data) > 0 { // a zombie's is empty
			lines[pid] = strings.ReplaceAll(string(data), "\x00", " ")
		}
	}
	return lines
}

func usage(ts *testscript.TestScript, neg, ok bool, text string) {
	if neg || !ok {
		ts.Fatalf("usage: %s", text)
	}
}

// setup gives a script an empty home, a runtime directory of its own with a
// short name, and no key in its environment. When the script has ended,
// nothing may be left in the runtime directory and no process behind it.
func setup(env *testscript.Env) error {
	runtime, err := os.MkdirTemp("", "z")
	if err != nil {
		return err
	}
	env.Values[worldKey{}] = &world{runtime: runtime}
	env.Defer(func() {
		defer os.RemoveAll(runtime)
		left, err := os.ReadDir(runtime)
		if err != nil || len(left) > 0 {
			env.T().Fatal(fmt.Sprintf("left in the runtime directory: %v, error %v", left, err))
		}
	})
	tree, err := os.Getwd()
	if err != nil {
		return err
	}
	env.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
	env.Setenv("XDG_RUNTIME_DIR", runtime)
	env.Setenv("TREE", tree)
	env.Setenv("R", filepath.Join(runtime, "zino"))
	return os.Mkdir(filepath.Join(env.WorkDir, "home"), 0o700)
}
