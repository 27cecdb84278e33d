package daemon

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zino/pkg/durable"
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
		if req.DryRun {
			reply, err = rpc.Call(ctx, s.services["exc"], m, req)
			return err
		}
		mark := undoMark{ID: strings.ToLower(rand.Text()), Redo: redo}
		if err := sess.writeUndoMark(mark); err != nil {
			return err
		}
		req.ID, req.Recover = mark.ID, false
		reply, err = rpc.Call(ctx, s.services["exc"], m, req)
		for until := time.Now().Add(undoGone); errors.Is(err, rpc.ErrHungUp) && time.Now().Before(until); {
			select {
			case <-time.After(undoPause):
			case <-ctx.Done():
				return ctx.Err()
			}
			if reply, err = s.recoverUndo(ctx, sess.id, mark); errors.Is(err, rpc.ErrConnect) { // it is being started again
				err = fmt.Errorf("exc has ended and %w", rpc.ErrHungUp)
			}
		}
		if err != nil {
			return err // the next lock of the session asks what was changed
		}
		s.auditUndo(ctx, req, reply, redo)
		return sess.storeUndo(ctx, w, reply, redo)
	})
	return reply, err
}

const (
	undoGone  = 30 * time.Second // how long an undo waits for an exc that has ended
	undoPause = 100 * time.Millisecond
)

// undoMark names an undo from before it is carried out until its event is stored. If exc
// or this process is killed meanwhile, finishUndo stores the event.
type undoMark struct {
	ID   string `json:"id"`
	Redo bool   `json:"redo,omitempty"`
}

// undoMark is the file of the session's mark.
func (sess *session) undoMark() string {
	return filepath.Join(sess.cfg.Daemon.DataDir, "undo", sess.id+".json")
}

func (sess *session) writeUndoMark(mark undoMark) error {
	err := os.MkdirAll(filepath.Dir(sess.undoMark()), durable.DirMode)
	if err == nil {
		err = durable.ReplacePath(sess.undoMark(), durable.FileMode, func(w io.Writer) error { return json.NewEncoder(w).Encode(mark) })
	}
	if err != nil {
		return fmt.Errorf("no file was changed, because the undo cannot be recorded: %w", err)
	}
	return nil
}

// recoverUndo asks exc what an undo has changed.
func (s *Service) recoverUndo(ctx context.Context, session string, mark undoMark) (proto.Undone, error) {
	m := proto.ExcUndo
	if mark.Redo {
		m = proto.ExcRedo
	}
	return rpc.Call(ctx, s.services["exc"], m, proto.Undo{SessionID: session, ID: mark.ID, Recover: true})
}

// finishUndo stores the event of an undo that was cut off before that. It is called
// when the session has been locked. An exc that does not answer is asked the next time.
func (sess *session) finishUndo(ctx context.Context, w *writer) error {
	data, err := os.ReadFile(sess.undoMark())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var mark undoMark
	if err == nil {
		err = json.Unmarshal(data, &mark)
	}
	var reply proto.Undone
	if err == nil {
		reply, err = sess.recoverUndo(ctx, sess.id, mark)
	}
	switch {
	case errors.Is(err, proto.ErrNotFound): // it has changed nothing
		return sess.removeUndoMark()
	case err != nil:
		sess.Service.log.Warn("it is not known whether an undo was carried out", "session", sess.id, "error", err)
		return nil
	}
	return sess.storeUndo(ctx, w, reply, mark.Redo)
}

// storeUndo stores the event of an undo that was carried out, and removes its mark. A
// crash between the two stores the event twice.
func (sess *session) storeUndo(ctx context.Context, w *writer, reply proto.Undone, redo bool) error {
	event := proto.LogUndo{Turn: reply.Turn, Redo: redo, TS: timestamp()}
	for _, path := range append(slices.Clone(reply.Restored), reply.Removed...) {
		if !strings.HasSuffix(path, "/") {
			event.Restored = append(event.Restored, path)
		}
	}
	if len(event.Restored) > 0 {
		b, err := wire.AppendObject([]byte{'['}, proto.TypeUndo, event)
		if err != nil {
			return err
		}
		if err := sess.append(ctx, w, append(b, ']'), nil, func() {}); err != nil {
			return err
		}
	}
	return sess.removeUndoMark()
}

func (sess *session) removeUndoMark() error {
	err := os.Remove(sess.undoMark())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// diff returns the file changes of a turn.
func (s *Service) diff(ctx context.Context, req proto.Undo) (reply proto.TurnDiff, err error) {
	err = s.betweenTurns(ctx, req.SessionID, func(ctx context.Context, _ *session, _ *writer) error {
		s.refreshHints(ctx)
		req.Mask = s.masking()
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
		return sess.elsewhere(errElsewhere)
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
