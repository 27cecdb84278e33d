// Package zino_test tests the tree as a whole: end-to-end scripts on the real
// binaries (testdata/script), the commands of the documentation, killed
// processes, full disks, and the rules of imports.
package zino_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
)

// bin is the directory of the binaries under test, built once for all tests.
var bin string

func TestMain(m *testing.M) {
	zinotest.Child(zinotest.Roles{"disk": useDisk, "server": serveHold})
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "zb")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin = filepath.Join(dir, "bin")
	share := filepath.Join(dir, "share", "zino")
	err = errors.Join(
		zinotest.Build(bin, "./services/...", "./pkg/fakellm/fakellm"),
		os.CopyFS(filepath.Join(share, "tools"), os.DirFS("tools")),
	)
	for _, name := range []string{"SYSTEM.md", "SESSION.md"} {
		text, readErr := os.ReadFile(name)
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(share, name), text, 0o644))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status := m.Run()
	if left := zinotest.Processes(bin); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "processes were left behind: %v\n", left)
		return 1
	}
	return status
}

// TestScripts runs every script of testdata/script: prose, a command, and its
// expected output.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   "testdata/script",
		Setup: setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"provider": provider, "requests": requests, "gate": gate,
			"waitfor": waitFor, "service": signalService,
		},
		RequireExplicitExec: true,
	})
}

// world is the state of a script besides its files.
type world struct {
	runtime  string // XDG_RUNTIME_DIR
	provider *fakellm.Server
}

type worldKey struct{}

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

// setup creates an empty home and a runtime directory with a short name for a script,
// whose environment has no keys. The runtime directory must be empty when the script
// ends.
func setup(env *testscript.Env) error {
	runtime, err := os.MkdirTemp("", "z")
	if err != nil {
		return err
	}
	env.Values[worldKey{}] = &world{runtime: runtime}
	env.Defer(func() {
		defer os.RemoveAll(runtime)
		var left []string
		err := filepath.WalkDir(runtime, func(path string, _ fs.DirEntry, err error) error {
			left = append(left, path)
			return err
		})
		if err != nil || len(left) > 1 {
			env.T().Fatal(fmt.Sprintf("left in the runtime directory: %v, error %v", left, err))
		}
	})
	tree, err := os.Getwd()
	if err != nil {
		return err
	}
	env.Vars = append(env.Vars, zinotest.CoverEnv()...)
	env.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
	env.Setenv("XDG_RUNTIME_DIR", runtime)
	env.Setenv("TREE", tree)
	env.Setenv("R", filepath.Join(runtime, "zino"))
	return os.Mkdir(filepath.Join(env.WorkDir, "home"), 0o700)
}

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

// requests writes the bodies of the requests to the provider, one per line:
// requests FILE.
func requests(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "requests FILE")
	var all bytes.Buffer
	for _, r := range worldOf(ts).provider.Requests() {
		all.Write(append(bytes.TrimSpace(r.Body), '\n'))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), all.Bytes(), 0o600))
}

// gate releases the provider's turns that wait for a gate: gate NAME.
func gate(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "gate NAME")
	worldOf(ts).provider.Open(args[0])
}

// waitFor waits for a condition:
//
//	waitfor listening SOCKET
//	waitfor text FILE TEXT
//	waitfor asked N         the provider has had N requests
//	waitfor gone            the client of the provider's last request hung up
//	waitfor ended TEXT      no process has TEXT in its command line
//	waitfor nothing         no process of this script's services is left
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) > 0, "waitfor listening SOCKET | text FILE TEXT | asked N | gone | ended TEXT | nothing")
	w := worldOf(ts)
	var condition func() bool
	switch {
	case args[0] == "listening" && len(args) == 2:
		condition = func() bool {
			nc, err := net.Dial("unix", args[1])
			if err == nil {
				nc.Close()
			}
			return err == nil
		}
	case args[0] == "text" && len(args) == 3:
		condition = func() bool {
			data, err := os.ReadFile(ts.MkAbs(args[1]))
			return err == nil && bytes.Contains(data, []byte(args[2]))
		}
	case args[0] == "asked" && len(args) == 2:
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		condition = func() bool { return len(w.provider.Requests()) >= n }
	case args[0] == "gone":
		condition = func() bool {
			all := w.provider.Requests()
			return len(all) > 0 && all[len(all)-1].IsGone()
		}
	case args[0] == "ended" && len(args) == 2:
		condition = func() bool { return len(zinotest.Processes(args[1])) == 0 }
	case args[0] == "nothing":
		condition = func() bool { return len(zinotest.Processes(w.runtime+"/")) == 0 }
	default:
		ts.Fatalf("waitfor: unknown condition %v", args)
	}
	await(ts, strings.Join(args, " "), condition)
}

func await(ts *testscript.TestScript, what string, condition func() bool) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(zinotest.Timeout); !condition(); {
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("timed out waiting: %s", what)
		}
	}
}

var signals = map[string]syscall.Signal{"KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP}

// signalService sends a signal to a process of this script and waits, after
// KILL, until it is gone: service KILL zino-mem, or: service KILL "zino up".
func signalService(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2 && signals[args[0]] != 0, "service SIGNAL NAME")
	runtime := worldOf(ts).runtime
	for pid, line := range zinotest.CommandLines() {
		if !strings.Contains(line, bin) || !strings.Contains(line, "/"+args[1]+" ") || !strings.Contains(line, runtime) {
			continue
		}
		ts.Check(syscall.Kill(pid, signals[args[0]]))
		if args[0] == "KILL" {
			await(ts, "the end of "+line, func() bool { return zinotest.Gone(pid) })
		}
		return
	}
	ts.Fatalf("no process %s among %v", args[1], zinotest.Processes(runtime))
}

func usage(ts *testscript.TestScript, neg, ok bool, text string) {
	if neg || !ok {
		ts.Fatalf("usage: %s", text)
	}
}

// program returns a command that runs a binary under test with the environment env.
func program(env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, name), args...)
	cmd.Env = append(append([]string{"PATH=" + os.Getenv("PATH")}, zinotest.CoverEnv()...), env...)
	return cmd
}
