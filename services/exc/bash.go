package exc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"zino/pkg/mask"
	"zino/proto"
	"zino/services/exc/cgroup"
	"zino/services/exc/files"
	"zino/services/exc/jobs"
	"zino/services/exc/run"
	"zino/services/exc/sandbox"
)

const (
	// defaultTimeout is [exc] timeout, in seconds, where it is not set. Commands of
	// sessions have it as a limit only if it was changed: else they go to the
	// background.
	defaultTimeout = 30
	// firstWait is how long a command is waited for that is started in the
	// background, or that has ended and left processes.
	firstWait = 900 * time.Millisecond
)

// jobRun is a job with what exc knows of it besides.
type jobRun struct {
	*jobs.Job
	box     *Sandbox // nil: another process has started it
	checked chan struct{}
	mask    *mask.Masker
	lines   []string // for standard error, when it has been checked
}

// bashJob carries out a call of bash of a session as a job.
func (s *Service) bashJob(ctx context.Context, req proto.Call, in bashInput, c client, dir string, call *turnCall) (reply, error) {
	cmd := s.command(c, shell, "-c", in.Command)
	var err error
	if cmd.Path, err = c.locate(shell); err != nil {
		return reply{}, noShell(err)
	}
	cmd.Chdir(dir)
	cmd.Limit, _ = s.bashLimits(in)
	id := proto.NewJobID()
	place := s.jobs.Dir(id)
	b, err := s.sandboxFor(ctx, &call.ticket.turn, req.Sandbox, req.Network, c.root, cmd, kept{job: place})
	if err != nil {
		return reply{}, errors.Join(err, os.RemoveAll(place))
	}
	job, err := s.startJob(ctx, req, in, b, cmd, call, id, dir)
	if err != nil {
		b.close()
		return reply{}, errors.Join(err, os.RemoveAll(place))
	}
	r := &jobRun{Job: job, box: b, mask: call.mask, checked: make(chan struct{})}
	go r.check()
	return s.followJob(ctx, req, in, r, call)
}

// startJob records that the call begins, and starts its job.
func (s *Service) startJob(ctx context.Context, req proto.Call, in bashInput, b *Sandbox, cmd *run.Cmd, call *turnCall, id, dir string) (*jobs.Job, error) {
	if cmd.Unit != "" && !s.jobs.Units() {
		return nil, &refusal{b.level, errors.New("zino-job.socket of a system installation starts the commands of sessions")}
	}
	if err := s.begin(ctx, call, start{root: dir, level: b.level, job: id}); err != nil {
		return nil, err
	}
	job, err := s.jobs.Start(ctx, jobs.Spec{
		Record: jobs.Record{
			ID: id, Session: call.session, Turn: call.turn, Key: call.key, Command: in.Command, Root: dir, Sandbox: b.level, Network: b.network,
			Means: b.means, Unlimited: b.unlimited, Wake: in.Wake,
		},
		Cmd: cmd, Memory: s.host.limits.Memory, Tasks: s.host.limits.Tasks, CPU: s.host.limits.CPU,
	})
	switch {
	case err == nil: // followJob stops it if the call was cancelled meanwhile
		return job, nil
	case ctx.Err() != nil:
		return nil, errors.Join(err, ctx.Err())
	}
	if e, ok := errors.AsType[*proto.Error](err); ok && e.Code == proto.CodeBusy {
		return nil, &files.Error{Code: string(e.Code), Message: e.Message}
	}
	return nil, &files.Error{Code: codeExec, Message: "Cannot start a job: " + err.Error()}
}

// bashLimits are the time after which a command of a session is killed, and the one
// after which it goes to the background; 0: none.
func (s *Service) bashLimits(in bashInput) (kill, background time.Duration) {
	asked := -time.Second
	if in.TimeoutS != nil {
		asked = time.Duration(*in.TimeoutS) * time.Second
	}
	switch {
	case s.timeout != defaultTimeout && (asked <= 0 || s.limit > 0 && s.limit < asked):
		return s.limit, 0
	case s.timeout != defaultTimeout:
		return asked, 0
	case asked >= 0:
		return 0, asked
	}
	return 0, s.sessionLimit
}

// check checks the protected places when the job has ended, and removes what only it
// needed.
func (r *jobRun) check() {
	defer close(r.checked)
	<-r.Done()
	b := r.box
	if b.level.Confined() {
		code := 0
		if state := r.State(); state.ExitCode != nil {
			code = *state.ExitCode
		}
		if stdout, stderr, _, err := r.Texts(b.s.outputMax, nil); err == nil {
			r.lines = b.explain(stdout, stderr, code != 0)
		}
	}
	b.close()
	r.lines = append(r.lines, sandbox.ViolationLines(b.violations)...)
	if b.gap != "" {
		r.lines = append(r.lines, b.gap)
	}
	r.lines = append(r.lines, b.notHidden()...)
}

