package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"zino/pkg/durable"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/exc/cgroup"
	"zino/services/exc/run"
)

const (
	socketDir   = "j"         // below the runtime directory
	groupPrefix = "zino-job-" // of the names of control groups
	retryPause  = 200 * time.Millisecond
	callLimit   = 20 * time.Second // for a supervisor to answer, longer than a stop takes
)

// Job is a job, running or finished.
type Job struct {
	jobs   *Jobs
	dir    string
	client *rpc.Client
	done   chan struct{} // closed when it has ended

	mu      sync.Mutex
	rec     Record // Kept, Named and Late change
	state   proto.JobState
	changed chan struct{} // closed at new output
	waiting int           // calls of bash that wait for it
	alone   time.Time     // since when none does
	read    place         // where the last answer to job_output ended
	group   *cgroup.Group // nil: none, or that of a unit
}

// place is a place in both streams.
type place struct{ stdout, stderr int64 }

func newJob(j *Jobs, rec Record) *Job {
	return &Job{
		jobs: j, rec: rec, dir: j.Dir(rec.ID), done: make(chan struct{}), changed: make(chan struct{}), alone: time.Now(),
		client: &rpc.Client{Service: "job", Path: filepath.Join(rec.Runtime, socketDir, rec.ID)},
		state:  proto.JobState{State: proto.JobRunning},
	}
}

// Spec is a job to start.
type Spec struct {
	Record              // ID, Session, Turn, Key, Command, Root, Sandbox, Network, Means, Wake and Unlimited
	Cmd        *run.Cmd // without Output; Limit kills it
	Memory     int64    // limits of its control group
	Tasks      int
	CPU        float64
	Background bool
}

// Start starts a job: its directory and job.json are on disk before. The error is
// busy at the limits.
func (j *Jobs) Start(ctx context.Context, spec Spec) (*Job, error) {
	rec := spec.Record
	rec.Started, rec.BootID, rec.Runtime = time.Now().UTC().Format(time.RFC3339Nano), bootID(), j.cfg.Runtime
	rec.Limits = Limits{spec.Cmd.Limit.Milliseconds(), j.cfg.OutputMax, spec.Memory, spec.Tasks, spec.CPU}
	job := newJob(j, rec)
	job.waiting = 1 // the caller, until Leave
	if err := j.add(job); err != nil {
		return nil, err
	}
	if err := job.start(ctx, spec); err != nil {
		j.drop(job)
		return nil, errors.Join(err, job.clear())
	}
	j.wg.Go(job.follow)
	return job, nil
}

