// Package repl is the file REPL: live pages as Markdown files. A page (of a browser, a
// worker, a program) connects over one of the transports; the service keeps a log
// file for it, sends it the code that people, editors and models write into that
// file, and writes the results below.
//
// Package page decides what the text of a file means, package tail changes a file
// without losing what other programs write. This package joins both with connected
// pages, clocks and callers.
package repl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"zino/pkg/audit"
	"zino/pkg/config"
	"zino/pkg/durable"
	"zino/pkg/gate"
	"zino/pkg/replfile"
	"zino/pkg/rpc"
	"zino/pkg/watch"
	"zino/proto"
	"zino/services/repl/tail"
)

// logDir holds the logs.
const logDir = replfile.Logs

// Service is the file REPL of one directory. It is safe for concurrent use.
type Service struct {
	cfg      config.Repl
	guard    *gate.Guard // of the calls of models
	audit    *audit.Log  // nil: nothing is recorded
	log      *slog.Logger
	dir      *tail.Dir
	lock     io.Closer
	watcher  *watch.Watcher
	registry *registry
	wholeMax int // bytes of a value with all of its parts

	closed chan struct{}
	once   sync.Once
	wg     sync.WaitGroup // of the watcher and the registry
	work   work           // callers that wait for an answer, and jobs that are out

	mu          sync.Mutex          // locked last, and never while files are read or written
	logs        map[string]*pageLog // by id
	live        map[string]*Page    // by id
	subscribers map[*subscriber]bool
	faults      map[string]string // by file
}

// UseAudit has the calls of models recorded in l. It must be called before the first request.
func (s *Service) UseAudit(l *audit.Log) { s.audit = l }

// New opens the directory of the REPL and watches it. What an earlier service left
// executing is marked as interrupted. A directory that another service has locked is
// an error.
func New(cfg config.Repl, guard *gate.Guard, log *slog.Logger) (*Service, error) {
	s, err := open(cfg, log)
	if err != nil {
		return nil, fmt.Errorf("repl: %w", err)
	}
	s.guard = guard
	s.run(watch.New([]string{filepath.Join(cfg.Dir, logDir)}, pollEvery, log))
	return s, nil
}

// open returns a service whose goroutines do not run yet.
func open(cfg config.Repl, log *slog.Logger) (*Service, error) {
	dir, err := tail.OpenDir(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("the directory of the REPL, [repl] dir: %w", err)
	}
	s := &Service{
		cfg: cfg, log: log, dir: dir, closed: make(chan struct{}), wholeMax: usualWholeMax, work: work{idle: make(chan struct{})},
		logs: map[string]*pageLog{}, live: map[string]*Page{}, subscribers: map[*subscriber]bool{}, faults: map[string]string{},
	}
	s.registry = &registry{s: s, soon: make(chan struct{}, 1), late: make(chan struct{}, 1)}
	if s.lock, err = dir.Lock(logDir); err != nil {
		err = fmt.Errorf("%s in %s: %w", logDir, cfg.Dir, err)
		if errors.Is(err, durable.ErrLocked) {
			err = fmt.Errorf("%w; stop it first", err)
		}
		return nil, errors.Join(err, dir.Close())
	}
	s.openLeft()
	return s, nil
}

// run starts to watch the logs and to write the registry.
func (s *Service) run(w *watch.Watcher) {
	s.watcher = w
	s.wg.Go(s.follow)
	s.wg.Go(s.registry.run)
	s.wg.Go(s.expire)
}

// Drain refuses new pages and new code, waits until nothing runs and no caller waits
// for an answer, or ctx is done, and closes the service.
func (s *Service) Drain(ctx context.Context) error {
	select {
	case <-s.work.drain():
	case <-ctx.Done():
	case <-s.closed:
	}
	return s.Close()
}

// Close marks what is executing as interrupted, disconnects all pages and unlocks the
// directory.
func (s *Service) Close() error {
	var err error
	s.once.Do(func() {
		s.work.drain()
		close(s.closed)
		for _, l := range s.allLogs() {
			l.close()
		}
		err = s.watcher.Close()
		s.wg.Wait()
		s.registry.write()
		err = errors.Join(err, s.lock.Close(), s.dir.Close())
	})
	return err
}

func (s *Service) allLogs() []*pageLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.logs))
}

// debounce is how long a file must be left alone before it is read.
func (s *Service) debounce() time.Duration {
	return time.Duration(s.cfg.DebounceMS) * time.Millisecond
}

// Register has s answer the methods of repl.
func (s *Service) Register(srv *rpc.Server) {
	rpc.Handle(srv, proto.ReplPages, s.Pages)
	rpc.Handle(srv, proto.ReplEval, s.Eval)
	rpc.Handle(srv, proto.ReplResult, s.Result)
	rpc.Handle(srv, proto.ReplPart, s.Part)
	rpc.Handle(srv, proto.ReplEvents, s.Events)
	rpc.Handle(srv, proto.ReplStarted, s.Started)
	rpc.Handle(srv, proto.ReplLog, s.Log)
	rpc.Handle(srv, proto.ReplOutline, s.Outline)
	rpc.HandleEvents(srv, proto.ReplAttach, s.attach)
	rpc.HandleEvents(srv, proto.ReplWatch, func(ctx context.Context, req proto.WatchPages, out *rpc.Out) (proto.Empty, error) {
		return proto.Empty{}, s.Watch(ctx, req, out.Event)
	})
	srv.OnStats(s.stats)
}

// stats adds the directory, the number of runs under way, and the files that cannot be used.
func (s *Service) stats(stats *proto.Stats) {
	if stats.Info == nil {
		stats.Info = map[string]string{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stats.Info["dir"] = s.cfg.Dir
	stats.Info["runs"] = strconv.Itoa(s.work.runs())
	for _, file := range slices.Sorted(maps.Keys(s.faults)) {
		stats.Problems = append(stats.Problems, s.faults[file])
	}
}

// setFault notes what is wrong with a file; "" if nothing is.
func (s *Service) setFault(file, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text == "" {
		delete(s.faults, file)
		return
	}
	s.faults[file] = text
}

// unavailable is the answer of a service that is stopping.
func unavailable() *proto.Error {
	return &proto.Error{Code: proto.CodeUnavailable, Message: "The REPL is stopping. Try again when it has restarted."}
}

// work counts what a stopping service waits for: callers that wait for an answer,
// and jobs that are out.
type work struct {
	mu    sync.Mutex
	count int           // of callers and jobs
	jobs  int           // that are out
	last  bool          // no caller may begin any more
	idle  chan struct{} // closed when last is set and the count is 0
}

// begin counts a caller, unless the service is stopping.
func (w *work) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.last {
		w.count++
	}
	return !w.last
}

// add counts a job. It may be the next one of a request that is under way.
func (w *work) add() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
	w.jobs++
}

// endJob ends what add has counted.
func (w *work) endJob() {
	w.mu.Lock()
	w.jobs--
	w.mu.Unlock()
	w.end()
}

// runs returns how many jobs are out.
func (w *work) runs() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.jobs
}

// end ends what begin has counted.
func (w *work) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count--
	w.closeIfIdle()
}

func (w *work) draining() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// drain lets no caller begin any more. The channel is closed when the count is 0.
func (w *work) drain() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = true
	w.closeIfIdle()
	return w.idle
}

func (w *work) closeIfIdle() {
	if !w.last || w.count > 0 {
		return
	}
	select {
	case <-w.idle:
	default:
		close(w.idle)
	}
}
