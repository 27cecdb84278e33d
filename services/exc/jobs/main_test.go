package jobs

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zino/pkg/mask"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/exc/cgroup"
	"zino/services/exc/run"
)

func TestMain(m *testing.M) {
	run.Supervise()
	if len(os.Args) == 2 && os.Args[1] == Flag {
		Main()
	}
	zinotest.Child(zinotest.Roles{"start": startOne})
	os.Exit(m.Run())
}

// startOne starts a job like an exc that is killed afterwards: its arguments are the
// directory of the test and the command.
func startOne(args []string) error {
	j, err := openIn(args[0], nil, new(zinotest.Buffer))
	if err != nil {
		return err
	}
	job, err := j.Start(context.Background(), spec(args[1]))
	if err != nil {
		return err
	}
	os.Stderr.WriteString("started " + job.ID() + "\n")
	select {}
}

// env is jobs in a directory of the test's own.
type env struct {
	*Jobs
	dir string
	log *zinotest.Buffer
	end *os.File // the write end of the lifeline
}

// openIn opens the jobs below dir.
func openIn(dir string, change func(*Config), log *zinotest.Buffer) (*Jobs, error) {
	cfg := Config{
		Mask: func(*proto.Masking) (*mask.Masker, error) { return nil, nil },
		Dir:  dir + "/jobs", Runtime: dir, Linger: time.Hour, MaxAge: time.Hour, Orphan: time.Hour,
		OutputMax: 1 << 20, OutputBytes: 64 << 10,
	}
	if change != nil {
		change(&cfg)
	}
	tree, err := cgroup.Open()
	if err != nil {
		tree = nil
	}
	return Open(cfg, tree, log.Logger())
}

// open opens jobs that end with the test.
func open(t testing.TB, change func(*Config)) *env {
	t.Helper()
	return openAt(t, zinotest.Dir(t), change)
}

func openAt(t testing.TB, dir string, change func(*Config)) *env {
	t.Helper()
	r, w, err := os.Pipe()
	zinotest.Must(t, err)
	e := &env{dir: dir, log: new(zinotest.Buffer), end: w}
	e.Jobs, err = openIn(dir, func(c *Config) {
		c.Lifeline = r
		if change != nil {
			change(c)
		}
	}, e.log)
	zinotest.Must(t, err)
	t.Cleanup(func() {
		w.Close()
		for _, job := range e.list("") {
			zinotest.Receive(t, "the end of "+job.ID(), job.Done())
		}
		e.Close()
		r.Close()
		if e.tree != nil {
			zinotest.Must(t, e.tree.Close())
		}
	})
	return e
}

// spec is a job that runs a command line.
func spec(command string) Spec {
	return Spec{
		Record: Record{ID: proto.NewJobID(), Session: "s1", Command: command, Sandbox: proto.LevelOff},
		Cmd: &run.Cmd{
			Path: "/bin/sh", Args: []string{"sh", "-c", command}, Env: []string{"PATH=" + os.Getenv("PATH"), "DIR=" + os.Getenv("DIR")},
			Dir: "/", Grace: run.Grace,
		},
	}
}

// start starts a command line.
func (e *env) start(t testing.TB, command string, change ...func(*Spec)) *Job {
	t.Helper()
	s := spec(command)
	for _, f := range change {
		f(&s)
	}
	job, err := e.Start(t.Context(), s)
	zinotest.Must(t, err)
	return job
}

// wait waits for the end of a job.
func wait(t testing.TB, job *Job) proto.JobState {
	t.Helper()
	zinotest.Receive(t, "the end of the job", job.Done())
	return job.State()
}

// texts are the outputs of a job.
func texts(t testing.TB, job *Job) string {
	t.Helper()
	stdout, stderr, _, err := job.Texts(64<<10, nil)
	zinotest.Must(t, err)
	return stdout + "|" + stderr
}

// processes lists the command lines that contain mark.
func processes(mark string) (found []string) {
	for _, line := range zinotest.CommandLines() {
		if strings.Contains(line, mark) {
			found = append(found, line)
		}
	}
	return found
}

// supervisorOf is the process of the supervisor of a job: its control socket names it.
func supervisorOf(t testing.TB, job *Job) int {
	t.Helper()
	for pid, line := range zinotest.CommandLines() {
		if !strings.Contains(line, Flag) {
			continue
		}
		links, _ := filepath.Glob("/proc/" + itoa(pid) + "/fd/*")
		for _, link := range links {
			if to, err := os.Readlink(link); err == nil && to == filepath.Join(job.dir, stateFile) {
				return pid
			}
		}
	}
	t.Fatal("the job has no supervisor")
	return 0
}
