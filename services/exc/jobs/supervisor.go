package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/exc/cgroup"
	"zino/services/exc/run"
	"zino/services/exc/sandbox"
)

// Flag is the argument with which zino-exc is the supervisor of one job.
const Flag = "--job"

const (
	startLimit    = 15 * time.Second       // for exc to ask for the command, once it has passed the descriptors
	progressPace  = 100 * time.Millisecond // between two packets of progress
	countPause    = time.Second            // between two writes of the numbers of bytes
	shutdownLimit = 2 * time.Second        // for the last answers
	signalDelay   = 300 * time.Millisecond // between the signals of systemd to a command and to its supervisor, at most
	stateSize     = 2048                   // bytes of state.json: constant, so that each write replaces the one before
)

// Serve is a process zino-exc --job. It receives the descriptors of one job from
// standard input, runs the command that exc asks for on the control socket, and
// returns when nothing of the command is left.
func Serve(log *slog.Logger) error {
	conn, err := run.StdinConn(Flag)
	if err != nil {
		return err
	}
	d, err := receive(conn)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	return supervise(d, conn, log)
}

// supervisor runs the command of one job.
type supervisor struct {
	d     *descriptors
	group *cgroup.Group // nil: none
	cpu   time.Duration // of the group before the command

	ctx   context.Context // done when the job must stop
	stop  context.CancelFunc
	once  sync.Once     // the command was asked for, or never will be
	asked chan struct{} // closed when exc has asked for the command
	done  chan struct{} // closed when the job has ended and its end is stored

	mu             sync.Mutex
	state          proto.JobState
	stdout, stderr *run.Recorder
	changed        chan struct{} // closed at new output
	counted        time.Time     // when the numbers of bytes were last stored
}

// supervise serves the control socket until the job has ended. Nothing is started
// if exc is gone before it has asked for the command.
func supervise(d *descriptors, conn *net.UnixConn, log *slog.Logger) error {
	s := &supervisor{
		d: d, asked: make(chan struct{}), done: make(chan struct{}), changed: make(chan struct{}),
		state: proto.JobState{Proto: proto.JobProtocol, State: proto.JobRunning},
	}
	s.ctx, s.stop = signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer s.stop()
	if d.group != nil {
		s.group = cgroup.At(d.group)
	}
	listener, err := net.FileListener(d.control)
	if err != nil {
		return err
	}
	server := rpc.NewServer("job", log)
	rpc.Handle(server, proto.SupervisorStart, s.start)
	rpc.HandleEvents(server, proto.SupervisorAttach, s.attach)
	rpc.Handle(server, proto.SupervisorStop, s.stopJob)
	rpc.Handle(server, proto.SupervisorBackground, s.background)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if d.lifeline != nil {
		go func() { awaitEOF(d.lifeline); s.stop() }()
	}
	gone := make(chan struct{})
	go func() { awaitEOF(conn); close(gone) }()
	select {
	case <-s.asked:
	case <-gone: // exc has given up, or was killed
	case <-time.After(startLimit):
	case <-s.ctx.Done():
	case err = <-served:
		return err
	}
	if !s.begin() { // the command was asked for
		err = errors.Join(err, conn.Close())
		<-s.done
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownLimit)
	defer cancel()
	if shut := server.Shutdown(ctx); !errors.Is(shut, context.DeadlineExceeded) {
		err = errors.Join(err, shut)
	}
	_ = os.Remove(listener.Addr().String()) // if exc has not, or is gone; in a unit the path is not visible
	return err
}

// awaitEOF reads until the other end is closed.
func awaitEOF(r interface{ Read([]byte) (int, error) }) {
	var b [64]byte
	for {
		if _, err := r.Read(b[:]); err != nil {
			return
		}
	}
}