// followJob shows the output of a job until it has ended or goes to the background,
// and returns the result of the call. When the call is cancelled the job is stopped;
// when exc stops, it runs on, and the call is repeated.
func (s *Service) followJob(ctx context.Context, req proto.Call, in bashInput, r *jobRun, call *turnCall) (reply, error) {
	_, limit := s.bashLimits(in)
	first := limit
	if in.Background {
		first = s.firstWait
	}
	var expired, left <-chan time.Time
	if first > 0 {
		expired = time.After(max(0, first-time.Since(r.Begun())))
	}
	shown := r.Tap(call.tap)
	for {
		changed := r.Changed()
		shown()
		if r.State().Remaining && left == nil && limit > 0 {
			left = time.After(s.firstWait)
		}
		select {
		case <-r.Done():
			shown()
			return s.endedJob(req, in, r, call)
		case <-expired:
			line := ""
			if !in.Background {
				line = "Still running after " + seconds(limit) + ": it continues as job " + r.ID() + "."
			}
			return s.leaveJob(ctx, req, r, !in.Background, line)
		case <-left:
			return s.leaveJob(ctx, req, r, false, "The command has ended, and what it started runs on as job "+r.ID()+".")
		case <-changed:
		case <-s.stopping(call):
			return reply{}, errStopping
		case <-ctx.Done():
			if s.ctx.Err() != nil {
				return reply{}, errStopping
			}
			if err := r.Stop(context.WithoutCancel(ctx)); err != nil {
				return reply{}, err
			}
		}
	}
}

// errStopping is the error of calls whose jobs outlive this process, and of requests that
// come too late.
var errStopping = &proto.Error{Code: proto.CodeUnavailable, Kind: proto.ErrorKindTransport, Message: "exc is stopping: try again"}

// stopping is closed when exc begins to stop, for calls that find their job again.
func (s *Service) stopping(call *turnCall) <-chan struct{} {
	if call.key == "" {
		return nil
	}
	return s.draining
}

// seconds is a time limit in a text.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

// leaveJob lets a job go on in the background.
func (s *Service) leaveJob(ctx context.Context, req proto.Call, r *jobRun, timedOut bool, line string) (reply, error) {
	if err := r.Background(context.WithoutCancel(ctx)); err != nil {
		return reply{}, err
	}
	r.Leave()
	if !r.Ended() {
		s.setLate(r.Job, true)
		s.captureLate(r.Job, r.checked)
	}
	data, err := s.jobData(req, r)
	if err != nil {
		return reply{}, err
	}
	data.Job, data.Running = r.ID(), !r.Ended()
	if r.Ended() { // meanwhile
		<-r.checked
		if data, err = s.jobData(req, r); err != nil {
			return reply{}, err
		}
		data.Job = r.ID()
	} else {
		data.ExitCode, data.TimedOut = -1, timedOut
	}
	if line != "" {
		data.Stderr = withLine(data.Stderr, line)
	}
	return reply{files.Reply{Data: data}, s.jobConfinement(r)}, nil
}

// endedJob is the result of a job that has ended. Its files go when that is recorded,
// unless the result names them, or the job was to run in the background.
func (s *Service) endedJob(req proto.Call, in bashInput, r *jobRun, call *turnCall) (reply, error) {
	<-r.checked
	r.Leave()
	state := r.State()
	result := run.Result{End: run.End(state.Verdict), Number: state.Number, Reason: state.Why}
	switch {
	case state.State == proto.JobLost:
		return reply{}, interrupted
	case result.End == run.NotConfined:
		return reply{}, &refusal{r.Record().Sandbox, errors.New(state.Why)}
	case result.End == run.NotStarted:
		return reply{}, &files.Error{Code: codeExec, Message: result.Failure(shell)}
	}
	data, err := s.jobData(req, r)
	if err != nil {
		return reply{}, err
	}
	for _, line := range r.lines {
		data.Stderr = withLine(data.Stderr, line)
	}
	data.Interrupted = state.Stopped
	if state.Limit == "time" {
		data.ExitCode, data.TimedOut = -1, true
		limit := time.Duration(r.Record().Limits.TimeoutMS) * time.Millisecond
		data.Stderr = withLine(data.Stderr, "Execution timed out after "+seconds(limit)+".")
	}
	switch {
	case in.Background || state.Background:
		data.Job = r.ID()
	case data.Truncated:
		if err := r.Name(); err != nil {
			s.log.Warn("cannot record that a result names a job's output", "job", r.ID(), "error", err)
		}
	default:
		call.after(func() {
			if err := r.Remove(); err != nil {
				s.log.Warn("cannot remove a job", "job", r.ID(), "error", err)
			}
		})
	}
	return reply{files.Reply{Data: data}, s.jobConfinement(r)}, nil
}

