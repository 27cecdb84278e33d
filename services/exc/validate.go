package exc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zino/pkg/catalog"
	"zino/pkg/environ"
	"zino/pkg/rpc"
	"zino/proto"
	"zino/services/exc/run"
)

// validate runs the static analysis of code.
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
	level, _, err := s.host.settle("", nil)
	if err != nil {
		return proto.Validation{}, err
	}
	v, err := s.analyse(ctx, tool, req.Code, level)
	m, problem := s.masker(nil, nil)
	if problem != nil {
		return proto.Validation{}, problem
	}
	v.Errors = maskText(m, v.Errors)
	return v, asError(err)
}

// review analyses code beside its run at a level, for a warning in the log. It
// never delays the run. The caller calls over when the run has ended: the analysis
// then has reviewGrace to finish.
func (s *Service) review(ctx context.Context, tool catalog.Tool, code string, level proto.Level) (over func()) {
	if tool.StaticAnalysis == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(s.ctx, cancel)
	s.running.Go(func() { // the run is counted too, so the service is not closed yet
		defer cancel()
		defer detach()
		var v proto.Validation
		var err error
		select {
		case s.reviews <- struct{}{}: // reviewsMax at a time
			v, err = s.analyse(ctx, tool, code, level)
			<-s.reviews
		case <-ctx.Done():
			err = ctx.Err()
		}
		if s.ctx.Err() != nil || err == nil && v.OK {
			return
		}
		s.reviewWarnings.Add(1)
		log := s.log.With("executor", tool.Executor, "analyser", tool.StaticAnalysis, "trace", rpc.Trace(ctx))
		switch {
		case errors.Is(err, context.Canceled):
			log.Warn("static analysis of executed code not finished, stopped after the run's end")
		case err != nil:
			log.Warn("no static analysis of executed code", "error", err)
		default: // its output quotes the code, which only the debug log may show
			log.Warn("static analysis objects to executed code", "lines", strings.Count(v.Errors, "\n")+1)
			log.Debug("static analysis", "errors", v.Errors)
		}
	})
	return func() { time.AfterFunc(s.reviewGrace, cancel) }
}

// analyser returns the command that analyses a tool's code and the path of its
// program, if the tool has an analyser and it is installed.
func analyser(tool catalog.Tool) (argv []string, path string, ok bool) {
	argv = strings.Fields(tool.StaticAnalysis)
	if len(argv) == 0 {
		return nil, "", false
	}
	path, err := locate(argv[0])
	return argv, path, err == nil
}

// analyse runs a tool's analyser on code that runs, or would run, at a level.
// Without an installed analyser all code is valid. The error is a *refusal if the
// analyser cannot be confined.
//
// An analyser loads modules and settings from where it is started, and what code
// left in its root must not take part in that: it gets a directory of its own.
// Beside confined code it may not even write elsewhere.
func (s *Service) analyse(ctx context.Context, tool catalog.Tool, code string, level proto.Level) (proto.Validation, error) {
	argv, path, ok := analyser(tool)
	if !ok {
		return proto.Validation{OK: true}, nil
	}
	cmd := s.command(client{env: analyserEnviron()}, argv...)
	cmd.Path, cmd.Grace, cmd.Limit = path, 0, s.validateLimit
	if level.Confined() && level != proto.LevelUnit {
		level = proto.LevelReadOnly
	}
	b, err := s.newSandbox(ctx, nil, level, !level.Confined(), "", cmd, kept{})
	if err != nil {
		return proto.Validation{}, err
	}
	defer b.close()
	if level == proto.LevelUnit {
		cmd.Script = &run.Script{Text: code, Ext: tool.FileExtension}
	} else if err := b.placeAnalysed(cmd, code, tool.FileExtension); err != nil {
		return proto.Validation{}, err
	}
	p, err := run.Start(cmd)
	if err != nil {
		return proto.Validation{}, cannotStart(err)
	}
	r, err := b.wait(ctx, p)
	switch {
	case err != nil:
		return proto.Validation{}, err
	case r.Interrupted:
		return proto.Validation{}, ctx.Err()
	case r.TimedOut:
		return proto.Validation{Errors: "Validation timed out."}, nil
	}
	if why := r.Failure(argv[0]); why != "" {
		return proto.Validation{Errors: why}, nil
	}
	return proto.Validation{OK: r.ExitCode() == 0, Errors: strings.TrimSpace(withLine(r.Stdout, r.Stderr))}, nil
}

// placeAnalysed writes the code that cmd analyses to the sandbox's own directory,
// in which cmd starts. The code is not in that directory itself, where it would be
// a module of its name.
func (b *Sandbox) placeAnalysed(cmd *run.Cmd, code, extension string) (err error) {
	if b.tmp == "" {
		if b.tmp, err = b.s.files.newDir(); err != nil {
			return cannotStart(err)
		}
	}
	dir := filepath.Join(b.tmp, "analysed")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return cannotStart(err)
	}
	file, err := placeIn(dir, code, extension)
	if err != nil {
		return err
	}
	cmd.Args = append(cmd.Args, filepath.Join(b.home(), "analysed", filepath.Base(file)))
	// Python compiles what it analyses into a directory of its own.
	cmd.Env = append(cmd.Env, "PYTHONPYCACHEPREFIX="+b.home())
	if b.plan == nil {
		cmd.Chdir(b.tmp)
	}
	return nil
}

// Variables that decide what an interpreter loads. They are for code that is
// run, not for what looks at it.
var (
	loaderPrefixes = []string{"PYTHON", "NODE_", "LUA_", "BASH_FUNC_"}
	loaderNames    = []string{
		"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "CDPATH", "LD_PRELOAD", "LD_AUDIT", "PERL5LIB", "PERLLIB", "PERL5OPT",
		"RUBYLIB", "RUBYOPT", "PHPRC", "PHP_INI_SCAN_DIR", "CLASSPATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS",
		"MYPYPATH", "SHELLCHECK_OPTS",
	}
)

// analyserEnviron is the environment of an analyser: without what is passed on
// for code to use. Python takes no modules from where it is started.
func analyserEnviron() []string {
	kept := slices.DeleteFunc(environ.ForCode(os.Environ(), nil), func(entry string) bool {
		hasPrefix := func(p string) bool { return strings.HasPrefix(entry, p) }
		return hasName(entry, loaderNames...) || slices.ContainsFunc(loaderPrefixes, hasPrefix)
	})
	return append(kept, "PYTHONSAFEPATH=1")
}