// start starts the command.
func (s *supervisor) start(_ context.Context, req proto.JobStart) (proto.JobState, error) {
	if len(req.Command.Argv) == 0 {
		return proto.JobState{}, proto.Errorf(proto.CodeInvalid, "argv is empty: name a command")
	}
	if !s.begin() {
		return proto.JobState{}, proto.Errorf(proto.CodeInvalid, "a supervisor runs one command")
	}
	close(s.asked)
	s.change(func() {
		s.stdout, s.stderr = run.NewRecorder(s.d.stdout, req.OutputFileMax), run.NewRecorder(s.d.stderr, req.OutputFileMax)
	})
	p, remove, err := s.run(req)
	if err != nil {
		remove()
		s.finish(run.Result{End: run.NotConfined, Reason: err.Error()})
		return s.snapshot(), nil
	}
	if err := s.store(false); err != nil {
		s.stop() // without a state the job cannot be found again
	}
	go func() {
		r, err := p.Wait(s.ctx)
		if err != nil {
			r = run.Result{Reason: err.Error()}
		}
		r.Interrupted = r.Interrupted || s.stopsWith(r)
		remove()
		s.finish(r)
	}()
	go func() {
		select {
		case <-p.Remaining():
			s.change(func() { s.state.Remaining = true })
		case <-s.done:
		}
	}()
	return s.snapshot(), nil
}

// stopsWith reports whether a command that ended by SIGTERM ended because the job must
// stop: systemd signals all processes of a unit, and the command may be faster.
func (s *supervisor) stopsWith(r run.Result) bool {
	if r.End != run.Signaled || r.Number != int(syscall.SIGTERM) {
		return false
	}
	select {
	case <-s.ctx.Done():
	case <-time.After(signalDelay):
	}
	return s.ctx.Err() != nil
}

// begin reports whether it is called for the first time.
func (s *supervisor) begin() (first bool) {
	s.once.Do(func() { first = true })
	return first
}

// run starts the command of a request, as it is described there or, without a path,
// as a unit does: in directories of its own, which remove removes.
func (s *supervisor) run(req proto.JobStart) (p *run.Process, remove func(), err error) {
	c, remove := &run.Cmd{
		Path: req.Path, Args: req.Command.Argv, Env: req.Command.Env, Dir: req.Command.Dir, Umask: req.Command.Umask,
		Grace: time.Duration(req.Command.GraceMS) * time.Millisecond, Limit: time.Duration(req.Command.TimeoutMS) * time.Millisecond,
	}, func() {}
	if req.Path == "" {
		dir, err := os.MkdirTemp("", "zino-job-")
		if err != nil {
			return nil, remove, err
		}
		remove = func() { _ = os.RemoveAll(dir) } // the unit's /tmp goes with it
		if c, err = run.UnitCmd(req.Command, dir, ""); err != nil {
			return nil, remove, err
		}
		if c.Path, err = exec.LookPath(c.Args[0]); err != nil {
			return nil, remove, err
		}
	}
	if len(req.Plan) > 0 {
		c.Plan = new(sandbox.Plan)
		if err := json.Unmarshal(req.Plan, c.Plan); err != nil {
			return nil, remove, err
		}
	}
	if s.d.group == nil {
		own, before, unlimited := ownGroup(cgroup.Limits{Memory: req.Memory, Tasks: req.Tasks, CPU: req.CPU})
		s.change(func() { s.group, s.cpu, s.state.Unlimited = own, before, unlimited })
	}
	c.Group, c.Stay = s.groupOf(), true
	c.Output = &run.Output{Tap: s.record}
	if c.Plan == nil || !c.Plan.Namespaces {
		if err := run.Hide(); err != nil {
			return nil, remove, err
		}
	}
	if p, err = run.Start(c); err == nil {
		// Not before: only a process that is not hidden may map users into a namespace.
		if err = run.Hide(); err != nil {
			p.Stop()
		}
	}
	return p, remove, err
}

// ownGroup makes a control group, or finds the one that this process is in, as in a
// unit. before is its CPU time. unlimited names the limits that are not enforced.
func ownGroup(l cgroup.Limits) (g *cgroup.Group, before time.Duration, unlimited []string) {
	if tree, err := cgroup.Open(); err == nil {
		if g, err := tree.New(l); err == nil {
			return g, 0, tree.Unlimited(l)
		}
	}
	here, err := cgroup.Here()
	if err != nil {
		return nil, 0, l.Names()
	}
	return here, here.Usage().CPU, slices.DeleteFunc(l.Names(), here.Limited)
}

