package exc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/proto"
	"zino/services/exc/sandbox"
)

// analysisTools are executors whose analysers are as widely used ones, and one,
// sh, whose analyser runs the code: it shows what an analyser can do.
var analysisTools = map[string]string{
	"bash.json":   `{"meta":{"executor":"bash","file_extension":".sh","static_analysis":"bash -n"}}`,
	"node.json":   `{"meta":{"executor":"node","file_extension":".js","static_analysis":"node --check"}}`,
	"sh.json":     `{"meta":{"executor":"sh","file_extension":".sh","static_analysis":"bash"}}`,
	"python.json": `{"meta":{"executor":"python","file_extension":".py","static_analysis":"python3 -m code"}}`,
	"dash.json":   `{"meta":{"executor":"dash","static_analysis":"zino-no-such-analyser"}}`,
}

// analysisLevels are the levels at which a test sees the confinement.
var analysisLevels = append([]string{levelOff}, confinedLevels...)

// analysisArena is an arena with those executors, at each of the levels as that
// at which code is configured to be run.
func analysisArena(t *testing.T, levels []string, do func(t *testing.T, a *arena, level string)) {
	t.Helper()
	a := newArena(t, nil)
	writeTools(t, a.dir, analysisTools)
	a.catalog.Reload()
	a.host.unit, _ = unitHost(t)
	for _, level := range levels {
		name := a.at(level)
		if a.levelProblem(t.Context(), name) == nil {
			a.host.level = name
			t.Run(level, func(t *testing.T) { do(t, a, level) })
		}
	}
}

// bait has the file that a module, or a script that is read at a start, makes
// if an analyser ever loads it, in the directory in which exc runs and where the
// environment points.
func (a *arena) bait(t *testing.T) (escaped string) {
	t.Helper()
	escaped = filepath.Join(a.outside, "escaped")
	for _, module := range []string{"py_compile", "code", "traceback", "sitecustomize", "usercustomize"} {
		mustWrite(t, filepath.Join(a.root, module+".py"), "open("+quoted(escaped)+", 'w')\n")
	}
	mustWrite(t, a.root+"/start.sh", ": >"+escaped+"\n")
	mustWrite(t, a.root+"/start.js", "require('fs').writeFileSync("+quoted(escaped)+", '')\n")
	for name, value := range map[string]string{
		"PYTHONPATH": a.root, "BASH_ENV": a.root + "/start.sh", "ENV": a.root + "/start.sh",
		"NODE_OPTIONS": "--require=" + a.root + "/start.js",
	} {
		t.Setenv(name, value)
	}
	t.Chdir(a.root)
	return escaped
}

func quoted(path string) string { return "'" + path + "'" }

// An analyser loads nothing that code may have left where exc runs.
func TestAnalysisLoadsNothing(t *testing.T) {
	analysisArena(t, append(analysisLevels, levelUnit), func(t *testing.T, a *arena, level string) {
		escaped := a.bait(t)
		for executor, code := range map[string]string{"python3": "x = 1", "python": "x = 1", "bash": "true", "node": "1", "sh": "true", "dash": "true"} {
			if _, err := a.validate(t.Context(), proto.Validate{Executor: executor, Code: code}); err != nil {
				t.Errorf("%s: %v", executor, err)
			}
			if exists(escaped) {
				t.Errorf("%s: the analyser loaded what it found", executor)
				os.Remove(escaped)
			}
		}
	})
}

