package exc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
)

// daemons are ways to start a process that outlives its script. Each makes the file
// $UP when it is running, and the script waits for it.
var daemons = map[string]string{
	"background":  `(touch "$UP"; exec sleep 1000) &`,
	"silent":      `(touch "$UP"; exec sleep 1000) >/dev/null 2>&1 </dev/null &`,
	"setsid":      `setsid bash -c 'touch "$UP"; exec sleep 1000' &`,
	"double fork": `(setsid bash -c '(touch "$UP"; exec sleep 1000) & exit' &)`,
	"deaf":        `setsid bash -c 'trap "" TERM HUP INT; touch "$UP"; while :; do sleep 1000; done' &`,
	"changed":     `setsid bash -c 'cd /; exec -a harmless bash -c "touch $UP; sleep 1000; :"' &`,
	"tree":        `for i in 1 2 3; do (for j in 1 2 3; do (sleep 1000; :) & done; setsid sleep 1000 & wait) & done; touch "$UP"`,
	"respawning":  `respawn() { trap 'respawn & exit' TERM; touch "$UP"; sleep 1000 & wait; }; respawn &`,
}

// waitUp waits for the daemon of a script.
const waitUp = "\nwhile [ ! -e \"$UP\" ]; do sleep 0.01; done\n"

// upFile sets $UP to a file of the test.
func upFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(zinotest.Dir(t), "up")
	t.Setenv("UP", file)
	return file
}

// groupings are runs with a control group and without.
var groupings = []bool{true, false}

// withGroups leaves a service its control groups, if it has any, or removes them.
func (s *service) withGroups(t *testing.T, grouped bool) {
	t.Helper()
	if grouped || s.host.tree == nil {
		return
	}
	zinotest.Must(t, s.host.close())
	s.host.tree, s.host.noTree = nil, errors.New("removed by the test")
}

func TestNothingSurvivesReply(t *testing.T) {
	for name, code := range daemons {
		for _, grouped := range groupings {
			t.Run(fmt.Sprintf("%s, grouped %v", name, grouped), func(t *testing.T) {
				marked := mark(t)
				upFile(t)
				s := newService(t, nil, nil)
				s.withGroups(t, grouped)
				want := proto.Result{ExitCode: 5, Stdout: "end\n"}
				if got := s.run(t, "bash", code+waitUp+"echo end; exit 5"); got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
				s.mustLeaveNothing(t, marked)
			})
		}
	}
}

// start runs code that sleeps, until ctx is done, and returns when the file up
// exists. answer receives an error unless the result is that of an interrupted run
// which has printed stdout.
func (s *service) start(ctx context.Context, t *testing.T, up, code, stdout string) (answer chan error) {
	t.Helper()
	answer = make(chan error, 1)
	go func() {
		r, err := s.execute(ctx, proto.Execute{Executor: "bash", Code: code + waitUp + "sleep 1000"})
		answer <- errors.Join(err, interruptedAfter(stdout, r))
	}()
	zinotest.Eventually(t, "the command is up", func() bool { return exists(up) })
	return answer
}

// interruptedAfter checks that r is the result of an interrupted run with that
// output.
func interruptedAfter(stdout string, r proto.Result) error {
	if !r.Interrupted || r.Stdout != stdout || r.ExitCode == 0 || r.TimedOut {
		return fmt.Errorf("not an interrupted run's result: %+v", r)
	}
	return nil
}

func TestNothingSurvivesCaller(t *testing.T) {
	for name, code := range daemons {
		t.Run(name, func(t *testing.T) {
			marked := mark(t)
			up := upFile(t)
			s := newService(t, nil, nil)
			ctx, hangUp := context.WithCancel(t.Context())
			answer := s.start(ctx, t, up, code, "")
			hangUp()
			zinotest.Must(t, <-answer)
			s.mustLeaveNothing(t, marked)
		})
	}
}

func TestNothingSurvivesClose(t *testing.T) {
	marked := mark(t)
	up := upFile(t)
	s := newService(t, nil, nil)
	answer := s.start(context.Background(), t, up, "echo so far;"+daemons["setsid"], "so far\n")
	zinotest.Must(t, errors.Join(s.Close(), s.Close()))
	s.mustLeaveNothing(t, marked)
	zinotest.Equal(t, "the workspace is left", exists(s.files.dir), false)
	zinotest.Must(t, <-answer)
	_, err := s.execute(t.Context(), proto.Execute{Executor: "bash"})
	zinotest.Error(t, err, proto.ErrUnavailable)
}

func TestNoZombies(t *testing.T) {
	s := newService(t, nil, nil)
	for range 5 {
		s.run(t, "bash", "(sleep 0 &) & exit 3")
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Fatalf("%d processes, %v", len(stats), err)
	}
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // gone meanwhile
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if strings.HasPrefix(rest, fmt.Sprintf("Z %d ", os.Getpid())) {
			t.Errorf("a zombie: %s", stat)
		}
	}
}

// Code that kills its supervisor is killed with it, and the result says so. With a
// control group no process is left. Without one, the descendants of the command stay:
// the level off gives up on them.
func TestSupervisorKilled(t *testing.T) {
	marked := mark(t)
	s := newService(t, nil, nil)
	want := proto.Result{ExitCode: -1, Stdout: "before\n", Stderr: "The supervisor of this run was killed, and bash with it."}
	if s.host.tree != nil {
		for range 10 {
			code := "sleep 1000 & set -m; setsid sleep 1000 & echo before; kill -9 $PPID; sleep 1000"
			if r := s.run(t, "bash", code); r != want {
				t.Errorf("got %+v", r)
			}
		}
		s.mustLeaveNothing(t, marked)
	}
	s.withGroups(t, false)
	pipe := s.dir + "/end"
	zinotest.Must(t, syscall.Mkfifo(pipe, 0o600))
	if r := s.run(t, "bash", "setsid cat '"+pipe+"' >/dev/null & echo before; kill -9 $PPID; while :; do :; done"); r != want {
		t.Errorf("got %+v", r)
	}
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // when cat reads it
	zinotest.Must(t, err)
	t.Logf("GIVEN UP at the level off without a control group: %d processes stay", len(marked()))
	w.Close() // which ends them
	zinotest.Eventually(t, "no process is left", func() bool { return len(marked()) == 0 })
}

// A supervisor ignores the signals that can be ignored.
func TestSupervisorIgnoresSignals(t *testing.T) {
	s := newService(t, nil, nil)
	code := `until grep -q zino-exc-run /proc/$PPID/comm; do :; done
		for s in TERM INT HUP QUIT; do kill -$s $PPID; done; echo on`
	if r := s.run(t, "bash", code); r != (proto.Result{Stdout: "on\n"}) {
		t.Errorf("got %+v", r)
	}
}

// Processes that fork as fast as they can are all killed.
func TestForkingCrowd(t *testing.T) {
	for _, grouped := range groupings {
		marked := mark(t)
		s := newService(t, func(c *config.Exc) { c.Timeout = 0.3 }, nil)
		s.withGroups(t, grouped)
		code := "crowd() { crowd & }; for i in 1 2 3 4; do crowd & done; sleep 1000"
		if r := s.run(t, "bash", code); !r.TimedOut {
			t.Errorf("grouped %v: got %+v", grouped, r)
		}
		s.mustLeaveNothing(t, marked)
	}
}
