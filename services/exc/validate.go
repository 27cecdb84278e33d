package exc

import (
	"context"
	"errors"
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

// review starts the analysis of code beside its run at a level, for a warning in
// the log. It never delays the run. over reports that the run has ended: the
// analysis may go on for reviewGrace then.
func (s *Service) review(ctx context.Context, tool catalog.Tool, code, level string) (over func()) {
	if tool.StaticAnalysis == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(s.ctx, cancel)
	s.running.Go(func() { // the run is counted too, so the service is not closed yet
		defer cancel()
		defer detach()
		s.reviewNow(ctx, tool, code, level)
	})
	return func() { time.AfterFunc(s.reviewGrace, cancel) }
}

// reviewNow does the analysis when fewer than reviewsMax others are under way.
func (s *Service) reviewNow(ctx context.Context, tool catalog.Tool, code, level string) {
	var v proto.Validation
	var err error
	select {
	case s.reviews <- struct{}{}:
		v, err = s.analyse(ctx, tool, code, level)
		<-s.reviews
	case <-ctx.Done():
		err = ctx.Err()
	}
	if s.ctx.Err() == nil {
		s.note(tool, rpc.Trace(ctx), v, err)
	}
}

// note logs and counts what a review found. The analyser's output quotes the
// code, which only the debug log may show.
func (s *Service) note(tool catalog.Tool, trace string, v proto.Validation, err error) {
	if err == nil && v.OK {
		return
	}
	s.reviewWarnings.Add(1)
	log := s.log.With("executor", tool.Executor, "analyser", tool.StaticAnalysis, "trace", trace)
	switch {
	case errors.Is(err, context.Canceled):
		log.Warn("static analysis of executed code not finished, stopped after the run's end")
	case err != nil:
		log.Warn("no static analysis of executed code", "error", err)
	default:
		log.Warn("static analysis objects to executed code", "lines", strings.Count(v.Errors, "\n")+1)
		log.Debug("static analysis", "errors", v.Errors)
	}
}
