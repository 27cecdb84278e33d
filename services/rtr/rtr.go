// Package rtr is the router to language models, the only service with the
// providers' keys and the network. It takes a conversation in OpenAI's form and
// answers with the model's text and the tools that it calls, whole or streamed.
//
// Who answers is decided by the configuration's provider, or by the request's:
//
//	anthropic, openai, gemini, openrouter, ollama
//	          the provider of that name; openai is also any OpenAI-compatible
//	          endpoint, which [api] base_url names
//	offline   no model at all: a small parser of plain commands (offline.go)
//	auto      as without a name; else a model server found on loopback; else
//	          offline
//	(none)    [api] base_url; else the provider with a key; else an error that says
//	          what to set
//
// resolve.go chooses the model, infer.go asks it, embed.go asks one for vectors. Package wire has the formats of the
// providers and the meaning of their errors, package retry decides when one may be
// asked, and package ledger what it may cost.
package rtr

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"zino/pkg/audit"
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
	ledger   *ledger.Ledger // nil if there is a budget and it could not be opened
	noLedger error          // why
	pause    func(context.Context, time.Duration) error
	life     context.Context // ends with Close
	stop     context.CancelFunc
	efforts  efforts

	listLock sync.Mutex
	lists    map[listKey]list

	hints hints
	held  attachments
	audit *audit.Log // nil: nothing is recorded

	warnLock sync.Mutex
	warned   map[warning]string // to the session that was warned last

	resolving chan struct{} // holds one element: its receiver may use what follows
	resolved  map[selector]*target
	stamped   string // of the user's keys, when resolved was made
}

// New returns a Service for a configuration and the keys in the environment. It
// makes no request: a model server is searched for when it is needed.
func New(cfg *config.Config, log *slog.Logger) (*Service, error) {
	set, err := readSettings(cfg)
	if err != nil {
		return nil, err
	}
	s := &Service{
		log: log, set: set, client: wire.NewClient(), probes: localServers, limiters: map[string]*retry.Limiter{}, pause: pause,
		efforts: efforts{refused: map[effortKey]string{}, noSummary: map[effortKey]bool{}, noSchema: map[effortKey]bool{}, noResponses: map[string]string{}},
		lists:   map[listKey]list{}, warned: map[warning]string{}, resolving: make(chan struct{}, 1), resolved: map[selector]*target{},
	}
	for _, v := range vendors {
		l := config.Limit{}
		for _, configured := range cfg.Rtr.Limit {
			if configured.Provider == v.name {
				l = configured
			}
		}
		s.limiters[v.name] = retry.New(l.Concurrent, l.RequestsPerMinute, nil)
	}
	for _, problem := range set.problems {
		log.Warn(problem)
	}
	// Without a budget rtr works even if the ledger cannot be opened; with one, it
	// refuses requests.
	b := cfg.Budget
	limits := ledger.Limits{USDPerDay: b.USDPerDay, USDPerSession: b.USDPerSession, TokensPerDay: b.TokensPerDay, TokensPerSession: b.TokensPerSession, File: cfg.Source}
	if s.ledger, s.noLedger = ledger.Open(cfg.Rtr.DataDir, limits, time.Now, s.log); s.noLedger != nil {
		s.log.Error(s.noLedger.Error())
	}
	s.life, s.stop = context.WithCancel(context.Background())
	s.resolving <- struct{}{}
	return s, nil
}

// UseAudit has requests to providers recorded in l. It must be called before the first
// request.
func (s *Service) UseAudit(l *audit.Log) { s.audit = l }

// Register adds the methods to a server.
func (s *Service) Register(server *rpc.Server) {
	rpc.Handle(server, proto.RtrCapabilities, s.capabilities)
	rpc.HandleText(server, proto.RtrInfer, s.infer)
	rpc.Handle(server, proto.RtrHold, s.hold)
	rpc.Handle(server, proto.RtrEmbed, s.embed)
	rpc.Handle(server, proto.RtrUsage, s.usage)
	rpc.Handle(server, proto.RtrModels, s.models)
	rpc.Handle(server, proto.RtrMaskHints, s.maskHints)
	server.OnStats(s.stats)
}

// Close closes idle connections and the ledger.
func (s *Service) Close() error {
	s.stop()
	s.client.CloseIdleConnections()
	if s.ledger == nil {
		return nil
	}
	if err := s.ledger.Close(); err != nil {
		s.log.Warn("usage is not recorded", "error", err) // not a reason to exit with an error
	}
	return nil
}

func (s *Service) capabilities(ctx context.Context, req proto.ModelSelector) (proto.RouterCapabilities, error) {
	if !isProvider(req.Provider) {
		return proto.RouterCapabilities{}, &proto.Error{Code: proto.CodeInvalid, Message: unknownProvider(req.Provider)}
	}
	t, err := s.target(ctx, selector{provider: req.Provider, model: req.Model})
	if err != nil {
		return proto.RouterCapabilities{}, err
	}
	learned := s.learn(ctx, t) // whether its tools are native has to be asked
	caps := learned.caps
	caps.Streaming, caps.ContextWindow = s.set.streaming, learned.window
	return caps, nil
}

func (s *Service) usage(ctx context.Context, req proto.UsageRequest) (proto.UsageReport, error) {
	if s.ledger == nil {
		return proto.UsageReport{}, s.noLedger
	}
	return s.ledger.Report(ctx, req)
}

// stats reports the resolved targets, without resolving any.
func (s *Service) stats(stats *proto.Stats) {
	stats.Problems = append(stats.Problems, s.set.problems...)
	if s.noLedger != nil {
		stats.Problems = append(stats.Problems, s.noLedger.Error())
	}
	select {
	case <-s.resolving:
	default:
		return // another request is resolving
	}
	defer s.unlock()
	t := s.resolved[selector{}]
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
