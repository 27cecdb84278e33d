// Package repl is the file REPL: live pages as Markdown files. A realm (a page,
// a worker, a program) connects over one of the transports; the service keeps a
// file for it, gives it the code that people, editors and models write into that
// file, and writes below what comes of it.
//
// What a file's text means is the business of package page, how it is changed
// without losing what others write that of package tail. This package holds both
// together with realms, clocks and callers.
package repl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"zino/pkg/config"
	"zino/pkg/replfile"
	"zino/pkg/watch"
	"zino/proto"
	"zino/services/repl/tail"
)

// Service is the file REPL of one directory. It is safe for concurrent use.
type Service struct {
	cfg   config.Repl
	log   *slog.Logger
	dir   *tail.Dir
	lock  *tail.Lock
	watch *watch.Watcher
	board *registry

	closed chan struct{}
	once   sync.Once
	wg     sync.WaitGroup // of the watcher and the registry
	work   work           // callers that wait for an answer, and jobs that are out

	mu          sync.Mutex             // is taken last, and never held while files are read or written
	transcripts map[string]*transcript // by base name
	live        map[string]*Realm      // by id
	watchers    map[*subscriber]bool
	faults      map[string]string // by file
}

// New opens the directory of the REPL and begins to watch it. What an earlier
// service left executing is marked as interrupted. A directory that another
// service works on is an error.
func New(cfg config.Repl, log *slog.Logger) (*Service, error) {
	s, err := open(cfg, log)
	if err != nil {
		return nil, fmt.Errorf("repl: %w", err)
	}
	s.run(watch.New([]string{filepath.Join(cfg.Dir, logDir)}, checkEvery, log))
	return s, nil
}

// open makes a service that does nothing by itself yet.
func open(cfg config.Repl, log *slog.Logger) (*Service, error) {
	dir, err := tail.OpenDir(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("the directory of the REPL, [repl] dir: %w", err)
	}
	s := &Service{
		cfg: cfg, log: log, dir: dir, closed: make(chan struct{}), work: newWork(),
		transcripts: map[string]*transcript{}, live: map[string]*Realm{}, watchers: map[*subscriber]bool{}, faults: map[string]string{},
	}
	s.board = newRegistry(s)
	if s.lock, err = dir.Lock(logDir); err != nil {
		err = fmt.Errorf("%s in %s: %w", logDir, cfg.Dir, err)
		return nil, errors.Join(err, dir.Close())
	}
	s.markInterrupted()
	return s, nil
}

// logDir holds the logs.
const logDir = replfile.Logs

// run begins to watch and to write the registry.
func (s *Service) run(w *watch.Watcher) {
	s.watch = w
	s.wg.Go(s.follow)
	s.wg.Go(s.board.run)
}

// Drain refuses new realms and new code, waits until nothing runs and nobody waits
// for an answer any more, or ctx is done, and closes the service.
func (s *Service) Drain(ctx context.Context) error {
	select {
	case <-s.work.drain():
	case <-ctx.Done():
	case <-s.closed:
	}
	return s.Close()
}

// Close ends all realms and lets go of the directory. What they execute is marked
// as interrupted when the service starts again.
func (s *Service) Close() error {
	var err error
	s.once.Do(func() {
		s.work.drain()
		close(s.closed)
		for _, t := range s.all() {
			t.close()
		}
		err = s.watch.Close()
		s.wg.Wait()
		s.board.write()
		err = errors.Join(err, s.lock.Close(), s.dir.Close())
	})
	return err
}

// all are the transcripts that there are.
func (s *Service) all() []*transcript {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*transcript, 0, len(s.transcripts))
	for _, t := range s.transcripts {
		list = append(list, t)
	}
	return list
}

// unavailable is the answer of a service that is ending.
func unavailable() *proto.Error {
	return &proto.Error{Code: proto.CodeUnavailable, Message: "The REPL is stopping. Try again when it has started anew."}
}
