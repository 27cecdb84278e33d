package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"zino/pkg/mask"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/exc/run"
)

// ID is the job's id.
func (job *Job) ID() string { return job.rec.ID }

// Dir is the job's directory, Tmp a directory in it for a confined command.
func (job *Job) Dir() string { return job.dir }

// Record is what job.json says.
func (job *Job) Record() Record {
	job.mu.Lock()
	defer job.mu.Unlock()
	return job.rec
}

// State is the state as last reported.
func (job *Job) State() proto.JobState {
	job.mu.Lock()
	defer job.mu.Unlock()
	return job.state
}

// Ended reports whether nothing of the job is left.
func (job *Job) Ended() bool { return job.ended() }

// Done is closed when the job has ended.
func (job *Job) Done() <-chan struct{} { return job.done }

// Changed is closed at new output, at a change of the state and at the end.
func (job *Job) Changed() <-chan struct{} {
	job.mu.Lock()
	defer job.mu.Unlock()
	if job.ended() {
		return job.done
	}
	return job.changed
}

// Wait waits for the end.
func (job *Job) Wait(ctx context.Context) error {
	select {
	case <-job.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Enter counts a call of bash that waits for the job, until leave. Without one, a job
// that is not in the background is stopped some time later.
func (job *Job) Enter() {
	job.mu.Lock()
	defer job.mu.Unlock()
	job.waiting++
}

// Leave ends what Enter or Start began.
func (job *Job) Leave() {
	job.mu.Lock()
	defer job.mu.Unlock()
	if job.waiting--; job.waiting == 0 {
		job.alone = time.Now()
	}
}

// Stop stops the job with all that it started, and waits for its end. A supervisor
// that does not answer, or not in this version's protocol, is ended through its
// control group.
func (job *Job) Stop(ctx context.Context) error {
	if job.Ended() {
		return nil
	}
	asked, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := rpc.Call(asked, job.client, proto.SupervisorStop, proto.Empty{})
	if job.Ended() {
		return nil
	}
	if err != nil && ctx.Err() == nil && job.group != nil {
		err = job.group.Kill()
	}
	if err != nil && !job.Ended() {
		return err
	}
	return job.Wait(ctx)
}

// Background records that the call of bash ends without the job.
func (job *Job) Background(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	state, err := rpc.Call(ctx, job.client, proto.SupervisorBackground, proto.Empty{})
	if err == nil {
		job.update(state)
	}
	if job.Ended() {
		return nil
	}
	return err
}

// Keep lets the job outlive the leases of its session.
func (job *Job) Keep() error {
	if job.jobs.cfg.Private || job.jobs.own != nil {
		return proto.Errorf(proto.CodeInvalid, "this job ends with the run that started its services: keep services running with zino up, or with the units, to keep jobs")
	}
	return job.change(func(r *Record) { r.Kept = true })
}

// Name records that a result names the job's output files: they are kept like
// those of a job in the background.
func (job *Job) Name() error { return job.change(func(r *Record) { r.Named = true }) }

// SetLate records whether file changes after the result of the call are still to be
// recorded for undo.
func (job *Job) SetLate(late bool) error { return job.change(func(r *Record) { r.Late = late }) }

// change changes job.json. The other fields of the record are read without a lock.
func (job *Job) change(f func(*Record)) error {
	job.mu.Lock()
	defer job.mu.Unlock()
	rec := job.rec
	f(&rec)
	if err := rec.write(job.dir); err != nil {
		return err
	}
	f(&job.rec)
	return nil
}

func (job *Job) named() bool { return job.Record().Named }

// Remove removes a job that has ended.
func (job *Job) Remove() error {
	if !job.Ended() {
		return fmt.Errorf("job %s is running", job.rec.ID)
	}
	job.jobs.drop(job)
	return os.RemoveAll(job.dir)
}

// expired says why a running job is to be stopped at now, if its session's lease was
// renewed at leased; empty: it goes on.
func (job *Job) expired(now, leased time.Time) string {
	job.mu.Lock()
	defer job.mu.Unlock()
	cfg := &job.jobs.cfg
	switch {
	case job.waiting > 0:
	case !job.state.Background:
		if now.Sub(job.alone) > cfg.Orphan {
			return "no call waits for it"
		}
	case job.rec.Kept:
		if cfg.MaxAge > 0 && now.Sub(timeOf(job.rec.Started)) > cfg.MaxAge {
			return "[exc] job_max_age has passed"
		}
	case now.Sub(later(leased, job.alone)) > cfg.Linger:
		return "the lease of its session has expired"
	}
	return ""
}

// endedAt is when the job ended, or when it started if that is unknown.
func (job *Job) endedAt() time.Time {
	return timeOf(cmp.Or(job.State().Ended, job.Record().Started))
}

// timeOf is a time in RFC 3339; the zero time if it is not one.
func timeOf(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// stored are the bytes of the output files.
func (job *Job) stored() int64 { return job.size(stdoutFile) + job.size(stderrFile) }

// Info is the job for a list.
func (job *Job) Info() proto.JobInfo {
	rec, state := job.Record(), job.State()
	info := proto.JobInfo{
		ID: rec.ID, SessionID: rec.Session, Turn: rec.Turn, State: state.State, Started: rec.Started, Ended: state.Ended,
		Command: rec.Command, Root: rec.Root, Background: state.Background, Kept: rec.Kept, Wake: rec.Wake,
		CPUMS: state.CPUMS, MemoryBytes: state.MemoryBytes, ExitCode: state.ExitCode, Limit: state.Limit, Stopped: state.Stopped,
		StdoutBytes: state.StdoutBytes, StderrBytes: state.StderrBytes,
	}
	if info.MemoryBytes == nil {
		info.MemoryBytes = state.PeakBytes
	}
	return info
}

// fresh asks a running supervisor for its state.
func (job *Job) fresh(ctx context.Context) {
	if job.Ended() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if state, err := rpc.Call(ctx, job.client, proto.SupervisorAttach, proto.AttachJob{Now: true}); err == nil {
		job.update(state) // else the last report counts
	}
}

// streams opens the output files as far as the state says that they are written.
func (job *Job) streams(m *mask.Masker) (out, errs run.Stored, close func(), err error) {
	state := job.State()
	o, err1 := os.Open(filepath.Join(job.dir, stdoutFile))
	e, err2 := os.Open(filepath.Join(job.dir, stderrFile))
	close = func() { closeAll(o, e) }
	if err := errors.Join(err1, err2); err != nil {
		close()
		return run.Stored{}, run.Stored{}, nil, err
	}
	limit := job.rec.Limits.OutputMax
	out = run.Stored{File: o, Path: o.Name(), Max: limit, Total: state.StdoutBytes, Kept: kept(state.StdoutStored, state.StdoutBytes), Mask: m}
	errs = run.Stored{File: e, Path: e.Name(), Max: limit, Total: state.StderrBytes, Kept: kept(state.StderrStored, state.StderrBytes), Mask: m}
	return out, errs, close, nil
}

func kept(stored *int64, total int64) int64 {
	if stored == nil {
		return total
	}
	return *stored
}

// Begun is when the job was started.
func (job *Job) Begun() time.Time { return timeOf(job.rec.Started) }

// Shown has the next job_output begin behind the output so far.
func (job *Job) Shown() {
	job.mu.Lock()
	defer job.mu.Unlock()
	job.read = place{job.state.StdoutBytes, job.state.StderrBytes}
}

// tapMax is how much output is shown at a time: of more that has come, the newest.
const tapMax = 32 << 10

// Tap returns a function that passes what is new of the output to tap. It is not
// safe for concurrent use.
func (job *Job) Tap(tap func(stream string, p []byte)) (show func()) {
	var at place
	buf := make([]byte, tapMax)
	return func() {
		out, errs, close, err := job.streams(nil) // tap masks it
		if err != nil {
			return // the result says why
		}
		defer close()
		for _, s := range []struct {
			name string
			run.Stored
			at *int64
		}{{"stdout", out, &at.stdout}, {"stderr", errs, &at.stderr}} {
			*s.at = max(*s.at, s.Kept-tapMax)
			if n, _, err := s.Read(buf[:min(tapMax, s.Kept-*s.at)], *s.at); err == nil && n > 0 {
				tap(s.name, buf[:n])
			}
			*s.at = s.Kept
		}
	}
}

// Texts are the outputs so far, each of up to limit bytes, and truncated if the
// middle of one was left out. m masks them, unless it is nil.
func (job *Job) Texts(limit int, m *mask.Masker) (stdout, stderr string, truncated bool, err error) {
	out, errs, close, err := job.streams(m)
	if err != nil {
		return "", "", false, err
	}
	defer close()
	return run.StoredTexts(limit, out, errs)
}

// Since reads the output behind a place, up to limit bytes of each stream.
func (job *Job) since(from place, limit int, m *mask.Masker) (proto.JobText, place, error) {
	out, errs, close, err := job.streams(m)
	if err != nil {
		return proto.JobText{}, from, err
	}
	defer close()
	state, final := job.State(), job.Ended()
	if from.stdout > out.Total || from.stderr > errs.Total {
		return proto.JobText{}, from, proto.Errorf(proto.CodeInvalid, "from %q is behind the end of the output", from)
	}
	o, err := out.Passage(from.stdout, limit, final)
	if err != nil {
		return proto.JobText{}, from, err
	}
	e, err := errs.Passage(from.stderr, limit, final)
	if err != nil {
		return proto.JobText{}, from, err
	}
	next := place{o.Next, e.Next}
	text := proto.JobText{
		Job: job.rec.ID, State: state.State, Stdout: o.Text, Stderr: e.Text, ExitCode: -1, Running: !final,
		Next: next.String(), More: next.stdout < out.Total && o.Next > from.stdout || next.stderr < errs.Total && e.Next > from.stderr,
	}
	if state.ExitCode != nil {
		text.ExitCode = *state.ExitCode
	}
	return text, next, nil
}

// String is the place as job_output sends it: "STDOUT:STDERR" in bytes.
func (p place) String() string {
	return strconv.FormatInt(p.stdout, 10) + ":" + strconv.FormatInt(p.stderr, 10)
}

// parsePlace parses from of job_output: "0", or what String returned.
func parsePlace(text string) (place, error) {
	if text == "0" {
		return place{}, nil
	}
	first, second, ok := strings.Cut(text, ":")
	stdout, err1 := strconv.ParseUint(first, 10, 62)
	stderr, err2 := strconv.ParseUint(second, 10, 62)
	if !ok || err1 != nil || err2 != nil {
		return place{}, proto.Errorf(proto.CodeInvalid, `invalid from %q: use "0", or next of an earlier answer`, text)
	}
	return place{int64(stdout), int64(stderr)}, nil
}
