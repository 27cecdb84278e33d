// Package jobs runs commands that outlive exc.
//
// Each job has a directory, with job.json (what runs), state.json (how it goes on)
// and its output, and a process of its own, zino-exc --job: its supervisor, which
// runs the command with package run, stores its output and writes state.json. A lock
// on state.json lives as long as the supervisor. exc follows a job over the
// supervisor's control socket; after a restart it finds the job again by the
// directory, the lock and the socket. No process number is ever stored.
package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/durable"
	"zino/pkg/mask"
	"zino/proto"
	"zino/services/exc/cgroup"
)

const (
	sessionMax = 16 // running jobs of a session
	totalMax   = 64 // running jobs

	keepAge   = 7 * 24 * time.Hour // of finished jobs
	keepCount = 200
	keepBytes = 2 << 30

	sweepPause = 15 * time.Second // between two looks for leases and old jobs
)

// Config says where jobs are and how long they live.
type Config struct {
	Dir      string        // has a directory for each job
	Runtime  string        // has the control sockets, in j/
	Socket   string        // starts a unit for each supervisor; empty: they are children of this process
	Lifeline *os.File      // at its end of file all jobs stop; nil: none; see EndWith
	Private  bool          // all jobs end with this constellation, and none can be kept
	Linger   time.Duration // how long a job outlives the lease of its session
	MaxAge   time.Duration // of a kept job; 0: none
	Orphan   time.Duration // how long a job that is not in the background runs without a caller

	Mask        func(*proto.Masking) (*mask.Masker, error) // for a request
	OutputMax   int64                                      // bytes of each output file
	OutputBytes int                                        // bytes of each stream in an answer
}

// Jobs are the jobs of a constellation. It is safe for concurrent use.
type Jobs struct {
	cfg  Config
	tree *cgroup.Tree // nil: no control groups here
	log  *slog.Logger

	ctx    context.Context // done when it closes
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	jobs   map[string]*Job
	leases map[string]time.Time // by session, when it was renewed
	opened time.Time
	own    *os.File // write end of the lifeline if it is this process's own; else nil
}

// Open finds the jobs in cfg.Dir: it follows those that run, and finishes those
// whose supervisor is gone.
func Open(cfg Config, tree *cgroup.Tree, log *slog.Logger) (*Jobs, error) {
	for _, dir := range []string{cfg.Dir, filepath.Join(cfg.Runtime, socketDir)} {
		if err := os.MkdirAll(dir, durable.DirMode); err != nil {
			return nil, err
		}
	}
	j := &Jobs{cfg: cfg, tree: tree, log: log, jobs: map[string]*Job{}, leases: map[string]time.Time{}, opened: time.Now()}
	j.ctx, j.cancel = context.WithCancel(context.Background())
	entries, err := os.ReadDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), "j-") {
			continue
		}
		if err := j.find(filepath.Join(cfg.Dir, e.Name())); err != nil {
			log.Warn("cannot read a job", "job", e.Name(), "error", err)
		}
	}
	j.wg.Go(j.sweep)
	return j, nil
}

// EndWith has all jobs that are started from now on stop at the end of file of a
// pipe. With nil they outlive this process only as units: nothing else would stop
// the jobs of an exc that was started by hand.
func (j *Jobs) EndWith(lifeline *os.File) (err error) {
	if lifeline == nil && !j.Units() {
		lifeline, j.own, err = os.Pipe()
	}
	j.cfg.Lifeline = lifeline
	return err
}

// Close stops following jobs; they run on. Those that end with the lifeline are
// waited for.
func (j *Jobs) Close() {
	if j.own != nil {
		closeAll(j.own)
	}
	if hungUp(j.cfg.Lifeline) {
		ctx, cancel := context.WithTimeout(j.ctx, callLimit)
		defer cancel()
		for _, job := range j.list("") {
			if err := job.Wait(ctx); err != nil {
				j.log.Warn("a job does not end", "job", job.rec.ID, "error", err)
			}
		}
	}
	j.cancel()
	j.wg.Wait()
	_ = os.Remove(filepath.Join(j.cfg.Runtime, socketDir)) // unless jobs run on
}