// groupOf is the group to start the command in: not the one that this process is in.
func (s *supervisor) groupOf() *cgroup.Group {
	if s.group == nil || s.group.File() == nil {
		return nil
	}
	return s.group
}

// record stores output.
func (s *supervisor) record(stream string, p []byte) {
	r := s.stdout
	if stream == "stderr" {
		r = s.stderr
	}
	_, _ = r.Write(p) // it never fails
	s.change(func() {})
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.counted) > countPause { // for a reader after this process was killed
		s.counted = now
		_ = writeState(s.d.state, s.current(), false)
	}
}

// change changes the state and wakes the attached callers.
func (s *supervisor) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// snapshot is the state now.
func (s *supervisor) snapshot() proto.JobState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current()
}

// current is the state now. s.mu is locked.
func (s *supervisor) current() proto.JobState {
	state := s.state
	if s.stdout == nil {
		return state
	}
	state.StdoutBytes, state.StdoutStored = counts(s.stdout)
	state.StderrBytes, state.StderrStored = counts(s.stderr)
	if s.group != nil && state.State == proto.JobRunning {
		u := s.group.Usage()
		state.CPUMS, state.PeakBytes, state.MemoryBytes = new((u.CPU - s.cpu).Milliseconds()), u.PeakBytes(), s.group.MemoryBytes()
	}
	return state
}

// counts are the bytes of an output, and how many are stored; nil: all.
func counts(r *run.Recorder) (total int64, kept *int64) {
	total, stored := r.Count()
	if stored < total {
		kept = &stored
	}
	return total, kept
}

// finish records the end.
func (s *supervisor) finish(r run.Result) {
	s.mu.Lock()
	state := s.current() // with the last figures of the group
	state.State, state.Remaining, state.MemoryBytes = proto.JobExited, false, nil
	state.Verdict, state.Number, state.Why = string(r.End), r.Number, r.Reason
	state.Stopped = r.Interrupted
	state.Ended = time.Now().UTC().Format(time.RFC3339Nano)
	if r.End == run.Lost && r.Reason == "" {
		state.State = proto.JobLost
	} else {
		state.ExitCode = new(r.ExitCode())
	}
	if r.End == run.Signaled {
		state.Signal = r.Number
	}
	if r.TimedOut {
		state.Limit = "time"
	} else if s.group != nil {
		state.Limit = s.group.Usage().Exceeded(r.ExitCode() != 0)
	}
	s.state = state
	s.mu.Unlock()
	_ = s.store(true) // exc counts a job without an end as lost
	close(s.done)
}

// store writes the state over the one before; final: durably.
func (s *supervisor) store(final bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return writeState(s.d.state, s.current(), final)
}

// attach sends the state at new output, and answers with the end.
func (s *supervisor) attach(ctx context.Context, req proto.AttachJob, out *rpc.Out) (proto.JobState, error) {
	for !req.Now {
		s.mu.Lock()
		state, changed := s.current(), s.changed
		s.mu.Unlock()
		if err := out.Event(proto.TypeProgress, state); err != nil {
			return proto.JobState{}, err
		}
		select {
		case <-s.done:
			return s.snapshot(), nil
		case <-ctx.Done():
			return proto.JobState{}, ctx.Err()
		case <-time.After(progressPace):
		}
		select {
		case <-s.done:
			return s.snapshot(), nil
		case <-ctx.Done():
			return proto.JobState{}, ctx.Err()
		case <-changed:
		}
	}
	return s.snapshot(), nil
}

// stopJob stops the job and waits for its end.
func (s *supervisor) stopJob(ctx context.Context, _ proto.Empty) (proto.JobState, error) {
	s.stop()
	select {
	case <-s.done:
		return s.snapshot(), nil
	case <-ctx.Done():
		return proto.JobState{}, ctx.Err()
	}
}

// background records that the call of bash has ended without the job.
func (s *supervisor) background(context.Context, proto.Empty) (proto.JobState, error) {
	s.change(func() { s.state.Background = true })
	err := s.store(true)
	return s.snapshot(), err
}

// Main is the main function of zino-exc --job. It does not return.
func Main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("service", "job")
	if err := Serve(log); err != nil {
		log.Error("the supervisor of a job ended", "error", err)
		os.Exit(1)
	}
	os.Exit(0)
}
