package exc

import (
	"context"
	"path/filepath"

	"zino/pkg/config"
	"zino/proto"
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
	return nil
}

// undoTurn takes back the file changes of a turn.
func (s *Service) undoTurn(ctx context.Context, req proto.Undo) (proto.Undone, error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return proto.Undone{}, err
	}
	defer leave()
	return s.undo.Undo(ctx, req, false)
}

// redoTurn takes back an undo.
func (s *Service) redoTurn(ctx context.Context, req proto.Undo) (proto.Undone, error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return proto.Undone{}, err
	}
	defer leave()
	return s.undo.Undo(ctx, req, true)
}

// diffTurn shows the file changes of a turn.
func (s *Service) diffTurn(ctx context.Context, req proto.Undo) (proto.TurnDiff, error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return proto.TurnDiff{}, err
	}
	defer leave()
	return s.undo.Diff(ctx, req)
}

// removeUndo removes the records of a session.
func (s *Service) removeUndo(_ context.Context, req proto.UndoRemove) (proto.Empty, error) {
	if err := proto.CheckSessionID(req.SessionID); err != nil {
		return proto.Empty{}, err
	}
	return proto.Empty{}, s.undo.Remove(req.SessionID)
}
