package exc

import (
	"context"
	"path/filepath"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/exc/calls"
	"zino/services/exc/files"
	"zino/services/exc/jobs"
	"zino/services/exc/undo"
)

// OpenUndo has the file changes of turns recorded, and finishes an undo that was cut
// off. It must be called after ProtectConfig and before the first request.
func (s *Service) OpenUndo(cfg config.Undo) error {
	dir := filepath.Join(s.host.private[0], "undo")
	store, err := undo.Open(dir, cfg, s.log)
	if err != nil {
		return err
	}
	store.Exclude(append(s.host.data, s.host.private...)...)
	if err := store.Recover(s.ctx); err != nil {
		s.log.Warn("undo: an undo that was cut off cannot be finished: the next one tries again", "error", err)
	}
	s.undo = store
	s.running.Go(func() { store.Run(s.ctx) })
	for _, job := range s.jobs.All() {
		if !job.Ended() || job.Record().Late {
			s.captureLate(job, job.Done())
		}
	}
	return nil
}

// registerUndo adds the methods for file changes of turns to r.
func (s *Service) registerUndo(r *rpc.Server) {
	rpc.Handle(r, proto.ExcUndo, within(s, func(ctx context.Context, req proto.Undo) (proto.Undone, error) { return s.undo.Undo(ctx, req, false) }))
	rpc.Handle(r, proto.ExcRedo, within(s, func(ctx context.Context, req proto.Undo) (proto.Undone, error) { return s.undo.Undo(ctx, req, true) }))
	rpc.Handle(r, proto.ExcDiff, within(s, s.diff))
	rpc.Handle(r, proto.ExcUndoRemove, s.removeUndo)
}

// within counts the requests of f as running, so that the service waits for them when it
// closes.
func within[Req, Rep any](s *Service, f func(context.Context, Req) (Rep, error)) func(context.Context, Req) (Rep, error) {
	return func(ctx context.Context, req Req) (reply Rep, err error) {
		ctx, leave, err := s.enter(ctx)
		if err != nil {
			return reply, err
		}
		defer leave()
		return f(ctx, req)
	}
}

// diff returns the file changes of a turn, without secrets.
func (s *Service) diff(ctx context.Context, req proto.Undo) (proto.TurnDiff, error) {
	m, err := s.masker(req.Mask, nil)
	if err != nil {
		return proto.TurnDiff{}, err
	}
	reply, err := s.undo.Diff(ctx, req)
	reply.Diff = maskText(m, reply.Diff)
	return reply, err
}

// removeUndo removes the records of a session.
func (s *Service) removeUndo(_ context.Context, req proto.UndoRemove) (proto.Empty, error) {
	if err := proto.CheckSessionID(req.SessionID); err != nil {
		return proto.Empty{}, err
	}
	return proto.Empty{}, s.undo.Remove(req.SessionID)
}

// capture is what is known of the files before a call changes them.
type capture struct {
	tool string
	root string
	snap *undo.Snapshot // before a command
	file *undo.File     // before write and edit
	why  string         // why nothing is known
}

// at says where a call makes changes.
func (c *turnCall) at(root string) undo.At {
	return undo.At{Root: root, Session: c.session, Turn: c.turn}
}

// captureBefore keeps what undo needs of the state before a call. Commands at the
// levels read-only and unit change no files that this process can read.
func (s *Service) captureBefore(ctx context.Context, c *turnCall, st start) {
	had := capture{tool: c.tool, root: st.root}
	var err error
	switch {
	case c.tool == files.Read:
	case st.plan != nil:
		had.file, err = await(ctx, s.limit, func(context.Context) (*undo.File, error) {
			return s.undo.BeforeFile(c.at(st.root), st.plan.Path, st.plan.Before), nil
		})
	case st.level != proto.LevelReadOnly && st.level != proto.LevelUnit:
		had.snap, err = await(ctx, s.limit, func(ctx context.Context) (*undo.Snapshot, error) {
			return s.undo.Before(ctx, c.at(st.root)), nil
		})
	}
	if err != nil {
		had.why = notCaptured(err)
	}
	c.capture = had
}

// captureAfter records what a call has changed, also one that was cancelled. It
// returns why undo does not cover the changes, or "".
func (s *Service) captureAfter(ctx context.Context, c *turnCall) string {
	c.mu.Lock()
	st, had := c.start, c.capture
	c.mu.Unlock()
	if st == nil || had.why != "" {
		return had.why
	}
	by := undo.By{Tool: had.tool, Call: c.key, Made: c.changed}
	why, err := await(context.WithoutCancel(ctx), s.limit, func(ctx context.Context) (string, error) {
		switch {
		case had.file != nil:
			return had.file.After(by, st.plan.After), nil
		case had.snap != nil:
			return s.undo.After(ctx, c.at(had.root), had.snap, by), nil
		}
		return "", nil
	})
	if err != nil {
		return notCaptured(err)
	}
	return why
}

// captureMade records a change of a file that an earlier process has made, and has
// perhaps not recorded.
func (s *Service) captureMade(ctx context.Context, c *turnCall, now start, made calls.Call) string {
	why, err := await(ctx, s.limit, func(context.Context) (string, error) {
		file := s.undo.MadeFile(c.at(now.root), now.plan.Path, made.Before)
		return file.After(undo.By{Tool: c.tool, Call: c.key, Made: c.changed}, made.After), nil
	})
	if err != nil {
		return notCaptured(err)
	}
	return why
}

// captureJob records what a job has changed that another process has started.
func (s *Service) captureJob(ctx context.Context, id string) string {
	job, err := s.jobs.Get(id, "")
	if err != nil {
		return ""
	}
	return s.captureSince(ctx, job.Record(), false)
}

// captureLate records what a job changes after the result of its call, when ended is
// closed. If this process ends before, the next one does it.
func (s *Service) captureLate(job *jobs.Job, ended <-chan struct{}) {
	s.running.Go(func() {
		select {
		case <-ended:
		case <-s.ctx.Done():
			return
		}
		s.captureSince(s.ctx, job.Record(), true)
		if job.Record().Late {
			s.setLate(job, false)
		}
	})
}

// setLate records whether late changes of a job are still to be captured.
func (s *Service) setLate(job *jobs.Job, late bool) {
	if err := job.SetLate(late); err != nil {
		s.log.Warn("cannot record that late changes of a job are to be captured, or were", "job", job.ID(), "error", err)
	}
}

// captureSince records what has changed in the root of a job since the last scan.
func (s *Service) captureSince(ctx context.Context, job jobs.Record, late bool) string {
	if job.Sandbox == proto.LevelReadOnly || job.Sandbox == proto.LevelUnit {
		return ""
	}
	why, err := await(context.WithoutCancel(ctx), s.limit, func(ctx context.Context) (string, error) {
		at := undo.At{Root: job.Root, Session: job.Session, Turn: job.Turn}
		return s.undo.After(ctx, at, nil, undo.By{Tool: toolBash, Call: job.Key, Late: late, Made: func(list []undo.Change) { s.recordLate(job, list) }}), nil
	})
	if err != nil {
		return notCaptured(err)
	}
	return why
}

// firstNotice reports whether a notice of the turn is to say why undo does not cover the changes
// of a call: once. A file that is too large is named in its result alone.
func (s *Service) firstNotice(c *turnCall, why string) bool {
	return why != "" && why != undo.TooLarge && s.undo.FirstNotice(c.at(""))
}

func notCaptured(err error) string { return "undo does not cover this change: " + err.Error() }
