package jobs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/exc/cgroup"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestJobEnds(t *testing.T) {
	e := open(t, nil)
	for _, tt := range []struct {
		command string
		code    int
		texts   string
	}{
		{"echo out; echo err >&2; exit 7", 7, "out\n|err\n"},
		{"kill -9 $$", -9, "|"},
		{"printf 'a\\377'; pwd", 0, "a\uFFFD/\n|"},
		{"(sleep 0.05; echo late) & echo early", 0, "early\nlate\n|"}, // what it leaves counts as the job
		{":", 0, "|"},
	} {
		job := e.start(t, tt.command)
		state := wait(t, job)
		if state.State != proto.JobExited || state.ExitCode == nil || *state.ExitCode != tt.code || texts(t, job) != tt.texts {
			t.Errorf("%s: %+v, %q", tt.command, state, texts(t, job))
		}
		if _, err := os.Stat(filepath.Join(e.dir, socketDir, job.ID())); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the control socket is left: %v", tt.command, err)
		}
	}
}

// TestJobStops checks that nothing of a command is left after a stop, however it has
// started its processes, with a control group and without.
func TestJobStops(t *testing.T) {
	for name, command := range map[string]string{
		"plain":       "echo up; sleep MARK",
		"setsid":      "setsid sleep MARK & echo up; wait",
		"double fork": "(setsid sh -c '(sleep MARK; :) & exit' &); echo up",
		"deaf":        "trap '' TERM HUP; echo up; while :; do sleep MARK; done",
		"fork bomb":   "for i in 1 2 3 4 5 6 7 8; do (while :; do sleep MARK & sleep 0.01; done) & done; echo up; wait",
	} {
		for _, grouped := range []bool{true, false} {
			t.Run(name+" "+strconv.FormatBool(grouped), func(t *testing.T) {
				e := open(t, nil)
				if !grouped && e.tree != nil {
					zinotest.Must(t, e.tree.Close())
					e.tree = nil
				}
				mark := "1" + itoa(os.Getpid()) + itoa(int(name[0])) + itoa(len(name)) // seconds: no other process sleeps so long
				job := e.start(t, strings.ReplaceAll(command, "MARK", mark), func(s *Spec) { s.Tasks = 200 })
				zinotest.Eventually(t, "the command is up", func() bool { return strings.HasPrefix(texts(t, job), "up") && len(processes(mark)) > 0 })
				zinotest.Must(t, job.Stop(t.Context()))
				if left := processes(mark); len(left) > 0 {
					t.Errorf("left: %q", left)
				}
				if state := job.State(); state.State != proto.JobExited || !state.Stopped {
					t.Errorf("state %+v", state)
				}
				if unlimited := slices.Contains(job.Record().Unlimited, cgroup.Tasks); !grouped && !unlimited {
					t.Error("it does not say that nothing enforces the limit")
				}
			})
		}
	}
}

// TestJobOutlivesExc kills the process that started a job: another one finds it, and
// its end.
func TestJobOutlivesExc(t *testing.T) {
	dir := zinotest.Dir(t)
	fifo := filepath.Join(dir, "fifo")
	zinotest.Must(t, syscall.Mkfifo(fifo, 0o600))
	p := zinotest.Start(t, zinotest.Command(t, "start", dir, "echo before; read line <"+fifo+"; echo $line; exit 3"))
	p.WaitFor("started j-")
	p.Kill()
	e := openAt(t, dir, nil)
	list := e.list("")
	if len(list) != 1 || list[0].Ended() {
		t.Fatalf("found %d jobs", len(list))
	}
	job := list[0]
	zinotest.Eventually(t, "its output is read", func() bool { return texts(t, job) == "before\n|" })
	zinotest.Must(t, os.WriteFile(fifo, []byte("after\n"), 0o600))
	if state := wait(t, job); *state.ExitCode != 3 || texts(t, job) != "before\nafter\n|" {
		t.Errorf("%+v, %q", state, texts(t, job))
	}
	if info := job.Info(); info.Command == "" || info.SessionID != "s1" || info.Started == "" || info.Ended == "" {
		t.Errorf("info %+v", info)
	}
}

// TestSupervisorKilled checks that a job without its supervisor is lost, and leaves
// no process.
func TestSupervisorKilled(t *testing.T) {
	e := open(t, nil)
	job := e.start(t, "echo up; setsid sleep 987651 & sleep 987651")
	zinotest.Eventually(t, "the command is up", func() bool { return texts(t, job) == "up\n|" && len(processes("sleep 987651")) >= 2 })
	zinotest.Must(t, syscall.Kill(supervisorOf(t, job), syscall.SIGKILL))
	if state := wait(t, job); state.State != proto.JobLost || state.ExitCode != nil {
		t.Errorf("state %+v", state)
	}
	zinotest.Eventually(t, "no process is left", func() bool { return len(processes("sleep 987651")) == 0 })
	if got := texts(t, job); got != "up\n|" {
		t.Errorf("output %q", got)
	}
}

// TestUnitStops checks that a job was stopped if its command gets the signal of the host
// first, and was not if only the command gets one.
func TestUnitStops(t *testing.T) {
	e := open(t, nil)
	mark := "sleep 2" + itoa(os.Getpid()) // no other process sleeps so long
	for _, host := range []bool{true, false} {
		job := e.start(t, "exec "+mark)
		command := 0
		zinotest.Eventually(t, "the command is up", func() bool {
			for pid, line := range zinotest.CommandLines() {
				if strings.HasPrefix(line, mark) {
					command = pid
				}
			}
			return command > 0
		})
		supervisor := supervisorOf(t, job)
		zinotest.Must(t, syscall.Kill(supervisor, syscall.SIGSTOP))
		defer syscall.Kill(supervisor, syscall.SIGCONT) // also if the test fails here
		zinotest.Must(t, syscall.Kill(command, syscall.SIGTERM))
		if host {
			zinotest.Must(t, syscall.Kill(supervisor, syscall.SIGTERM))
		}
		zinotest.Must(t, syscall.Kill(supervisor, syscall.SIGCONT))
		if state := wait(t, job); *state.ExitCode != -15 || state.Stopped != host {
			t.Errorf("host %v: %+v", host, state)
		}
	}
}

// TestLifeline checks that all jobs end when the other end of the lifeline is closed.
func TestLifeline(t *testing.T) {
	e := open(t, nil)
	one, two := e.start(t, "sleep 987652"), e.start(t, "setsid sleep 987652 & wait")
	e.end.Close()
	for _, job := range []*Job{one, two} {
		if state := wait(t, job); state.State != proto.JobExited || !state.Stopped {
			t.Errorf("state %+v", state)
		}
	}
	if left := processes("sleep 987652"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
