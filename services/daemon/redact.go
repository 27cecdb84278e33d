package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/daemon/turnlog"
)

// redact masks the secrets in a session, or in all that the services keep. Any client may
// do that, as any may delete sessions.
func (s *Service) redact(ctx context.Context, req proto.Redact, out *rpc.Out) (proto.RedactDone, error) {
	switch {
	case req.All == (req.SessionID != ""):
		return proto.RedactDone{}, proto.Errorf(proto.CodeInvalid, "redact needs either session_id or all")
	case req.Undo && !req.All:
		return proto.RedactDone{}, proto.Errorf(proto.CodeInvalid, "undo needs all")
	case !req.All && proto.CheckSessionID(req.SessionID) != nil:
		return proto.RedactDone{}, proto.CheckSessionID(req.SessionID)
	}
	// Without the hints the keys of providers would stay in the files.
	if err := s.askHints(ctx); err != nil {
		return proto.RedactDone{}, fmt.Errorf("nothing was masked, because the keys of providers are not known: %w", err)
	}
	r := &redaction{Service: s, req: req, mask: s.masking(), out: out}
	var err error
	if !req.DryRun {
		s.auditSession(ctx, req.SessionID, "redact")
	}
	if req.All {
		err = r.all(ctx)
	} else {
		err = r.session(ctx, req.SessionID)
	}
	return r.done, err
}

// redaction is a request redact in progress.
type redaction struct {
	*Service
	req  proto.Redact
	mask *proto.Masking
	out  *rpc.Out
	done proto.RedactDone
}

// all masks the secrets in all places. Sessions are first found, and then masked one by
// one while they are locked.
func (r *redaction) all(ctx context.Context) error {
	req := proto.RedactStore{Mask: r.mask, DryRun: r.req.DryRun, Undo: r.req.Undo}
	var sessions []proto.Redacted
	err := r.relay(ctx, r.mem, proto.MemRedactStore, req, func(found proto.Redacted) error {
		if found.What == proto.RedactedSession {
			sessions = append(sessions, found)
			return nil
		}
		return r.report(found)
	})
	if err != nil {
		return err
	}
	for _, found := range sessions {
		if r.req.DryRun {
			err = r.report(found)
		} else if err = r.session(ctx, found.Name); err != nil && ctx.Err() == nil && !errors.Is(err, errCallerGone) {
			if errors.Is(err, proto.ErrNotFound) {
				continue // it was deleted meanwhile
			}
			found.Left = err.Error()
			err = r.report(found)
		}
		if err != nil {
			return err
		}
	}
	if err := r.approvals(); err != nil {
		return err
	}
	return r.relay(ctx, r.services["exc"], proto.ExcRedact, req, r.report)
}

// approvals masks requests to allow a call that are closed.
func (r *redaction) approvals() error {
	m, err := r.asked.masks.Masker(r.mask, os.Environ())
	if err != nil {
		return err
	}
	var failed error
	err = r.asked.store.Redact(m, r.req.DryRun, func(what, id string, secrets int, left string) {
		if failed == nil {
			failed = r.report(proto.Redacted{What: what, Name: id, Masked: secrets, Left: left})
		}
	})
	if err != nil {
		r.problems([]string{"approvals: " + err.Error()})
	}
	return failed
}

// relay makes a request of another service, and calls report for each place that it finds.
func (r *redaction) relay(ctx context.Context, c *rpc.Client, m proto.Method[proto.RedactStore, proto.RedactDone], req proto.RedactStore, report func(proto.Redacted) error) error {
	done, err := rpc.CallEvents(ctx, c, m, req, func(_ string, payload []byte) error {
		var found proto.Redacted
		if err := wire.DecodeReply(payload, &found); err != nil {
			return err
		}
		return report(found)
	})
	r.problems(done.Problems)
	return err
}

// problems keeps what could not be searched or changed, each text once.
func (r *redaction) problems(list []string) {
	for _, problem := range list {
		if !slices.Contains(r.done.Problems, problem) {
			r.done.Problems = append(r.done.Problems, problem)
		}
	}
}

// report sends a place with secrets.
func (r *redaction) report(found proto.Redacted) error {
	r.done.Masked += found.Masked
	if err := r.out.Event(proto.TypeRedacted, found); err != nil {
		return sent(err)
	}
	return sent(r.out.Flush())
}

// session masks a session that has no open turn.
func (r *redaction) session(ctx context.Context, id string) error {
	rpc.Note(ctx, slog.String("session", id))
	req := proto.RedactSession{SessionID: id, Mask: r.mask, DryRun: r.req.DryRun}
	var reply proto.SessionRedacted
	var err error
	if r.req.DryRun {
		reply, err = rpc.Call(ctx, r.mem, proto.MemRedactSession, req)
	} else {
		err = r.betweenTurns(ctx, id, func(ctx context.Context, sess *session, _ *writer) error {
			reply, err = rpc.Call(ctx, r.mem, proto.MemRedactSession, req)
			if err == nil && reply.Masked == 0 {
				return nil
			}
			sess.forgetLog(ctx) // also after an error: the file may have changed
			return err
		})
	}
	r.problems(reply.Problems)
	if err != nil || reply.Masked == 0 {
		return err
	}
	if !r.req.DryRun {
		r.auditSession(ctx, id, "redact")
	}
	return r.report(proto.Redacted{What: proto.RedactedSession, Name: id, Masked: reply.Masked})
}

// forgetLog reads the log of a locked session anew after it was rewritten, drops what is
// in memory of its turns, and ends the followers, whose offsets are those of the old file.
func (sess *session) forgetLog(ctx context.Context) {
	log, err := sess.readLog(ctx, sess.id, 0)
	if err != nil {
		log = turnlog.New(sess.id, 0)
	}
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.log, sess.logFrom, sess.recent = log, 0, nil
	for _, f := range slices.Clone(sess.live) {
		f.fail(proto.SessionErrorf(proto.CodeInvalid, "secrets in session %s were masked, and its offsets have changed: follow it again from its start", sess.id))
	}
	sess.live = nil
}

// fail ends a follower with an error.
func (f *follower) fail(err *proto.Error) {
	f.mu.Lock()
	f.ended, f.err = true, err
	f.mu.Unlock()
	f.notify()
}
