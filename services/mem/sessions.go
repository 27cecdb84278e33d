package mem

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"zino/pkg/config"
	"zino/pkg/durable"
	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/proto"
	"zino/services/mem/recall"
	"zino/services/mem/session"
)

// sessions opens the store of sessions on first use, because histories and memories
// do not need its directory.
type sessions struct {
	dir      string
	noSync   bool
	indexed  bool // [mem] session_index
	problems *problems

	mu       sync.Mutex
	store    *session.Store
	recaller *recall.Index
}

func newSessions(cfg config.Mem, p *problems) *sessions {
	return &sessions{dir: sessionsDir(cfg), noSync: cfg.Durability == "os", indexed: cfg.SessionIndex, problems: p}
}

// dropIndex removes the index for recall if it is switched off.
func (s *sessions) dropIndex() {
	if s.indexed {
		return
	}
	root, err := os.OpenRoot(s.dir)
	if err == nil {
		err = errors.Join(recall.Delete(root), root.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.problems.set("recall", fileError("the index for recall is switched off and cannot be removed", s.dir, err).Error(), nil)
	}
}

func sessionsDir(cfg config.Mem) string {
	if cfg.SessionsDir != "" {
		return cfg.SessionsDir
	}
	return filepath.Join(cfg.DataDir, "sessions")
}

// open returns the store. After an error the next request tries again.
func (s *sessions) open() (*session.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store != nil {
		return s.store, nil
	}
	root, err := openPrivateDir(s.dir, s.problems)
	if err != nil {
		return nil, fileError("sessions", s.dir, err)
	}
	prefix := filepath.Base(s.dir) + "/"
	s.store = session.New(root, session.Options{
		NoSync: s.noSync, Report: s.problems.reporter(root, prefix),
		Removing: func(id string) error { return recall.Forget(root, id) },
		Damaged: func(file string, events int) {
			text := ""
			if events > 0 {
				text = fmt.Sprintf("%s: no model is sent %d of the events, because their type, role or content is damaged: repair or delete those lines", prefix+file, events)
			}
			s.problems.set("damaged "+prefix+file, text, changed(root, file))
		},
		Skipped: func(file string, lines int) {
			s.problems.set("skipped "+prefix+file, skippedLines(prefix+file, lines), changed(root, file))
		},
	})
	if err := s.store.RemoveUnused(); err != nil {
		s.problems.set("attachments", fileError("attachments of sessions that do not exist cannot be removed", s.dir, err).Error(), nil)
	}
	s.recaller = recall.New(root, s.store, func(problem string) { s.problems.set("recall", problem, nil) })
	return s.store, nil
}

func skippedLines(file string, n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %d lines are skipped, because they are not JSON objects: repair or delete them", file, n)
}

// openPrivateDir opens a directory, creating it if necessary, and makes it private.
func openPrivateDir(dir string, p *problems) (*os.Root, error) {
	if err := os.MkdirAll(dir, durable.DirMode); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if err := makePrivate(root, p); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

func (s *sessions) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store == nil {
		return nil
	}
	s.recaller.Close()
	return s.store.Close()
}

func (s *sessions) register(srv *rpc.Server) {
	rpc.Handle(srv, proto.MemCreateSession, s.create)
	rpc.Handle(srv, proto.MemAppendSession, s.append)
	rpc.Handle(srv, proto.MemReadSession, onStore(s, (*session.Store).Read))
	rpc.Handle(srv, proto.MemListSessions, onStore(s, (*session.Store).List))
	rpc.Handle(srv, proto.MemFindSession, onStore(s, (*session.Store).Find))
	rpc.Handle(srv, proto.MemSearchSessions, onStore(s, (*session.Store).Search))
	rpc.Handle(srv, proto.MemRecallSessions, s.recall)
	rpc.Handle(srv, proto.MemForkSession, onStore(s, (*session.Store).Fork))
	rpc.Handle(srv, proto.MemExportSession, onStore(s, (*session.Store).Export))
	rpc.Handle(srv, proto.MemRemoveSession, onStore(s, (*session.Store).Remove))
	rpc.Handle(srv, proto.MemGetMessages, onStore(s, (*session.Store).Messages))
	rpc.Handle(srv, proto.MemPutAttachment, onStore(s, (*session.Store).PutAttachment))
	rpc.Handle(srv, proto.MemGetAttachment, onStore(s, (*session.Store).GetAttachment))
	rpc.Handle(srv, proto.MemOpenTurns, onStore(s, (*session.Store).OpenTurns))
	rpc.HandleEvents(srv, proto.MemHoldSession, s.holder(srv.Draining()))
}

// onStore makes a handler from a method of the store.
func onStore[Req, Rep any](s *sessions, fn func(*session.Store, context.Context, Req) (Rep, error)) func(context.Context, Req) (Rep, error) {
	return func(ctx context.Context, req Req) (rep Rep, err error) {
		store, err := s.open()
		if err != nil {
			return rep, err
		}
		return fn(store, ctx, req)
	}
}

func (s *sessions) create(ctx context.Context, req proto.CreateSession) (proto.SessionPlace, error) {
	header, err := cleanHeader(req.Header)
	if err != nil {
		return proto.SessionPlace{}, err
	}
	req.Header = header
	return onStore(s, (*session.Store).Create)(ctx, req)
}

func (s *sessions) append(ctx context.Context, req proto.AppendSession) (proto.SessionPlace, error) {
	header, err := cleanHeader(req.Header)
	if err != nil {
		return proto.SessionPlace{}, err
	}
	events, err := wire.Elements(req.Events)
	if err != nil {
		return proto.SessionPlace{}, invalid(fmt.Errorf("events: %w", err))
	}
	for i, event := range events {
		events[i] = clean(event)
	}
	store, err := s.open()
	if err != nil {
		return proto.SessionPlace{}, err
	}
	req.Header = header
	return store.Append(ctx, req, events)
}

// cleanHeader is clean for a header, which may be invalid JSON.
func cleanHeader(raw proto.Raw) (proto.Raw, error) {
	if len(raw) > 0 && !wire.Valid(raw) {
		return nil, invalid(errors.New("header: expected an object"))
	}
	return clean(raw), nil
}

// holder returns a handler that keeps the lock until the connection is closed or
// the service begins to stop: shutdown must not wait for a long turn.
func (s *sessions) holder(stopping <-chan struct{}) func(context.Context, proto.HoldSession, *rpc.Out) (proto.SessionName, error) {
	return func(ctx context.Context, req proto.HoldSession, out *rpc.Out) (proto.SessionName, error) {
		holding, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-stopping:
				cancel()
			case <-holding.Done():
			}
		}()
		err := s.hold(holding, req, out)
		if errors.Is(err, context.Canceled) && ctx.Err() == nil {
			err = nil // the service stops while the caller waits for the lock
		}
		return proto.SessionName{SessionID: req.SessionID}, err
	}
}

func (s *sessions) hold(ctx context.Context, req proto.HoldSession, out *rpc.Out) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	return store.Hold(ctx, req,
		func() error { return out.Event("waiting", proto.SessionWaiting{SessionID: req.SessionID}) },
		func(held proto.SessionHeld) error { return out.Event("held", held) })
}
