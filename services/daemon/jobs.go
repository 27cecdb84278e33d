package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"zino/pkg/durable"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// The end of a background job that the model started with wake is reported to it once:
// as a message of the open turn, at a checkpoint; with [daemon] job_wake as a turn of its
// own; else in the session's next turn. What is due follows from the session log
// (turnlog.Log.Jobs) and from exc, which knows how each job ended.

const (
	// jobTimeout is how long exc may take to say whether a job has ended.
	jobTimeout = 2 * time.Second
	// jobWait is how long a request to wait for a job's end takes at most, in seconds.
	jobWait = 600
	// awaitPause is the first pause before exc, or a locked session, is tried again. It
	// doubles up to awaitPauseMax.
	awaitPause    = time.Second
	awaitPauseMax = 30 * time.Second
	// markAge is how long a job is remembered: exc removes a finished one after 7 days.
	markAge = 8 * 24 * time.Hour
)

// endedJobs returns the messages of jobs that have ended since the model read of them.
func (t *turn) endedJobs(r *relay) (says []proto.LogSay) {
	t.mu.Lock()
	due := slices.Clone(t.log.Jobs)
	t.mu.Unlock()
	for _, id := range due {
		if slices.Contains(r.reported, id) {
			continue
		}
		job, err := t.jobNow(id)
		if err != nil {
			t.Service.log.Debug("it is not known whether a job has ended", "session", t.session.id, "job", id, "error", err)
			continue
		}
		if job.State == proto.JobRunning {
			continue
		}
		r.reported = append(r.reported, id)
		says = append(says, proto.LogSay{Say: proto.NewSayID(), Turn: t.id, Mode: proto.ViaJob, Job: id, Text: endLine(job), TS: timestamp()})
	}
	return says
}

// jobNow returns the present state of a job.
func (t *turn) jobNow(id string) (proto.JobInfo, error) {
	ctx, cancel := context.WithTimeout(t.runCtx, jobTimeout)
	defer cancel()
	return rpc.Call(ctx, t.services["exc"], proto.ExcJobWait, proto.WaitJob{Job: id, SessionID: t.session.id, TimeoutS: new(0)})
}

// endLine is the message about a job's end: "exit 0", "signal 9", "memory limit",
// "stopped" or "lost", and its duration if that is known.
func endLine(job proto.JobInfo) string {
	how := "lost"
	switch code := job.ExitCode; {
	case job.State == proto.JobLost || code == nil:
	case job.Stopped:
		how = "stopped"
	case job.Limit != "":
		how = job.Limit + " limit"
	case *code < 0:
		how = fmt.Sprintf("signal %d", -*code)
	default:
		how = fmt.Sprintf("exit %d", *code)
	}
	started, err := time.Parse(time.RFC3339, job.Started)
	ended, err2 := time.Parse(time.RFC3339, job.Ended)
	if errors.Join(err, err2) == nil {
		how += fmt.Sprintf(" after %ds", int64(max(ended.Sub(started), 0).Seconds()))
	}
	return fmt.Sprintf("[job %s ended: %s]", job.ID, how)
}

// wakeDir has an empty file for each session with jobs whose end is not reported yet:
// only their logs are read to find them.
func (s *Service) wakeDir() string { return filepath.Join(s.cfg.Daemon.DataDir, "wake") }

// noteJobs creates or removes the file of a session. session.mu is locked.
func (sess *session) noteJobs() {
	due := len(sess.log.Jobs) > 0
	if due == sess.marked {
		return
	}
	path := filepath.Join(sess.wakeDir(), sess.id)
	var err error
	if due {
		if err = os.MkdirAll(sess.wakeDir(), durable.DirMode); err == nil {
			err = os.WriteFile(path, nil, durable.FileMode)
		}
	} else if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		sess.Service.log.Warn("the end of a job may not be reported after a restart", "session", sess.id, "error", err)
	}
	sess.marked = due
}

// jobsMarked reports whether a session has a file, and removes one that is too old.
func (s *Service) jobsMarked(id string) bool {
	path := filepath.Join(s.wakeDir(), id)
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	if time.Since(info.ModTime()) > markAge {
		_ = os.Remove(path) // the next one tries again
		return false
	}
	return true
}

// wakes are the jobs whose end starts a turn.
type wakes struct {
	mu   sync.Mutex
	jobs map[string]bool // by id; false: it has ended, and starts no turn
}

// any reports whether a job is waited for: the daemon must not exit when idle.
func (w *wakes) any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, waits := range w.jobs {
		if waits {
			return true
		}
	}
	return false
}

