package exc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"zino/pkg/config"
	"zino/proto"
)

// disarming is code that keeps its supervisor from ending what it leaves. A
// daemon says that it is up, and the code goes on with what comes after it.
var disarming = map[string]string{
	"files taken": `SUP=$PPID python3 -c 'import os, resource
resource.prlimit(int(os.environ["SUP"]), resource.RLIMIT_NOFILE, (0, 0))'
`,
	"stopped again and again": `(trap '' TERM HUP; P=$PPID; while kill -STOP $P; do :; done) 2>/dev/null &
`,
	"killed": `kill -9 $PPID
`,
}

// disarm is code that leaves a daemon behind and disarms its supervisor.
func disarm(way string) string {
	return daemons["deaf"] + waitUp + "echo up\n" + disarming[way]
}

// withGroups leaves a service its control groups, if it has any, or takes them.
func (s *service) withGroups(t *testing.T, grouped bool) {
	t.Helper()
	if grouped || s.sandbox.tree == nil {
		return
	}
	if err := s.sandbox.close(); err != nil {
		t.Fatal(err)
	}
	s.sandbox.tree, s.sandbox.noTree = nil, errors.New("taken away by the test")
}

// Code that disarms its supervisor leaves nothing behind either, with a control
// group and without.
func TestNothingSurvivesDisarming(t *testing.T) {
	for way := range disarming {
		for _, grouped := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, grouped %v", way, grouped), func(t *testing.T) {
				marked := mark(t)
				upFile(t)
				s := newService(t, func(c *config.Exc) { c.Timeout = 1 }, nil)
				s.withGroups(t, grouped)
				r, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Code: disarm(way) + "sleep 1000"})
				if want := way != "killed"; err != nil || r.TimedOut != want || r.ExitCode != -1 || r.Stdout != "up\n" {
					t.Errorf("got %+v, %v", r, err)
				}
				if left := marked(); len(left) > 0 {
					t.Errorf("still there: %q", left)
				}
			})
		}
	}
}

// A supervisor that can open nothing more still ends all and tells how it went.
func TestSupervisorWithoutFiles(t *testing.T) {
	for _, grouped := range []bool{true, false} {
		marked := mark(t)
		upFile(t)
		s := newService(t, nil, nil)
		s.withGroups(t, grouped)
		want := proto.Result{ExitCode: 5, Stdout: "up\n"}
		if got := s.run(t, "bash", disarm("files taken")+"exit 5"); got != want {
			t.Errorf("grouped %v: got %+v, want %+v", grouped, got, want)
		}
		if left := marked(); len(left) > 0 {
			t.Errorf("grouped %v: still there: %q", grouped, left)
		}
	}
}

// Whoever hangs up on code that disarms its supervisor leaves nothing either.
func TestNothingSurvivesDisarmingAndHangingUp(t *testing.T) {
	marked := mark(t)
	up := upFile(t)
	s := newService(t, nil, nil)
	s.withGroups(t, false)
	s.leave(t, up, disarm("stopped again and again")+"sleep 1000")
	if left := marked(); len(left) > 0 {
		t.Errorf("still there: %q", left)
	}
}

// What is left by a run is ended; other runs, and what else this process
// started, go on.
func TestOnlyOrphansAreEnded(t *testing.T) {
	upFile(t)
	s := newService(t, nil, nil)
	s.withGroups(t, false)
	bystander := exec.Command("sleep", "1000")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer bystander.Wait()
	defer bystander.Process.Kill()
	pipe := s.dir + "/go on"
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	other := make(chan proto.Result)
	go func() {
		r, _ := s.execute(t.Context(), proto.Execute{Executor: "bash", Code: "(cat '" + pipe + "' | cat; setsid true) & wait; echo end"})
		other <- r
	}()
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // when the other is there
	if err != nil {
		t.Fatal(err)
	}
	if r := s.run(t, "bash", disarm("killed")); r.ExitCode != -1 {
		t.Errorf("got %+v", r)
	}
	fmt.Fprint(w, "went on, ")
	w.Close()
	if r := <-other; r.Stdout != "went on, end\n" || r.ExitCode != 0 {
		t.Errorf("the other: %+v", r)
	}
	if err := bystander.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the bystander: %v", err)
	}
}

// Children are found without /proc.
func TestEachChild(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found := map[int]bool{}
	eachChild(func(pid int) { found[pid] = true })
	if !found[cmd.Process.Pid] || found[os.Getpid()] || found[os.Getppid()] {
		t.Errorf("found %v, the child is %d", found, cmd.Process.Pid)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if isChild(cmd.Process.Pid) {
		t.Error("it is over")
	}
}