// jobData is the output of a job so far, and its exit status.
func (s *Service) jobData(req proto.Call, r *jobRun) (data bashData, err error) {
	limit := s.outputMax
	if req.OutputBytes > 0 {
		limit = min(req.OutputBytes, run.PacketRoom)
	}
	data.Stdout, data.Stderr, data.Truncated, err = r.Texts(limit, r.mask)
	r.Shown()
	data.ExitCode = -1
	if state := r.State(); state.ExitCode != nil {
		data.ExitCode = *state.ExitCode
		data.Note = sandboxNote(r.Record().Sandbox, r.Record().Network, data.ExitCode, data.Stdout, data.Stderr)
	}
	return data, err
}

// refusals are texts of programs to which the sandbox refused something, in lower case.
var refusals = []string{
	"permission denied", "eacces", "operation not permitted", "eperm", "read-only file system", "erofs", "network is unreachable", "enetunreach",
	"connection refused", "econnrefused", "could not resolve", "name resolution", "name or service not known", "no such host", "enotfound", "eai_again",
	"unknown host", "couldn't resolve",
}

// sandboxNote returns what the result of a command says if the sandbox may be why it failed.
func sandboxNote(level proto.Level, network bool, exitCode int, outputs ...string) string {
	if exitCode == 0 || !level.Confined() || !slices.ContainsFunc(outputs, func(text string) bool {
		text = strings.ToLower(text)
		return slices.ContainsFunc(refusals, func(refusal string) bool { return strings.Contains(text, refusal) })
	}) {
		return ""
	}
	where := string(level)
	if !network {
		where += ", no network"
	}
	return "This may have failed because of the sandbox (" + where + ")."
}

// jobConfinement is how a job was confined, and what it has used.
func (s *Service) jobConfinement(r *jobRun) *proto.Confinement {
	rec, state := r.Record(), r.State()
	c := &proto.Confinement{
		Sandbox: rec.Sandbox, Network: rec.Network, Means: slices.Clone(rec.Means), Unlimited: append(slices.Clone(rec.Unlimited), state.Unlimited...),
		CPUMS: state.CPUMS, PeakBytes: state.PeakBytes, Limit: state.Limit,
	}
	if c.Means == nil {
		c.Means = []string{}
	}
	if r.box == nil || !r.Ended() {
		return c
	}
	if r.box.plan != nil && r.box.plan.Tasks > 0 {
		c.Unlimited = slices.DeleteFunc(c.Unlimited, func(name string) bool { return name == cgroup.Tasks })
	}
	if r.box.gap != "" {
		c.Unlimited = append(c.Unlimited, "scan")
	}
	if len(r.box.denied.Gaps) > 0 {
		c.Unlimited = append(c.Unlimited, "rules")
	}
	for _, v := range r.box.violations {
		if name := v.Where(); name != "" {
			c.Refused = append(c.Refused, name)
		}
	}
	return c
}

// recoverJob is the result of a call whose job another exc has started.
func (s *Service) recoverJob(ctx context.Context, req proto.Call, id string, call *turnCall) (reply, bool, error) {
	in, err := bashInputOf(req.Input)
	if err != nil {
		return reply{}, true, err
	}
	job, err := s.jobs.Get(id, "")
	if err != nil { // it was never started, or its result was recorded and then lost
		return reply{}, true, interrupted
	}
	job.Enter()
	checked := make(chan struct{})
	close(checked)
	r := &jobRun{Job: job, mask: call.mask, checked: checked}
	if !job.Ended() && job.State().Background {
		result, err := s.leaveJob(ctx, req, r, !in.Background, "")
		return result, true, err
	}
	result, err := s.followJob(ctx, req, in, r, call)
	if err != nil && errors.Is(err, errStopping) {
		return reply{}, false, err
	}
	return result, true, err
}

// finishJobs checks the protected places of jobs that another process has started,
// when they have ended.
func (s *Service) finishJobs() {
	for _, job := range s.jobs.All() {
		if _, err := os.Stat(filepath.Join(job.Dir(), tmpName)); err != nil {
			continue
		}
		go func() {
			select {
			case <-job.Done():
				checkOpenRuns(job.Dir(), s.log)
				s.files.remove(filepath.Join(job.Dir(), tmpName))
			case <-s.ctx.Done():
			}
		}()
	}
}

// tmpName is the directory of a job's confined command in that of the job.
const tmpName = "tmp"