// add reports whether the job was not known.
func (w *wakes) add(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.jobs[id]; known {
		return false
	}
	if w.jobs == nil {
		w.jobs = map[string]bool{}
	}
	w.jobs[id] = true
	return true
}

// remove forgets a job. One that starts no turn is remembered as long as the daemon runs.
func (w *wakes) remove(id string, never bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.jobs, id); never {
		w.jobs[id] = false
	}
}

// awaitJobs waits for the ends of the jobs of a session without open turns, if they start
// a turn. Jobs of a private constellation end with it. session.mu is locked.
func (sess *session) awaitJobs() {
	if sess.log == nil || !sess.cfg.Daemon.JobWake || sess.lifetime != proto.LifetimePersistent {
		return
	}
	for _, id := range sess.log.Jobs {
		sess.await(sess.id, id)
	}
}

// await waits for the end of a job, which then starts a turn.
func (s *Service) await(session, id string) {
	if s.wakes.add(id) {
		go s.awaitJob(session, id)
	}
}

// awaitMarked waits for the jobs that earlier processes have left.
func (s *Service) awaitMarked() {
	entries, err := os.ReadDir(s.wakeDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("jobs of earlier turns are not known", "error", err)
	}
	for _, e := range entries {
		if !s.jobsMarked(e.Name()) || !s.cfg.Daemon.JobWake {
			continue
		}
		log, err := s.readLog(s.life, e.Name(), 0)
		if err != nil {
			s.log.Warn("jobs of a session are not known", "session", e.Name(), "error", err)
			continue
		}
		for _, id := range log.Jobs {
			s.await(e.Name(), id)
		}
	}
}

// awaitJob starts a turn when a job has ended.
func (s *Service) awaitJob(session, id string) {
	for pause := awaitPause; s.life.Err() == nil; {
		job, err := rpc.Call(s.life, s.services["exc"], proto.ExcJobWait, proto.WaitJob{Job: id, SessionID: session, TimeoutS: new(jobWait)})
		switch {
		case errors.Is(err, proto.ErrNotFound):
			s.wakes.remove(id, true)
			return
		case err == nil && job.State == proto.JobRunning:
			continue
		case err == nil && job.Stopped: // the caller that stopped it does not wait for it
			s.wakes.remove(id, true)
			return
		case err == nil:
			if err = s.startForJob(session, job); err == nil {
				return
			}
		}
		if s.life.Err() == nil {
			s.log.Warn("the end of a job cannot be reported now", "session", session, "job", id, "error", err)
		}
		select {
		case <-time.After(pause):
		case <-s.life.Done():
		}
		pause = min(2*pause, awaitPauseMax)
	}
}

// errNotDue is the error of a turn for the end of a job that was reported before.
var errNotDue = errors.New("the end of the job was reported before")

// startForJob starts a turn with the options of the session's last one, unless a turn is
// open, which reports the job's end. After an error it is called again.
func (s *Service) startForJob(id string, job proto.JobInfo) error {
	sess := s.enter(id)
	defer sess.leave()
	if sess.leaveToTurn(job.ID) {
		return nil
	}
	if err := sess.load(); err != nil {
		return err
	}
	defer sess.rest()
	if sess.leaveToTurn(job.ID) {
		return nil
	}
	sess.mu.Lock()
	log := sess.log
	last := len(log.Turns) - 1
	never := last < 0 || log.Turns[last].State == proto.TurnContinued || log.Meta.Parent != nil || s.tooOld(cmp.Or(job.Ended, log.Updated))
	var q logRequest
	if !never && wire.DecodeReply(log.Request, &q) != nil {
		never = true
	}
	sess.mu.Unlock()
	if never {
		s.wakes.remove(job.ID, true)
		return nil
	}
	req := q.chat(id)
	req.Message, req.Reachable, req.ClientFiles, req.OutputSchema = endLine(job), false, false, nil
	t := sess.newTurn(context.Background(), req)
	t.job, t.onLimit = job.ID, q.OnLimit
	_, err := sess.start(t, true)
	switch {
	case errors.Is(err, errNotDue):
		s.wakes.remove(job.ID, false)
		return nil
	case err != nil && sess.leaveToTurn(job.ID):
		return nil
	case err != nil:
		return err
	}
	_, err = t.started()
	if err != nil { // it would fail again
		s.log.Error("the end of a job started no turn", "session", id, "job", job.ID, "error", err)
	}
	s.wakes.remove(job.ID, err != nil)
	return nil
}

// leaveToTurn forgets a job of a session with an open turn.
func (sess *session) leaveToTurn(job string) bool {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if len(sess.turns) == 0 && !sess.lot.has(sess.id) {
		return false
	}
	sess.wakes.remove(job, false)
	return true
}
