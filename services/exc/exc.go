// Package exc runs code and carries out the tools read, write, edit and bash.
//
// Each run has a run.Cmd (what to run, and how), a Sandbox (what confines it at its
// level) and a run.Result. Its code is in a private file, its environment has no
// secrets, and a supervisor kills all that it starts, also when this process is
// killed.
package exc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"zino/pkg/audit"
	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/pkg/durable"
	"zino/pkg/gate"
	"zino/pkg/mask"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/exc/calls"
	"zino/services/exc/jobs"
	"zino/services/exc/run"
	"zino/services/exc/undo"
)

const (
	// validateLimit is the time that static analysis may take.
	validateLimit = 15 * time.Second
	// reviewGrace is how long the analysis of code may last after the end of its run.
	reviewGrace = 2 * time.Second
	// outputCeiling is the output at which a confined command is stopped.
	outputCeiling = 256 << 20
	// reviewsMax is how many analyses may run beside executions.
	reviewsMax = 2
)

// Service runs code for the executors of a catalog.
type Service struct {
	catalog       *catalog.Catalog
	log           *slog.Logger
	timeout       float64 // seconds, as configured
	limit         time.Duration
	validateLimit time.Duration
	reviewGrace   time.Duration
	outputMax     int
	ceiling       int64 // bytes of output at which a confined command is stopped
	passEnv       []string
	files         *workspace
	host          *host
	guard         *gate.Guard // nil in tests: every call is permitted
	outputs       *run.Files  // of commands, where they are too long for a result
	jobs          *jobs.Jobs
	undo          *undo.Store     // nil: switched off
	draining      <-chan struct{} // closed when exc begins to stop; nil: it does not serve
	firstWait     time.Duration   // see the constant
	sessionLimit  time.Duration   // after which a command of a session goes to the background; 0: none
	helpers       helpers         // for read, write and edit in the sandbox
	reviews       chan struct{}   // a token for each running review
	masks         *mask.Source
	audit         *audit.Log // nil: nothing is recorded
	policyFiles   []string
	journal       *calls.Journal
	turns         turns
	pipes         pipes
	homes         homes
	at            func(step string) // what a test does between the steps of a call with a key

	reviewWarnings atomic.Int64

	ctx    context.Context // done when the service closes
	cancel context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// Supervise must be the first call of main in every program that runs code,
// TestMain included. It returns at once, except in the copies of the program that
// exc starts as supervisors, for what comes before a command, and for files.
func Supervise() {
	run.Supervise()
	if len(os.Args) == 2 && os.Args[1] == jobs.Flag {
		jobs.Main()
	}
	if len(os.Args) == 2+filesArgs && os.Args[1] == filesArg {
		serveFiles(os.Args[2:])
		os.Exit(0)
	}
}

// New makes the service, whose calls guard decides. The program must have called
// Supervise.
func New(cfg config.Exc, guard *gate.Guard, cat *catalog.Catalog, log *slog.Logger) (*Service, error) {
	s, err := newIn(temporary(), cfg, cat, log)
	if err == nil {
		s.guard = guard
	}
	return s, err
}

// newIn is New with a directory for code and outputs.
func newIn(parent string, cfg config.Exc, cat *catalog.Catalog, log *slog.Logger) (*Service, error) {
	if !run.Hooked() {
		return nil, fmt.Errorf("exc.Supervise must be the first call of this program's main")
	}
	data, err := openData(cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("[exc] data_dir: %w; set ZINO_HOME, or [exc] data_dir, to a directory that can be written", err)
	}
	space, err := openWorkspace(parent, log)
	if err != nil {
		return nil, err
	}
	s := &Service{
		catalog: cat, log: log, files: space, host: newHost(cfg), outputs: run.NewFiles(space.newDir, space.remove),
		timeout: cfg.Timeout, limit: time.Duration(cfg.Timeout * float64(time.Second)), validateLimit: validateLimit, reviewGrace: reviewGrace,
		outputMax: cfg.OutputMax, ceiling: outputCeiling, passEnv: cfg.PassEnv,
		reviews: make(chan struct{}, reviewsMax), at: func(string) {},
	}
	s.host.private = []string{data}
	s.pipes.open = map[string]*pipe{}
	s.homes = homes{dir: filepath.Join(data, "mcp", "home"), max: homeMax, units: [2]string{run.HomeSocket, run.HomeNetSocket}, used: map[string]int{}}
	s.firstWait = firstWait
	s.UseMask(config.Default().Mask)
	s.sessionLimit = time.Duration(cfg.SessionTimeout * float64(time.Second))
	s.turns = turns{orphanTimeout: cfg.OrphanTimeout.Value(), running: map[*turnCall]bool{}, keys: map[string]*turnCall{}, stopped: map[turnID]time.Time{}}
	if s.journal, err = calls.Open(filepath.Join(data, "calls"), log); err != nil {
		space.close()
		return nil, fmt.Errorf("[exc] data_dir: %w", err)
	}
	if s.jobs, err = s.openJobs(cfg, data); err != nil {
		space.close()
		return nil, errors.Join(err, s.journal.Close())
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.finishJobs()
	if asRoot() {
		log.Warn(rootWarning)
	}
	return s, nil
}

// openData makes the directory of exc's data, to which only this user has access, and
// returns its path without symbolic links.
func openData(dir string) (string, error) {
	if err := os.MkdirAll(dir, durable.DirMode); err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	return filepath.Abs(real)
}

// Register adds the methods of exc to s.
func (s *Service) Register(r *rpc.Server) {
	rpc.Handle(r, proto.ExcExecute, s.execute)
	rpc.Handle(r, proto.ExcValidate, s.validate)
	rpc.Handle(r, proto.ExcCapabilities, s.capabilities)
	rpc.HandleEvents(r, proto.ExcCall, s.call)
	rpc.HandleEvents(r, proto.ExcPipe, s.pipe)
	rpc.Handle(r, proto.ExcPipeWrite, s.writePipe)
	rpc.Handle(r, proto.ExcRemoveHome, s.removeHome)
	rpc.HandleEvents(r, proto.ExcRedact, s.redact)
	rpc.Handle(r, proto.ExcPreview, within(s, s.preview))
	rpc.Handle(r, proto.ExcJobStop, s.stopJob)
	s.draining = r.Draining()
	rpc.Handle(r, proto.ExcStopTurn, s.stopTurn)
	r.KeepWhile(s.turns.busy)
	s.jobs.Register(r)
	s.registerUndo(r)
	r.OnStats(s.stats)
}

// Close stops all runs but jobs, waits until they are gone, and removes their files.
func (s *Service) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
	if first {
		s.jobs.Close()
		s.closeHelpers()
		s.files.close()
		return errors.Join(s.host.close(), s.journal.Close())
	}
	return nil
}

// enter counts a request until leave. The context that it returns is also cancelled
// when the service closes.
func (s *Service) enter(ctx context.Context) (working context.Context, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, errStopping
	}
	s.running.Add(1)
	working, cancel := context.WithCancel(ctx)
	detach := context.AfterFunc(s.ctx, cancel)
	return working, func() { detach(); cancel(); s.running.Done() }, nil
}