// The code that is looked at is no module of its analyser's.
func TestAnalysisDoesNotRunTheCode(t *testing.T) {
	analysisArena(t, append(analysisLevels, levelUnit), func(t *testing.T, a *arena, level string) {
		v, err := a.validate(t.Context(), proto.Validate{Executor: "python", Code: "print('pwned')"})
		if err != nil || strings.Contains(v.Errors, pwned) {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

// Whatever code has its analyser do, that changes nothing, sees nothing of the
// project and has nobody's secrets, unless code is not confined at all.
func TestAnalysisIsConfined(t *testing.T) {
	t.Setenv("LLM_API_KEY", secret)
	analysisArena(t, analysisLevels, func(t *testing.T, a *arena, level string) {
		a.passEnv = []string{"LLM_API_KEY"}
		t.Chdir(a.root)
		made := filepath.Join(a.outside, "made by "+level)
		code := a.env() + "touch '" + made + "' $ROOT/made; cat $ROOT/AGENTS.md; cat $REALHOME/.ssh/id; echo $LLM_API_KEY\n" + attacker("dial")
		v, err := a.validate(t.Context(), proto.Validate{Executor: "sh", Code: code})
		off := level == levelOff
		if err != nil || exists(made) != off || strings.Contains(v.Errors, "intact") != off || strings.Count(v.Errors, secret) > 1 || strings.Contains(v.Errors, secret) != off || (len(a.hitsSoFar()) > 0) != off {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

// Analysers do their work at every level.
func TestAnalysisAtEachLevel(t *testing.T) {
	t.Parallel()
	analysisArena(t, append(analysisLevels, levelUnit), func(t *testing.T, a *arena, level string) {
		for executor, code := range map[string][2]string{
			"python3": {"print('hi')", "print('hi'"}, "bash": {"echo hi", "if then"}, "node": {"let a = 1", "let ="},
		} {
			good, err := a.validate(t.Context(), proto.Validate{Executor: executor, Code: code[0]})
			if err != nil || good != (proto.Validation{OK: true}) {
				t.Errorf("%s: good code: %+v, %v", executor, good, err)
			}
			bad, err := a.validate(t.Context(), proto.Validate{Executor: executor, Code: code[1]})
			if err != nil || bad.OK || bad.Errors == "" {
				t.Errorf("%s: bad code: %+v, %v", executor, bad, err)
			}
		}
		if left := a.workspaces(); len(left) > 0 {
			t.Errorf("left on disk: %v", left)
		}
	})
}

// Where code is to be confined and cannot be, nothing looks at it either.
func TestAnalysisThatCannotBeConfined(t *testing.T) {
	t.Parallel()
	s := newService(t, nil, analysisTools)
	s.host.kernel = &sandbox.Kernel{NoNamespaces: errors.New("none here")}
	s.host.unit = s.dir + "/nobody"
	for level, why := range map[string]string{levelReadOnly: "none here", levelWorkspace: "none here", levelUnit: "nobody"} {
		s.host.level = level
		_, err := s.validate(t.Context(), proto.Validate{Executor: "sh", Code: "echo pwned"})
		if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeUnavailable || !strings.Contains(e.Message, why) {
			t.Errorf("%s: %v", level, err)
		}
	}
}

// A review is confined as its run is, whatever is configured.
func TestReviewIsConfined(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	writeTools(t, a.dir, analysisTools)
	a.catalog.Reload()
	for _, level := range analysisLevels {
		name := a.at(level)
		if a.levelProblem(t.Context(), name) != nil {
			continue
		}
		made, up := filepath.Join(a.outside, "made by "+level), filepath.Join(a.root, "up "+level)
		seen := strings.Count(a.log.String(), "objects")
		go func() {
			eventually(t, func() bool { return strings.Count(a.log.String(), "objects") > seen })
			if err := os.WriteFile(up, nil, 0o600); err != nil {
				t.Error(err)
			}
		}()
		// The run waits until the log tells of the review, in which it objects.
		code := "if [ $PWD = " + a.root + " ]; then until [ -e '" + up + "' ]; do sleep 0.01; done; else touch '" + made + "'; exit 1; fi"
		r, err := a.execute(t.Context(), proto.Execute{Executor: "sh", Code: code, Sandbox: proto.Level(name), Root: a.root})
		if err != nil || r.ExitCode != 0 || exists(made) != (level == levelOff) {
			t.Errorf("%s: made %v, %+v, %v", level, exists(made), r, err)
		}
	}
}
