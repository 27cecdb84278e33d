package daemon

import (
	"context"
	"log/slog"
	"strings"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
)

// undo takes back the file changes of a turn.
func (s *Service) undo(ctx context.Context, req proto.Undo) (proto.Undone, error) {
	return s.takeBack(ctx, req, proto.ExcUndo, false)
}

// redo takes back an undo.
func (s *Service) redo(ctx context.Context, req proto.Undo) (proto.Undone, error) {
	return s.takeBack(ctx, req, proto.ExcRedo, true)
}

func (s *Service) takeBack(ctx context.Context, req proto.Undo, m proto.Method[proto.Undo, proto.Undone], redo bool) (reply proto.Undone, err error) {
	err = s.betweenTurns(ctx, req.SessionID, func(ctx context.Context, sess *session, w *writer) error {
		if reply, err = rpc.Call(ctx, s.services["exc"], m, req); err != nil {
			return err
		}
		event := proto.LogUndo{Turn: reply.Turn, Redo: redo, TS: timestamp()}
		for _, paths := range [][]string{reply.Restored, reply.Removed} {
			for _, path := range paths {
				if !strings.HasSuffix(path, "/") {
					event.Restored = append(event.Restored, path)
				}
			}
		}
		if req.DryRun || len(event.Restored) == 0 {
			return nil
		}
		b, err := wire.AppendObject([]byte{'['}, proto.TypeUndo, event)
		if err != nil {
			return err
		}
		return sess.append(ctx, w, append(b, ']'), nil, func() {})
	})
	return reply, err
}

// diff returns the file changes of a turn.
func (s *Service) diff(ctx context.Context, req proto.Undo) (reply proto.TurnDiff, err error) {
	err = s.betweenTurns(ctx, req.SessionID, func(ctx context.Context, _ *session, _ *writer) error {
		reply, err = rpc.Call(ctx, s.services["exc"], proto.ExcDiff, req)
		return err
	})
	return reply, err
}

// betweenTurns calls do while the session is locked and has no open turn. Otherwise
// the error is busy: nothing waits for the end of a turn.
func (s *Service) betweenTurns(ctx context.Context, id string, do func(context.Context, *session, *writer) error) error {
	if err := proto.CheckSessionID(id); err != nil {
		return err
	}
	rpc.Note(ctx, slog.String("session", id))
	sess := s.enter(id)
	defer sess.leave()
	if err := sess.busy(); err != nil {
		return err
	}
	exists := false
	settle := func(w *writer, held proto.SessionHeld) error {
		exists = held.Next > 0
		return sess.settle(w, held)
	}
	w := sess.lock(context.WithoutCancel(ctx), id, settle, func(*writer, error) {})
	defer w.close()
	select {
	case <-w.granted:
	case <-w.ended:
		return sessionError(w.refused)
	case <-w.waits:
		return proto.SessionErrorf(proto.CodeBusy, "another turn is under way on session %s: try again after its end", id)
	case <-ctx.Done():
		return ctx.Err()
	}
	if !exists {
		return proto.Errorf(proto.CodeNotFound, "no session %q", id)
	}
	if err := sess.busy(); err != nil {
		return err
	}
	return do(ctx, sess, w)
}

// busy is the error of a session with an open turn.
func (sess *session) busy() error {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	open := ""
	if len(sess.turns) > 0 {
		open = sess.turns[0].id
	} else if sess.log != nil && len(sess.log.Open()) > 0 {
		open = sess.log.Open()[0].ID
	}
	if open == "" {
		return nil
	}
	return proto.SessionErrorf(proto.CodeBusy, "session %s has an open turn %s: wait for its end, or zino stop %[1]s", sess.id, open)
}