// start makes the files of the job and starts its supervisor and its command.
func (job *Job) start(ctx context.Context, spec Spec) error {
	j := job.jobs
	if err := os.MkdirAll(job.dir, durable.DirMode); err != nil {
		return err
	}
	limits := cgroup.Limits{Memory: spec.Memory, Tasks: spec.Tasks, CPU: spec.CPU}
	if j.tree != nil && j.cfg.Socket == "" {
		group, err := j.tree.NewNamed(groupPrefix+job.rec.ID, limits)
		if err == nil {
			job.mu.Lock() // it is listed already
			job.group = group
			job.rec.Unlimited = append(job.rec.Unlimited, j.tree.Unlimited(limits)...)
			job.rec.Means = append([]string{"cgroup"}, job.rec.Means...)
			job.mu.Unlock()
		} else {
			j.log.Warn("no control group for a job", "error", err)
		}
	}
	if job.group == nil && j.cfg.Socket == "" {
		job.mu.Lock()
		job.rec.Unlimited = append(job.rec.Unlimited, limits.Names()...)
		job.mu.Unlock()
	}
	if err := job.rec.write(job.dir); err != nil {
		return err
	}
	d, err := job.open()
	defer d.close()
	if err != nil {
		return err
	}
	request, err := startRequest(spec, j.cfg.OutputMax)
	if err != nil {
		return err
	}
	conn, err := connect(j.cfg.Socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := d.pass(conn); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	state, err := rpc.Call(ctx, job.client, proto.SupervisorStart, request)
	if err != nil {
		return err
	}
	job.update(state)
	return nil
}

// open makes the files and the socket that the supervisor is passed. What was opened
// is to be closed after an error, too.
func (job *Job) open() (*descriptors, error) {
	d := &descriptors{lifeline: job.jobs.cfg.Lifeline}
	for name, f := range map[string]**os.File{stateFile: &d.state, stdoutFile: &d.stdout, stderrFile: &d.stderr} {
		file, err := os.OpenFile(filepath.Join(job.dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, durable.FileMode)
		if err != nil {
			return d, err
		}
		*f = file
	}
	if err := durable.TryLock(d.state); err != nil {
		return d, err
	}
	if err := writeState(d.state, proto.JobState{State: proto.JobRunning}, false); err != nil {
		return d, err
	}
	if job.group != nil {
		d.group = job.group.File()
	}
	if err := os.MkdirAll(filepath.Dir(job.client.Path), durable.DirMode); err != nil {
		return d, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: job.client.Path, Net: "unix"})
	if err != nil {
		return d, err
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	d.control, err = l.File()
	return d, err
}

// close closes the files that only the supervisor needs.
func (d *descriptors) close() { closeAll(d.control, d.state, d.stdout, d.stderr) }

// startRequest describes the command to the supervisor.
func startRequest(spec Spec, outputMax int64) (proto.JobStart, error) {
	c := spec.Cmd
	req := proto.JobStart{
		Proto: proto.JobProtocol, Path: c.Path, OutputFileMax: outputMax, Memory: spec.Memory, Tasks: spec.Tasks, CPU: spec.CPU,
		Command: proto.RunCommand{
			Argv: c.Args, Env: c.Env, Dir: c.Dir, Umask: c.Umask,
			TimeoutMS: c.Limit.Milliseconds(), GraceMS: c.Grace.Milliseconds(), Limits: c.UnitLimits,
		},
	}
	if c.Unit != "" {
		req.Path = ""
	}
	if c.Plan == nil {
		return req, nil
	}
	var err error
	req.Plan, err = json.Marshal(c.Plan)
	return req, err
}

// bootID names this boot of the host; empty: unknown.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// load reads the state of a job that an earlier process has started. A job without
// an end whose supervisor is gone is lost.
func (job *Job) load() (ended bool, err error) {
	f, err := os.OpenFile(filepath.Join(job.dir, stateFile), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		job.end(proto.JobState{State: proto.JobLost})
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if job.jobs.tree != nil && job.group == nil {
		if group, err := job.jobs.tree.Named(groupPrefix + job.rec.ID); err == nil {
			job.group = group
		}
	}
	err = durable.TryLock(f)
	if err != nil && !errors.Is(err, durable.ErrLocked) {
		return false, err
	}
	locked := err != nil
	state, err := readState(f)
	if err != nil {
		state = proto.JobState{State: proto.JobRunning} // torn: nothing is known
	}
	if locked {
		state.State = proto.JobRunning
		job.update(state)
		return false, nil
	}
	if state.State == proto.JobRunning {
		state.State, state.MemoryBytes, state.Remaining = proto.JobLost, nil, false
		last := job.State()
		state.StdoutBytes = max(state.StdoutBytes, last.StdoutBytes, job.size(stdoutFile))
		state.StderrBytes = max(state.StderrBytes, last.StderrBytes, job.size(stderrFile))
		if err := writeState(f, state, true); err != nil {
			job.jobs.log.Warn("cannot record that a job is lost", "job", job.rec.ID, "error", err)
		}
	}
	job.end(state)
	return true, nil
}

// size is the size of a file of the job; 0 if it does not exist.
func (job *Job) size(name string) int64 {
	fi, err := os.Stat(filepath.Join(job.dir, name))
	if err != nil {
		return 0
	}
	return fi.Size()
}

// follow updates the state until the job has ended.
func (job *Job) follow() {
	ctx := job.jobs.ctx
	for ctx.Err() == nil {
		state, err := rpc.CallEvents(ctx, job.client, proto.SupervisorAttach, proto.AttachJob{}, func(typ string, payload []byte) error {
			if typ != proto.TypeProgress {
				return nil
			}
			var state proto.JobState
			if err := wire.DecodeReply(payload, &state); err != nil {
				return err
			}
			job.update(state)
			return nil
		})
		switch {
		case err == nil && state.State != proto.JobRunning:
			job.update(state)
			job.end(state)
			return
		case ctx.Err() != nil:
			return
		}
		if ended, loadErr := job.load(); ended {
			return
		} else if loadErr != nil {
			job.jobs.log.Warn("cannot read the state of a job", "job", job.rec.ID, "error", loadErr)
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
		}
	}
}

// update takes over what the supervisor reports.
func (job *Job) update(state proto.JobState) {
	job.mu.Lock()
	defer job.mu.Unlock()
	if job.ended() {
		return
	}
	if state.State == proto.JobRunning {
		// An older snapshot may come after the reply to background, which is final.
		state.Background = state.Background || job.state.Background
		job.state = state
	}
	close(job.changed)
	job.changed = make(chan struct{})
}

// end records the end and removes what only a running job needs.
func (job *Job) end(state proto.JobState) {
	job.mu.Lock()
	defer job.mu.Unlock()
	if job.ended() {
		return
	}
	job.state = state
	if job.rec.Runtime == job.jobs.cfg.Runtime {
		_ = os.Remove(job.client.Path) // it may be gone
	}
	if job.group != nil {
		if err := job.group.Remove(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			job.jobs.log.Warn("cannot remove the control group of a job", "job", job.rec.ID, "error", err)
		}
	}
	job.client.Close()
	close(job.done)
}

// clear removes all of a job that was not started.
func (job *Job) clear() error {
	job.end(proto.JobState{State: proto.JobLost})
	return os.RemoveAll(job.dir)
}

// ended reports whether the job has ended.
func (job *Job) ended() bool {
	select {
	case <-job.done:
		return true
	default:
		return false
	}
}
