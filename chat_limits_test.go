package zino_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"zino/pkg/zinotest"
	"zino/pkg/zinotest/fakedaemon"
	"zino/proto"
)

// Limits of zino-chat that do not depend on the speed of the host. Times are measured by
// make bench.

// TestChatInit checks what packages allocate before main, and the size of the program. A
// version of a library can fill tables there that the chat never uses.
func TestChatInit(t *testing.T) {
	t.Parallel()
	const limit = 50_000 // allocations; 36,000 in November 2026
	cmd := exec.Command(filepath.Join(bin, "zino-chat"))
	cmd.Env = append(os.Environ(), append(zinotest.CoverEnv(), "GODEBUG=inittrace=1")...)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Fatalf("zino-chat by hand: %v\n%s", err, out)
	}
	packages, sum := 0, 0
	for line := range strings.Lines(string(out)) {
		// init PACKAGE @0.5 ms, 0.03 ms clock, 1 bytes, 1 allocs
		f := strings.Fields(line)
		if len(f) < 11 || f[0] != "init" {
			continue
		}
		n, err := strconv.Atoi(f[9])
		zinotest.Must(t, err)
		packages, sum = packages+1, sum+n
	}
	if packages < 20 || sum > limit {
		t.Errorf("%d packages allocate %d objects before main, at most %d are allowed:\n%s", packages, sum, limit, out)
	}

	const limitMB = 12
	stripped := filepath.Join(t.TempDir(), "zino-chat")
	cmd = exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", stripped, "./services/chat/zino-chat")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	info, err := os.Stat(stripped)
	zinotest.Must(t, err)
	if info.Size() > limitMB*1e6 {
		t.Errorf("zino-chat has %.1f MB, at most %d are allowed", float64(info.Size())/1e6, limitMB)
	}
}

// TestChatRests checks that zino and zino-chat do nothing at all while the chat waits for
// a key, before and after turns, and that turns leave no memory behind.
func TestChatRests(t *testing.T) {
	d := fakedaemon.New(t)
	d.Remove("turn_say") // so that a message for a turn that is ending waits in the chat
	x := zinotest.NewTerminal(t)
	home := zinotest.Dir(t)
	cmd := exec.Command(filepath.Join(bin, "zino"), "--socket", d.Socket)
	cmd.Dir = home
	cmd.Env = append(zinotest.CoverEnv(), "HOME="+home, "XDG_RUNTIME_DIR="+home, "TMPDIR="+home, "PATH="+os.Getenv("PATH"), "TERM=xterm-256color", "LC_ALL=C.UTF-8")
	x.Start(cmd)
	x.Shows("/help")
	chat := childNamed(t, cmd.Process.Pid, "zino-chat")
	rests(t, cmd.Process.Pid, chat)

	const warm, turns, limitMB = 300, 3000, 4
	grown := 0
	for n := 1; n <= turns; n++ {
		x.Type("what is in the oven?\x1b[13u") // Enter, as kitty reports it: it is never a part of a paste
		turn := d.Turn()
		turn.Send(fmt.Sprintf(`{"type":"tool_requested","id":"c%d","name":"bash","input":{"command":"ls oven"}}`, n))
		turn.Send(fmt.Sprintf(`{"type":"tool_started","id":"c%d","name":"bash"}`, n))
		turn.Send(fmt.Sprintf(`{"type":"tool_finished","id":"c%d","name":"bash","ok":true,"duration_ms":3,"result":{"ok":true,"data":{"stdout":%q,"stderr":"","exit_code":0,"timed_out":false}}}`, n, strings.Repeat("a loaf of bread\n", 20)))
		turn.Send(fmt.Sprintf(`{"type":"assistant_final","text":"There are **twenty** loaves, turn %d."}`, n))
		turn.Send(`{"type":"usage","input_tokens":1000,"output_tokens":50,"context_window":200000}`)
		turn.End(proto.TurnDone)
		if n == warm || n == turns {
			x.Shows(fmt.Sprintf("loaves, turn %d.", n))
			grown = residentKB(t, chat) - grown
		}
		if n%100 == 0 {
			x.Written.Reset()
		}
	}
	if grown > limitMB<<10 {
		t.Errorf("zino-chat has grown by %d kB in %d turns", grown, turns-warm)
	}
	rests(t, cmd.Process.Pid, chat)
	x.Type("\x04")
	zinotest.Equal(t, "exit status", x.Exit(), 0)
}

// rests waits until processes have not been scheduled for longer than any ticker of the
// chat would let them.
func rests(t *testing.T, pids ...int) {
	t.Helper()
	const still = 1500 * time.Millisecond
	var before []string
	since := time.Now()
	zinotest.Eventually(t, "the chat rests", func() bool {
		if now := switches(pids); !slices.Equal(now, before) {
			before, since = now, time.Now()
		}
		return time.Since(since) > still
	})
}

// switches lists the threads of processes with the number of times that each has run.
func switches(pids []int) (list []string) {
	for _, pid := range pids {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid)) // the pattern is valid
		for _, file := range files {
			text, _ := os.ReadFile(file) // a thread may end meanwhile
			for line := range strings.Lines(string(text)) {
				if strings.Contains(line, "ctxt_switches") {
					list = append(list, file+" "+strings.TrimSpace(line))
				}
			}
		}
	}
	return list
}

// childNamed waits for the child of a process with a name, and returns its pid.
func childNamed(t *testing.T, pid int, name string) (found int) {
	t.Helper()
	zinotest.Eventually(t, "the process "+name, func() bool {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is valid
		for _, file := range lists {
			list, _ := os.ReadFile(file) // a thread may end meanwhile
			for word := range strings.FieldsSeq(string(list)) {
				if comm, err := os.ReadFile("/proc/" + word + "/comm"); err == nil && strings.TrimSpace(string(comm)) == name {
					found, err = strconv.Atoi(word)
					return err == nil
				}
			}
		}
		return false
	})
	return found
}

// residentKB returns the resident set of a process.
func residentKB(t *testing.T, pid int) int {
	t.Helper()
	for line := range strings.Lines(zinotest.Read(t, fmt.Sprintf("/proc/%d/status", pid))) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			zinotest.Must(t, err)
			return kb
		}
	}
	t.Fatalf("no resident set of process %d", pid)
	return 0
}
