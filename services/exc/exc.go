// Package exc runs code and carries out the tools read, write, edit and bash.
// Each run gets a private file for its code, an environment without secrets,
// and a supervisor: a copy of this program that is the parent of all that the
// code starts and leaves nothing of it behind, not even when this process is
// killed.
package exc

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/exc/run"
)

const (
	// validateLimit is the time that static analysis may take.
	validateLimit = 15 * time.Second
	// reviewGrace is how long the analysis beside a run may go on after its end.
	reviewGrace = 2 * time.Second
	// outputCeiling is far more than anyone reads, and costs the host little.
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
	outputs       *run.Files    // of commands, where they are too long for a result
	helpers       helpers       // for read, write and edit in the sandbox
	reviews       chan struct{} // one place for each review under way

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
	if len(os.Args) == 2+filesArgs && os.Args[1] == filesArg {
		serveFiles(os.Args[2:])
		os.Exit(0)
	}
}

// New makes the service. The program's main must have called Supervise.
func New(cfg config.Exc, cat *catalog.Catalog, log *slog.Logger) (*Service, error) {
	return newIn(temporary(), cfg, cat, log)
}

// newIn is New with a directory for code and outputs.
func newIn(parent string, cfg config.Exc, cat *catalog.Catalog, log *slog.Logger) (*Service, error) {
	if !run.Hooked() {
		return nil, fmt.Errorf("exc.Supervise must be the first call of this program's main")
	}
	space, err := openWorkspace(parent, log)
	if err != nil {
		return nil, err
	}
	s := &Service{
		catalog: cat, log: log, files: space, host: newHost(cfg), outputs: run.NewFiles(space.newDir, space.remove),
		timeout: cfg.Timeout, limit: time.Duration(cfg.Timeout * float64(time.Second)), validateLimit: validateLimit, reviewGrace: reviewGrace,
		outputMax: cfg.OutputMax, ceiling: outputCeiling, passEnv: cfg.PassEnv,
		reviews: make(chan struct{}, reviewsMax),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if asRoot() {
		log.Warn(rootWarning)
	}
	return s, nil
}

// Register adds the methods of exc to s.
func (s *Service) Register(r *rpc.Server) {
	rpc.Handle(r, proto.ExcExecute, s.execute)
	rpc.Handle(r, proto.ExcValidate, s.validate)
	rpc.Handle(r, proto.ExcCapabilities, s.capabilities)
	rpc.HandleEvents(r, proto.ExcCall, s.call)
	r.OnStats(s.stats)
}

// Close stops what still runs, waits until it is gone, and removes all files.
func (s *Service) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
	if first {
		s.closeHelpers()
		s.files.close()
		return s.host.close()
	}
	return nil
}

// enter admits work, which ends with leave. The context returned is also done
// when the service closes.
func (s *Service) enter(ctx context.Context) (working context.Context, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, &proto.Error{Code: proto.CodeUnavailable, Message: "exc is stopping: try again"}
	}
	s.running.Add(1)
	working, cancel := context.WithCancel(ctx)
	detach := context.AfterFunc(s.ctx, cancel)
	return working, func() { detach(); cancel(); s.running.Done() }, nil
}

// capabilities lists the executors.
func (s *Service) capabilities(context.Context, proto.CapabilitiesRequest) (proto.ExecutorCapabilities, error) {
	reply := proto.ExecutorCapabilities{Executors: map[string]proto.Executor{}, Timeout: s.timeout}
	for _, tool := range s.catalog.Snapshot().Executors() {
		e := proto.Executor{Command: tool.Executor, FileExtension: tool.FileExtension}
		if tool.StaticAnalysis != "" {
			e.StaticAnalysis = &tool.StaticAnalysis
			_, _, e.HasValidator = analyser(tool)
		}
		reply.Executors[tool.Executor] = e
	}
	return reply, nil
}

const rootWarning = "exc runs code as root: start Zino as an ordinary user"

func asRoot() bool { return os.Geteuid() == 0 }

// stats adds what people should know to the counters.
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
