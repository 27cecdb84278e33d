package exc

import (
	"context"
	"strings"
	"time"

	"zino/pkg/catalog"
	"zino/pkg/rpc"
	"zino/proto"
)

// validate has static analysis look at code.
func (s *Service) validate(ctx context.Context, req proto.Validate) (proto.Validation, error) {
	tool, ok := s.catalog.Snapshot().Executor(req.Executor)
	if !ok {
		return proto.Validation{Errors: unknownExecutor(req.Executor)}, nil
	}
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return proto.Validation{}, err
	}
	defer leave()
	level, _, err := s.sandbox.settle(wish{}) // as code is run for those who do not say how
	if err != nil {
		return proto.Validation{}, err
	}
	v, err := s.analyse(ctx, tool, req.Code, level)
	if err != nil {
		return proto.Validation{}, asError(err)
	}
	return v, nil
}

// verdictOfSyntax words what a look at a shell's syntax came to: a fault, or
// nothing, also where the parser could not cope.
func verdictOfSyntax(o outcome) proto.Validation {
	if o.exitCode() != 1 || o.timedOut {
		return proto.Validation{OK: true}
	}
	return proto.Validation{Errors: strings.TrimSpace(o.stdout)}
}

// verdictOf words what an analyser came to.
func verdictOf(o outcome, command string) proto.Validation {
	if o.timedOut {
		return proto.Validation{Errors: "Validation timed out."}
	}
	if why := o.complaint(command); why != "" {
		return proto.Validation{Errors: why}
	}
	both := strings.TrimSpace(withLine(o.stdout, o.stderr))
	return proto.Validation{OK: o.exitCode() == 0, Errors: both}
}

// review has code analysed beside its run at a level, for a warning in the log.
// It never delays the run and is over with it: over gives it up and waits for
// nothing. Most runs are done before an analyser has begun to read, so it starts
// only beside those that take a moment.
func (s *Service) review(ctx context.Context, tool catalog.Tool, code, level string) (over func()) {
	if tool.StaticAnalysis == "" {
		return func() {}
	}
	ctx, over = context.WithCancel(ctx)
	s.running.Go(func() { // the run is counted too, so the service is not closed yet
		select {
		case <-time.After(s.reviewDelay):
			s.reviewNow(ctx, tool, code, level)
		case <-ctx.Done():
		}
	})
	return over
}

// reviewNow does the analysis, unless enough others are under way.
func (s *Service) reviewNow(ctx context.Context, tool catalog.Tool, code, level string) {
	select {
	case s.reviews <- struct{}{}:
		defer func() { <-s.reviews }()
	default:
		return
	}
	v, err := s.analyse(ctx, tool, code, level)
	if ctx.Err() == nil {
		s.note(tool, rpc.Trace(ctx), v, err)
	}
}

// note logs what a review found. The analyser's words quote the code, which
// only the debug log may show.
func (s *Service) note(tool catalog.Tool, trace string, v proto.Validation, err error) {
	log := s.log.With("executor", tool.Executor, "analyser", tool.StaticAnalysis, "trace", trace)
	switch {
	case err != nil:
		log.Warn("no static analysis of executed code", "error", err)
	case !v.OK:
		log.Warn("static analysis objects to executed code", "lines", strings.Count(v.Errors, "\n")+1)
		log.Debug("static analysis", "errors", v.Errors)
	}
}