// hungUp reports whether the other end of a pipe is closed.
func hungUp(pipe *os.File) bool {
	if pipe == nil {
		return false
	}
	fds := []unix.PollFd{{Fd: int32(pipe.Fd())}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1 && fds[0].Revents&unix.POLLHUP != 0
}

// find reads the job in dir.
func (j *Jobs) find(dir string) error {
	rec, err := readRecord(dir)
	if errors.Is(err, fs.ErrNotExist) { // not yet, or never started
		return j.removeUnstarted(dir)
	}
	if err != nil {
		return err
	}
	job := newJob(j, rec)
	ended, err := job.load()
	if err != nil {
		return err
	}
	if !ended && rec.Runtime != j.cfg.Runtime {
		return nil // of another constellation, which follows it
	}
	j.jobs[rec.ID] = job
	if !ended {
		j.wg.Go(job.follow)
	}
	return nil
}

// removeUnstarted removes a directory that a killed exc has left. Another
// constellation may be about to start a job there: it gets a minute.
func (j *Jobs) removeUnstarted(dir string) error {
	fi, err := os.Stat(dir)
	if err != nil || time.Since(fi.ModTime()) < time.Minute {
		return err
	}
	return os.RemoveAll(dir)
}

// Dir is the directory of the job id, which may not exist.
func (j *Jobs) Dir(id string) string { return filepath.Join(j.cfg.Dir, id) }

// Get is the job id, of that session if it is not empty. The error is not_found.
func (j *Jobs) Get(id, session string) (*Job, error) {
	j.mu.Lock()
	job := j.jobs[id]
	j.mu.Unlock()
	switch {
	case job != nil && (session == "" || job.rec.Session == session):
		return job, nil
	case session != "":
		return nil, proto.Errorf(proto.CodeNotFound, "no job %s in this session", id)
	}
	return nil, proto.Errorf(proto.CodeNotFound, "no job %s", id)
}

// list are the jobs of a session, or all, the oldest first.
func (j *Jobs) list(session string) (list []*Job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, job := range j.jobs {
		if session == "" || job.rec.Session == session {
			list = append(list, job)
		}
	}
	slices.SortFunc(list, func(a, b *Job) int {
		return cmp.Or(cmp.Compare(a.rec.Started, b.rec.Started), cmp.Compare(a.rec.ID, b.rec.ID))
	})
	return list
}

// All are all jobs, the oldest first.
func (j *Jobs) All() []*Job { return j.list("") }

// Units reports whether each job has a unit of the host.
func (j *Jobs) Units() bool { return j.cfg.Socket != "" }

// Running reports whether a job has not ended.
func (j *Jobs) Running() bool {
	return slices.ContainsFunc(j.list(""), func(job *Job) bool { return !job.Ended() })
}

// add registers a job that is about to start. The error is busy.
func (j *Jobs) add(job *Job) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	own, all := 0, 0
	for _, other := range j.jobs {
		if other.Ended() {
			continue
		}
		all++
		if other.rec.Session == job.rec.Session {
			own++
		}
	}
	switch {
	case own >= sessionMax:
		return proto.Errorf(proto.CodeBusy, "%d jobs of this session are running: stop one first (zino jobs)", own)
	case all >= totalMax:
		return proto.Errorf(proto.CodeBusy, "%d jobs are running: stop one first (zino jobs --all)", all)
	}
	if j.jobs[job.rec.ID] != nil {
		return proto.Errorf(proto.CodeInvalid, "there is a job %s", job.rec.ID)
	}
	j.jobs[job.rec.ID] = job
	return nil
}

// drop forgets a job.
func (j *Jobs) drop(job *Job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.jobs, job.rec.ID)
}

// StopTurn stops the jobs of a turn that are not in the background, and waits for
// their end. An empty turn is that of no job.
func (j *Jobs) StopTurn(ctx context.Context, session, turn string) error {
	var errs []error
	for _, job := range j.list(session) {
		if turn != "" && job.rec.Turn == turn && !job.State().Background {
			errs = append(errs, job.Stop(ctx))
		}
	}
	return errors.Join(errs...)
}

// Outputs are the output files that results name, the newest 32.
func (j *Jobs) Outputs() (paths []string) {
	for _, job := range j.list("") {
		if job.named() {
			paths = append(paths, filepath.Join(job.dir, stdoutFile), filepath.Join(job.dir, stderrFile))
		}
	}
	return paths[max(0, len(paths)-2*32):]
}

// lease renews the leases of sessions.
func (j *Jobs) lease(sessions []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, session := range sessions {
		j.leases[session] = time.Now()
	}
}

// sweep stops jobs whose time is over and removes old ones, until it closes.
func (j *Jobs) sweep() {
	for {
		j.expire(time.Now())
		j.collect(time.Now())
		select {
		case <-time.After(min(sweepPause, max(j.cfg.Linger/4, 50*time.Millisecond))):
		case <-j.ctx.Done():
			return
		}
	}
}

// expire stops the jobs whose time is over at now.
func (j *Jobs) expire(now time.Time) {
	list := j.list("")
	j.mu.Lock()
	sessions := map[string]bool{}
	leases := map[string]time.Time{}
	for _, job := range list {
		sessions[job.rec.Session] = true
	}
	for session, at := range j.leases {
		if !sessions[session] && now.Sub(at) > j.cfg.Linger {
			delete(j.leases, session)
			continue
		}
		leases[session] = at
	}
	j.mu.Unlock()
	for _, job := range list {
		if job.Ended() {
			continue
		}
		if why := job.expired(now, later(leases[job.rec.Session], j.opened)); why != "" {
			j.log.Info("stopping a job", "job", job.rec.ID, "reason", why)
			j.wg.Go(func() {
				if err := job.Stop(j.ctx); err != nil && j.ctx.Err() == nil {
					j.log.Warn("cannot stop a job", "job", job.rec.ID, "error", err)
				}
			})
		}
	}
}

// later is the later one of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// collect removes finished jobs that are too old, too many or too large, the oldest
// first.
func (j *Jobs) collect(now time.Time) {
	var ended []*Job
	for _, job := range j.list("") {
		if job.Ended() {
			ended = append(ended, job)
		}
	}
	slices.SortFunc(ended, func(a, b *Job) int { return a.endedAt().Compare(b.endedAt()) })
	bytes := int64(0)
	for i, job := range slices.Backward(ended) {
		bytes += job.stored()
		if newer := len(ended) - 1 - i; newer >= keepCount || bytes > keepBytes && newer > 0 || now.Sub(job.endedAt()) > keepAge {
			if err := job.Remove(); err != nil {
				j.log.Warn("cannot remove an old job", "job", job.rec.ID, "error", fmt.Errorf("%s: %w", job.dir, err))
			}
		}
	}
}
