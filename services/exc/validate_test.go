package exc

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
)

// analysisTools are executors with common analysers, and one, sh, whose analyser runs
// the code: it shows what an analyser can do. An analyser gets the code's file as its
// last argument.
var analysisTools = map[string]string{
	"bash.json":   `{"meta":{"executor":"bash","file_extension":".sh","static_analysis":"bash -n"}}`,
	"node.json":   `{"meta":{"executor":"node","file_extension":".js","static_analysis":"node --check"}}`,
	"sh.json":     `{"meta":{"executor":"sh","file_extension":".sh","static_analysis":"bash"}}`,
	"python.json": `{"meta":{"executor":"python","file_extension":".py","static_analysis":"python3 -m code"}}`,
	"cat.json":    `{"meta":{"executor":"cat","static_analysis":"zino-no-such-command --strict"}}`,
	"dash.json":   `{"meta":{"executor":"dash","static_analysis":"zino-no-such-command"}}`,
	"true.json":   `{"meta":{"executor":"true","static_analysis":"   "}}`,
}

func TestValidate(t *testing.T) {
	s := newService(t, nil, analysisTools)
	tests := []struct {
		name, executor, code string
		want                 proto.Validation
	}{
		{"good", "bash", "echo hi", proto.Validation{OK: true}},
		{"not run", "bash", "exit 1", proto.Validation{OK: true}},
		{"remarks", "sh", "echo ' fine '", proto.Validation{OK: true, Errors: "fine"}},
		{"both outputs", "sh", "echo ' out '; echo err >&2; exit 2", proto.Validation{Errors: "out \nerr"}},
		{"killed", "sh", "kill -9 $$", proto.Validation{}},
		{"not installed", "cat", "x", proto.Validation{OK: true}},
		{"a shell's, not installed", "dash", "if then", proto.Validation{OK: true}},
		{"blank", "true", "x", proto.Validation{OK: true}},
		{"none", "zino-no-such-command", "x", proto.Validation{OK: true}},
		{"unknown", "cobol", "x", proto.Validation{Errors: "Unknown executor: cobol"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := s.validate(t.Context(), proto.Validate{Executor: tt.executor, Code: tt.code})
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
	got, err := s.validate(t.Context(), proto.Validate{Executor: "bash", Code: "if then"})
	if err != nil || got.OK || !strings.Contains(got.Errors, "syntax error") {
		t.Errorf("bad syntax: %+v, %v", got, err)
	}
	s.mustLeaveNothing(t, nil)
}

func TestValidateTimeout(t *testing.T) {
	marked := mark(t)
	s := newService(t, nil, nil)
	s.validateLimit = 200 * time.Millisecond
	s.analyseWith(t, "setsid sleep 1000 & sleep 1000")
	got, err := s.validate(t.Context(), proto.Validate{Executor: "sh"})
	if want := (proto.Validation{Errors: "Validation timed out."}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	s.mustLeaveNothing(t, marked)
}

// analyseWith gives the executor sh a Bash script as its analyser.
func (s *service) analyseWith(t *testing.T, script string) {
	t.Helper()
	file := filepath.Join(s.dir, "analyser")
	zinotest.Must(t, writeNew(file, script))
	writeTools(t, s.dir, map[string]string{"sh.json": fmt.Sprintf(`{"meta":{"executor":"sh","static_analysis":"bash %s"}}`, file)})
	s.catalog.Reload()
}

// warnings is the number of warnings of static analysis in the counters.
func (s *service) warnings(t *testing.T) string {
	t.Helper()
	var st proto.Stats
	s.stats(&st)
	return st.Info["analysis warnings"]
}

// An analyser that hangs doesn't delay the reply, is stopped after the run's end, and
// causes a warning.
func TestReviewNeverDelays(t *testing.T) {
	marked := mark(t)
	up := upFile(t)
	s := newService(t, nil, nil)
	s.reviewGrace = 0
	s.analyseWith(t, "touch \"$UP\"; sleep 1000")
	r := s.run(t, "sh", "while [ ! -e \"$UP\" ]; do sleep 0.01; done; echo done")
	if r != (proto.Result{Stdout: "done\n"}) || !exists(up) {
		t.Errorf("got %+v", r)
	}
	zinotest.Eventually(t, "the analysis is stopped", func() bool {
		return len(marked()) == 0 && len(s.workspaces()) == 0 && strings.Contains(s.log.String(), "level=WARN msg=\"static analysis of executed code not finished")
	})
	if n := s.warnings(t); n != "1" {
		t.Errorf("%s warnings are counted", n)
	}
}

// Analyses that are slower than their runs are finished, however many runs there
// are at a time.
func TestReviewOutlivesRun(t *testing.T) {
	const runs = 3 * reviewsMax
	up := upFile(t)
	s := newService(t, nil, nil)
	s.reviewGrace = time.Hour
	s.analyseWith(t, "until [ -e \"$UP\" ]; do sleep 0.01; done; cat \"$1\"; exit 1")
	for range runs {
		if r := s.run(t, "sh", "echo $x"); r != (proto.Result{Stdout: "\n"}) {
			t.Errorf("got %+v", r)
		}
	}
	zinotest.Must(t, writeNew(up, ""))
	zinotest.Eventually(t, "all analyses are done", func() bool {
		return strings.Count(s.log.String(), "level=WARN msg=\"static analysis objects to executed code\"") == runs && s.warnings(t) == strconv.Itoa(runs)
	})
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, "echo $x") && !strings.Contains(line, "level=DEBUG") {
			t.Errorf("the log quotes the code: %s", line)
		}
	}
}

// Close stops the analyses.
func TestCloseStopsReviews(t *testing.T) {
	marked := mark(t)
	s := newService(t, nil, nil)
	s.reviewGrace = time.Hour
	s.analyseWith(t, "sleep 1000")
	s.run(t, "sh", "")
	if err := s.Close(); err != nil || len(marked()) > 0 {
		t.Errorf("%v, left: %q", err, marked())
	}
	if log := s.log.String(); strings.Contains(log, "static analysis") {
		t.Errorf("the log has warnings of a stop: %s", log)
	}
}

// The definitions that come with Zino work.
func TestShippedTools(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	cat, err := catalog.Open("../../tools", "", log)
	zinotest.Must(t, err)
	defer cat.Close()
	t.Setenv("RUNTIME_DIRECTORY", zinotest.Dir(t))
	cfg := config.Default().Exc
	cfg.DataDir = filepath.Join(zinotest.Dir(t), "data")
	s, err := New(cfg, nil, cat, log)
	zinotest.Must(t, err)
	defer s.Close()
	tests := []struct{ executor, analyser, good, bad string }{
		{"bash", "shellcheck", "echo hi\n", "echo \"hi\n"},
		{"python3", "python3", "print('hi')\n", "print('hi'\n"},
	}
	for _, tt := range tests {
		t.Run(tt.executor, func(t *testing.T) {
			r, err := s.execute(t.Context(), proto.Execute{Executor: tt.executor, Code: tt.good})
			if err != nil || plain(t, r) != (proto.Result{Stdout: "hi\n"}) {
				t.Errorf("got %+v, %v", r, err)
			}
			if _, err := exec.LookPath(tt.analyser); err != nil {
				t.Fatalf("%s is not installed: make need gets it", tt.analyser)
			}
			for code, ok := range map[string]bool{tt.good: true, tt.bad: false} {
				v, err := s.validate(t.Context(), proto.Validate{Executor: tt.executor, Code: code})
				if err != nil || v.OK != ok || (v.Errors == "") != ok {
					t.Errorf("%q: %+v, %v", code, v, err)
				}
			}
		})
	}
}

// analysisHarness runs a test at each level, as the configured one, with those
// executors.
func analysisHarness(t *testing.T, levels []proto.Level, do func(t *testing.T, a *harness, level proto.Level)) {
	t.Helper()
	a := newHarness(t, nil)
	writeTools(t, a.dir, analysisTools)
	a.catalog.Reload()
	a.host.unit, _ = unitHost(t)
	a.each(t, levels, func(t *testing.T, level proto.Level) {
		a.host.level = a.at(level)
		do(t, a, level)
	})
}

// bait writes modules and start scripts to the directory of exc and to where the
// environment points. An analyser that loads one makes the file escaped.
func (a *harness) bait(t *testing.T) (escaped string) {
	t.Helper()
	escaped = filepath.Join(a.outside, "escaped")
	for _, module := range []string{"py_compile", "code", "traceback", "sitecustomize", "usercustomize"} {
		zinotest.Write(t, filepath.Join(a.root, module+".py"), "open('"+escaped+"', 'w')\n")
	}
	zinotest.Write(t, a.root+"/start.sh", ": >"+escaped+"\n")
	zinotest.Write(t, a.root+"/start.js", "require('fs').writeFileSync('"+escaped+"', '')\n")
	for name, value := range map[string]string{
		"PYTHONPATH": a.root, "BASH_ENV": a.root + "/start.sh", "ENV": a.root + "/start.sh",
		"NODE_OPTIONS": "--require=" + a.root + "/start.js",
	} {
		t.Setenv(name, value)
	}
	t.Chdir(a.root)
	return escaped
}

// An analyser loads nothing that code left in the directory of exc.
func TestAnalysisLoadsNothing(t *testing.T) {
	analysisHarness(t, append(tableLevels, proto.LevelUnit), func(t *testing.T, a *harness, level proto.Level) {
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

// An analyser that runs the code is confined: it changes nothing, cannot read the
// project, and has no secrets, except at the level off.
func TestAnalysisIsConfined(t *testing.T) {
	t.Setenv("LLM_API_KEY", secret)
	analysisHarness(t, tableLevels, func(t *testing.T, a *harness, level proto.Level) {
		a.passEnv = []string{"LLM_API_KEY"}
		t.Chdir(a.root)
		made := filepath.Join(a.outside, "made by "+string(level))
		code := a.env() + "touch '" + made + "' $ROOT/made; cat $ROOT/AGENTS.md; cat $REALHOME/.ssh/id; echo $LLM_API_KEY\n" + attacker("dial")
		v, err := a.validate(t.Context(), proto.Validate{Executor: "sh", Code: code})
		off := level == proto.LevelOff
		if err != nil || exists(made) != off || strings.Contains(v.Errors, "intact") != off || strings.Count(v.Errors, secret) > 1 || strings.Contains(v.Errors, secret) != off || (len(a.hitsSoFar()) > 0) != off {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

// Analysers work at every level, and none runs the code as a module of its own.
func TestAnalysisAtEachLevel(t *testing.T) {
	t.Parallel()
	analysisHarness(t, append(tableLevels, proto.LevelUnit), func(t *testing.T, a *harness, level proto.Level) {
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
		if v, err := a.validate(t.Context(), proto.Validate{Executor: "python", Code: "print('pwned')"}); err != nil || strings.Contains(v.Errors, pwned) {
			t.Errorf("a module of the same name: %+v, %v", v, err)
		}
		a.mustLeaveNothing(t, nil)
	})
}

// A review has the level of its run, not the configured one.
func TestReviewIsConfined(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	writeTools(t, a.dir, analysisTools)
	a.catalog.Reload()
	a.each(t, tableLevels, func(t *testing.T, level proto.Level) {
		made, up := filepath.Join(a.outside, "made by "+string(level)), filepath.Join(a.root, "up "+string(level))
		seen := strings.Count(a.log.String(), "objects")
		go func() {
			zinotest.Eventually(t, "the review objects", func() bool { return strings.Count(a.log.String(), "objects") > seen })
			if err := os.WriteFile(up, nil, 0o600); err != nil {
				t.Error(err)
			}
		}()
		// The run waits until the log has the objection of the review.
		code := "if [ $PWD = " + a.root + " ]; then until [ -e '" + up + "' ]; do sleep 0.01; done; else touch '" + made + "'; exit 1; fi"
		r := a.runIn(t, level, a.root, "sh", code)
		if r.ExitCode != 0 || exists(made) == level.Confined() {
			t.Errorf("made %v, %+v", exists(made), r)
		}
	})
}
