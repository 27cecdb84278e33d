package exc

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"zino/pkg/catalog"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/exc/shellsyntax"
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
	file, remove, err := s.files.place(req.Code, tool.FileExtension)
	if err != nil {
		return proto.Validation{}, err
	}
	defer remove()
	return s.analyse(ctx, tool, file)
}

// analyser is the command that looks at a tool's code and where its program
// is, if there is one and it is installed.
func analyser(tool catalog.Tool) (argv []string, path string, ok bool) {
	argv = strings.Fields(tool.StaticAnalysis)
	if len(argv) == 0 {
		return nil, "", false
	}
	path, err := locate(argv[0])
	return argv, path, err == nil
}

// analyse runs a tool's analyser on a file. Where it is not installed a shell's
// syntax is looked at; without any analyser all code is good.
func (s *Service) analyse(ctx context.Context, tool catalog.Tool, file string) (proto.Validation, error) {
	argv, path, ok := analyser(tool)
	fallback := !ok && len(argv) > 0 && shellsyntax.Knows(filepath.Base(tool.Executor))
	switch {
	case fallback:
		argv, path = []string{superviseName, syntaxArg, filepath.Base(tool.Executor)}, ownProgram
	case !ok:
		return proto.Validation{OK: true}, nil
	}
	o, err := s.inspect(ctx, s.job(append(argv, file)...), path)
	if err != nil {
		return proto.Validation{}, err
	}
	if fallback {
		return verdictOfSyntax(o), nil
	}
	return verdictOf(o, argv[0]), nil
}

// inspect runs an analyser, whose program is at path.
func (s *Service) inspect(ctx context.Context, j job, path string) (outcome, error) {
	a, err := s.arrange(ctx, wish{level: levelOff})
	if err != nil {
		return outcome{}, err
	}
	defer a.release()
	j.grace = 0 // an analyser has nothing to put in order
	p, err := a.start(j, path)
	if err != nil {
		return outcome{}, cannotStart(err)
	}
	return p.wait(ctx, s.validateLimit)
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

// review has code analysed beside its run, for a warning in the log. It never
// delays the run and is over with it: over gives it up and waits for nothing.
// Most runs are done before an analyser has begun to read, so it starts only
// beside those that take a moment. At its end it clears away what the analyser
// may have written meanwhile.
func (s *Service) review(ctx context.Context, tool catalog.Tool, file string, remove func()) (over func()) {
	if tool.StaticAnalysis == "" {
		return func() {}
	}
	ctx, over = context.WithCancel(ctx)
	s.running.Go(func() { // the run is counted too, so the service is not closed yet
		select {
		case <-time.After(s.reviewDelay):
			s.reviewNow(ctx, tool, file, remove)
		case <-ctx.Done():
		}
	})
	return over
}

// reviewNow does the analysis, unless enough others are under way.
func (s *Service) reviewNow(ctx context.Context, tool catalog.Tool, file string, remove func()) {
	select {
	case s.reviews <- struct{}{}:
		defer func() { <-s.reviews }()
	default:
		return
	}
	v, err := s.analyse(ctx, tool, file)
	if ctx.Err() != nil {
		remove()
		return
	}
	s.note(tool, rpc.Trace(ctx), v, err)
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