// capabilities lists the executors.
func (s *Service) capabilities(ctx context.Context, _ proto.CapabilitiesRequest) (proto.ExecutorCapabilities, error) {
	reply := proto.ExecutorCapabilities{Executors: map[string]proto.Executor{}, Timeout: s.timeout}
	for _, tool := range s.catalog.Snapshot().Executors() {
		e := proto.Executor{Command: tool.Executor, FileExtension: tool.FileExtension}
		if tool.StaticAnalysis != "" {
			e.StaticAnalysis = &tool.StaticAnalysis
			_, _, e.HasValidator = analyser(tool)
		}
		reply.Executors[tool.Executor] = e
	}
	for _, level := range proto.Levels {
		if s.levelProblem(ctx, level) == nil {
			reply.Sandboxes = append(reply.Sandboxes, level)
		}
	}
	var err error
	reply.Sandbox, reply.Network, err = s.host.settle("", nil)
	return reply, err
}

const rootWarning = "exc runs code as root: start Zino as an ordinary user"

func asRoot() bool { return os.Geteuid() == 0 }

// stats adds executors, levels and problems to the counters.
func (s *Service) stats(st *proto.Stats) {
	snapshot := s.catalog.Snapshot()
	st.Problems = append(st.Problems, snapshot.Problems...)
	if asRoot() {
		st.Problems = append(st.Problems, rootWarning)
	}
	var names []string
	for _, tool := range snapshot.Executors() {
		names = append(names, tool.Executor)
		if _, err := locate(tool.Executor); err != nil {
			st.Problems = append(st.Problems, fmt.Sprintf("%s: command %s not found: install it or remove the file", tool.File, tool.Executor))
		}
	}
	if st.Info == nil {
		st.Info = map[string]string{}
	}
	st.Info["executors"] = strings.Join(names, ", ")
	st.Info["analysis warnings"] = strconv.FormatInt(s.reviewWarnings.Load(), 10)
	s.levelStats(s.ctx, st)
}
