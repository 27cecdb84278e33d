package exc

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
)

// stubborn is a server that leaves its supervisor's session in three ways, and then waits.
const stubborn = `
(setsid sh -c '(sleep 1000) & exit' &)
setsid sleep 1000 &
sh -c 'sleep 1000 & sleep 1000' &
: >"$UP"
cat >/dev/null
sleep 1000`

// killRounds is how often each process is killed; ZINO_KILL_ROUNDS changes it.
func killRounds() int {
	if n, err := strconv.Atoi(os.Getenv("ZINO_KILL_ROUNDS")); err == nil {
		return n
	}
	return 3
}

// survivors checks that the processes that marked lists end, and returns how long that took.
func survivors(t *testing.T, marked func() []string) (took time.Duration) {
	t.Helper()
	began := time.Now()
	zinotest.Eventually(t, "no process is left", func() bool { return len(marked()) == 0 })
	return time.Since(began)
}

// piper opens a pipe on the socket args[0], and blocks.
func piper(args []string) error {
	c := &rpc.Client{Service: "exc", Path: args[0]}
	_, err := rpc.CallEvents(context.Background(), c, proto.ExcPipe, proto.Pipe{
		Argv: []string{"sh", "-c", stubborn}, Env: map[string]string{"UP": args[1], markEnv: args[2]},
	}, func(string, []byte) error { return nil })
	return err
}

// TestKilledPipe kills the caller of a pipe, then exc, again and again: nothing of the
// program is left.
func TestKilledPipe(t *testing.T) {
	dir := zinotest.Dir(t)
	writeTools(t, dir, tools)
	zinotest.Must(t, zinotest.Build(dir, "./zino-exc"))
	marked := mark(t)
	value := os.Getenv(markEnv)
	zinotest.Must(t, os.Unsetenv(markEnv))
	var longest time.Duration
	for round := range 2 * killRounds() {
		p, _ := program(t, filepath.Join(dir, "zino-exc"), dir, nil)
		up := filepath.Join(dir, fmt.Sprint("up", round))
		caller := zinotest.Start(t, zinotest.Command(t, "piper", filepath.Join(dir, "s"), up, value))
		p.Eventually("the program is up", func() bool { return exists(up) })
		victim := caller
		if round%2 == 1 {
			victim = p
		}
		victim.Kill()
		longest = max(longest, survivors(t, marked))
		caller.Kill()
		p.Kill()
	}
	t.Logf("%d rounds: the last process was gone %v after the SIGKILL, at most", 2*killRounds(), longest)
}

// TestKilledPipeSupervisor kills each supervisor of a program: nothing of it is left, with
// a control group or without.
func TestKilledPipeSupervisor(t *testing.T) {
	for _, grouped := range groupings {
		for _, level := range []proto.Level{proto.LevelOff, proto.LevelWorkspaceWrite, levelLandlock} {
			t.Run(fmt.Sprintf("%s, grouped %v", level, grouped), func(t *testing.T) {
				marked := mark(t)
				a := newHarness(t, nil)
				a.withGroups(t, grouped)
				if level != proto.LevelOff && !a.available(t, level) {
					return
				}
				c := a.dial(t)
				var longest time.Duration
				killed := 0
				for round := 0; round < killRounds(); {
					up := filepath.Join(a.root, fmt.Sprint("up", round))
					req := proto.Pipe{Argv: []string{"sh", "-c", stubborn}, Root: a.root, Env: map[string]string{"UP": up, markEnv: os.Getenv(markEnv)}}
					if req.Sandbox = proto.LevelOff; level != proto.LevelOff {
						req.Sandbox = a.at(level)
					}
					_, end := open(t.Context(), t, c, req)
					zinotest.Eventually(t, "the program is up", func() bool { return exists(up) })
					list := supervisors(os.Getenv(markEnv))
					if len(list) == 0 {
						t.Fatalf("no supervisor among %q", marked())
					}
					zinotest.Must(t, syscall.Kill(list[killed%len(list)], syscall.SIGKILL))
					longest = max(longest, survivors(t, marked))
					e := zinotest.Receive(t, "the end", end)
					if e.err != nil || e.ExitCode != -1 {
						t.Errorf("%+v", e)
					}
					zinotest.Must(t, os.Remove(up))
					if killed++; killed%len(list) == 0 {
						round++
					}
				}
				t.Logf("%d kills: the last process was gone %v after the SIGKILL, at most", killed, longest)
			})
		}
	}
}

// supervisors are the processes that supervise programs with that mark, and their guards.
func supervisors(mark string) (pids []int) {
	for pid, line := range zinotest.CommandLines() {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && strings.Contains(line, "--zino-exc-") && !strings.Contains(line, "--zino-exc-restrict") && strings.Contains(string(env), "+"+markEnv+"="+mark+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}
