package exc

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"zino/pkg/catalog"
	"zino/pkg/environ"
	"zino/proto"
)

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

// analyse runs a tool's analyser on code that runs, or would, at a level.
// Without an installed analyser all code is valid. The error is a *refusal if
// the analyser cannot be confined.
func (s *Service) analyse(ctx context.Context, tool catalog.Tool, code, level string) (proto.Validation, error) {
	argv, path, ok := analyser(tool)
	if !ok {
		return proto.Validation{OK: true}, nil
	}
	o, err := s.inspect(ctx, level, argv, path, tool.FileExtension, code)
	return verdictOf(o, argv[0]), err
}

// inspect runs an analyser, whose program is at path, on code.
func (s *Service) inspect(ctx context.Context, level string, argv []string, path, extension, code string) (outcome, error) {
	a, err := s.arrangeAnalysis(ctx, level, path)
	if err != nil {
		return outcome{}, err
	}
	defer a.release()
	j, err := a.inspection(argv, code, extension)
	if err != nil {
		return outcome{}, err
	}
	p, err := a.start(j, path)
	if err != nil {
		return outcome{}, cannotStart(err)
	}
	o, err := p.wait(ctx, s.validateLimit)
	if o.interrupted {
		err = ctx.Err()
	}
	if err == nil {
		err = a.unconfined(o)
	}
	return o, err
}

// arrangeAnalysis prepares a look at code that runs, or would, at a level. What
// code left where it worked must not take part in that: an analyser loads
// modules and settings from where it is started. So it gets a directory of its
// own and nothing else that code could have written. Beside code in a unit it has
// one, too, and beside other confined code not even the right to write elsewhere.
func (s *Service) arrangeAnalysis(ctx context.Context, level, path string) (a *arrangement, err error) {
	a = &arrangement{s: s, level: level, means: []string{}}
	switch level {
	case levelUnit:
		return a, nil
	case levelOff:
		a.network = true
		if a.tmp, err = s.files.newDir(); err != nil {
			err = cannotStart(err)
		}
	default:
		a.level = levelReadOnly
		err = a.confineTo(ctx, "", path, os.Getenv("PATH"))
	}
	if err != nil {
		a.release()
		return nil, err
	}
	a.join()
	return a, nil
}

// inspection is the job of an analyser. The code does not lie in the directory in
// which that is started, where it would be a module of its name; a unit sees to
// that itself.
func (a *arrangement) inspection(argv []string, code, extension string) (job, error) {
	j := a.s.job(client{env: analyserEnviron()}, argv...)
	j.grace = 0 // an analyser has nothing to put in order
	if a.level == levelUnit {
		j.script = &script{text: code, extension: extension}
		return j, nil
	}
	file, err := a.inspected(code, extension)
	j.argv = append(j.argv, file)
	// So that Python compiles what it looks at into a directory of its own.
	j.env = append(j.env, "PYTHONPYCACHEPREFIX="+a.home())
	return j.in(a.home()), err
}

// inspected puts code in a file for an analyser, and returns where that sees it.
func (a *arrangement) inspected(code, extension string) (file string, err error) {
	const dir = "analysed"
	if err := os.Mkdir(filepath.Join(a.tmp, dir), 0o700); err != nil {
		return "", cannotStart(err)
	}
	file, err = placeIn(filepath.Join(a.tmp, dir), code, extension)
	return filepath.Join(a.home(), dir, filepath.Base(file)), err
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
