// Package rtr is the router to language models: it alone holds the providers'
// keys and talks to the network. It takes a conversation in OpenAI's form and
// answers with the model's text and the tools that it calls, whole or streamed.
//
// Who answers is decided by the configuration's provider, or by the request's:
//
//	anthropic, openai, gemini, openrouter, ollama
//	          the provider of that name (vendors.go); openai is also any
//	          OpenAI-compatible endpoint, which [api] base_url names
//	offline   no model at all: a small reader of plain commands (offline.go)
//	auto      as with none; else a model server that is found on loopback
//	          (probe.go); else offline
//	(none)    [api] base_url; else the provider whose key is there; else an
//	          error that says what to set
//
// How wires differ is the business of the package wire, how often a
// provider is asked that of retry, and what it costs that of ledger.
package rtr

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"zino/pkg/config"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/rtr/ledger"
	"zino/services/rtr/retry"
	"zino/services/rtr/wire"
)

// Service answers the methods of rtr.
type Service struct {
	log      *slog.Logger
	set      settings
	client   *http.Client
	probes   []server // the model servers that auto looks for
	limiters map[string]*retry.Limiter
	minutely map[string]bool // the providers that may be asked so often a minute
	books    *ledger.Ledger  // nil if there is a budget that cannot be kept
	unkept   error           // why a budget cannot be kept
	pause    func(context.Context, time.Duration) error
	life     context.Context // ends with Close
	stop     context.CancelFunc

	listLock sync.Mutex
	lists    map[listKey]list

	efforts *efforts

	warnLock sync.Mutex
	warned   map[warning]string // to the session that was warned last

	deciding chan struct{} // holds one token: whoever has it may touch what follows
	chosen   map[wish]*target
	stamped  string // of the user's keys, when chosen was made
}

// New returns a Service for a configuration and the keys in the environment.
// It reaches for nothing yet: a model server is looked for when one is needed.
func New(cfg *config.Config, log *slog.Logger) (*Service, error) {
	set, err := readSettings(cfg)
	if err != nil {
		return nil, err
	}
	s := &Service{
		log: log, set: set, client: wire.NewClient(), probes: localServers, limiters: map[string]*retry.Limiter{},
		minutely: map[string]bool{}, pause: pause, deciding: make(chan struct{}, 1), chosen: map[wish]*target{}, efforts: newEfforts(),
		lists: map[listKey]list{}, warned: map[warning]string{},
	}
	for _, v := range vendors {
		l := config.Limit{}
		for _, configured := range cfg.Rtr.Limit {
			if configured.Provider == v.name {
				l = configured
			}
		}
		s.minutely[v.name] = l.RequestsPerMinute > 0
		s.limiters[v.name] = retry.New(l.Concurrent, l.RequestsPerMinute, nil)
	}
	for _, problem := range set.problems {
		log.Warn(problem)
	}
	s.openBooks(cfg)
	s.life, s.stop = context.WithCancel(context.Background())
	s.deciding <- struct{}{}
	return s, nil
}

// openBooks opens the ledger. Without a budget it may be impossible to keep;
// with one, nothing is asked then.
func (s *Service) openBooks(cfg *config.Config) {
	b := cfg.Budget
	limits := ledger.Limits{USDPerDay: b.USDPerDay, USDPerSession: b.USDPerSession, TokensPerDay: b.TokensPerDay, TokensPerSession: b.TokensPerSession, File: cfg.Source}
	if s.books, s.unkept = ledger.Open(cfg.Rtr.DataDir, limits, time.Now, s.log); s.unkept != nil {
		s.log.Error(s.unkept.Error())
	}
}

// Register adds the methods to a server.
func (s *Service) Register(server *rpc.Server) {
	rpc.Handle(server, proto.RtrCapabilities, s.capabilities)
	rpc.HandleText(server, proto.RtrInfer, s.infer)
	rpc.Handle(server, proto.RtrUsage, s.usage)
	rpc.Handle(server, proto.RtrModels, s.models)
	server.OnStats(s.stats)
}

// Close lets go of connections that are kept for the next request, and of the
// books.
func (s *Service) Close() error {
	s.stop()
	s.client.CloseIdleConnections()
	if s.books == nil {
		return nil
	}
	if err := s.books.Close(); err != nil {
		s.log.Warn("usage is not recorded", "error", err) // no reason to end in failure
	}
	return nil
}

func (s *Service) capabilities(ctx context.Context, _ proto.CapabilitiesRequest) (proto.RouterCapabilities, error) {
	t, err := s.target(ctx, wish{})
	if err != nil {
		return proto.RouterCapabilities{}, err
	}
	caps := s.learn(ctx, t).caps // whether its tools are native has to be asked
	caps.Streaming = s.set.streaming
	return caps, nil
}

func (s *Service) usage(ctx context.Context, req proto.UsageRequest) (proto.UsageReport, error) {
	if s.books == nil {
		return proto.UsageReport{}, s.unkept
	}
	return s.books.Report(ctx, req)
}

// stats shows what is decided, without deciding.
func (s *Service) stats(stats *proto.Stats) {
	stats.Problems = append(stats.Problems, s.set.problems...)
	if s.unkept != nil {
		stats.Problems = append(stats.Problems, s.unkept.Error())
	}
	select {
	case <-s.deciding:
	default:
		return // somebody is looking at this moment
	}
	defer s.endTurn()
	t := s.chosen[wish{}]
	if t == nil {
		return
	}
	if problem := t.caps.Problem; problem != "" && !slices.Contains(stats.Problems, problem) {
		stats.Problems = append(stats.Problems, problem)
	} else if problem == "" {
		stats.Info = map[string]string{"provider": t.caps.Provider, "model": t.caps.Model, "endpoint": t.caps.Endpoint}
	}
}

// pause waits, or returns the context's error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
