package exc

import (
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"zino/pkg/catalog"
	"zino/pkg/config"
	"zino/proto"
)

// analysers are definitions whose analysers behave in different ways. Each is
// a command that gets the code's file as its last argument.
func analysers() map[string]string {
	files := map[string]string{}
	for executor, analysis := range map[string]string{
		"bash":  "bash -n", // its syntax check
		"sh":    "bash",    // runs the code: it says what the analyser does
		"cat":   "zino-no-such-command --strict",
		"dash":  "zino-no-such-command",
		"true":  "   ",
		"false": "sleep 1000",
	} {
		files[executor+".json"] = fmt.Sprintf(`{"meta":{"executor":%q,"file_extension":".sh","static_analysis":%q}}`, executor, analysis)
	}
	return files
}

func TestValidate(t *testing.T) {
	s := newService(t, nil, analysers())
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
	if left := s.workspaces(); len(left) > 0 {
		t.Errorf("left on disk: %v", left)
	}
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
	if left := append(marked(), s.workspaces()...); len(left) > 0 {
		t.Errorf("still there: %q", left)
	}
}

// analyseWith gives the executor sh a Bash script as its analyser.
func (s *service) analyseWith(t *testing.T, script string) {
	t.Helper()
	file := filepath.Join(s.dir, "analyser")
	if err := writeNew(file, script); err != nil {
		t.Fatal(err)
	}
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

// TestReviewNeverDelays: an analyser that hangs doesn't delay the reply, is
// stopped after the run's end, and costs a warning.
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
	eventually(t, func() bool {
		return len(marked()) == 0 && len(s.workspaces()) == 0 && strings.Contains(s.log.String(), "level=WARN msg=\"static analysis of executed code not finished")
	})
	if n := s.warnings(t); n != "1" {
		t.Errorf("%s warnings are counted", n)
	}
}

// TestReviewOutlivesRun: an analysis that is slower than the run is finished,
// and each is done, however many runs there are at a time.
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
	if err := writeNew(up, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		return strings.Count(s.log.String(), "level=WARN msg=\"static analysis objects to executed code\"") == runs && s.warnings(t) == strconv.Itoa(runs)
	})
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, "echo $x") && !strings.Contains(line, "level=DEBUG") {
			t.Errorf("the log quotes the code: %s", line)
		}
	}
}

// TestCloseStopsReviews: a service that closes waits for no analysis.
func TestCloseStopsReviews(t *testing.T) {
	marked := mark(t)
	s := newService(t, nil, nil)
	s.reviewGrace = time.Hour
	s.analyseWith(t, "sleep 1000")
	s.run(t, "sh", "")
	if err := s.Close(); err != nil || len(marked()) > 0 {
		t.Errorf("%v, still there: %q", err, marked())
	}
	if log := s.log.String(); strings.Contains(log, "static analysis") {
		t.Errorf("the log has warnings of a stop: %s", log)
	}
}

// The definitions that come with Zino work.
func TestShippedTools(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	cat, err := catalog.Open("../../tools", "", log)
	if err != nil {
		t.Fatal(err)
	}
	defer cat.Close()
	t.Setenv("RUNTIME_DIRECTORY", shortDir(t))
	s, err := New(config.Default().Exc, cat, log)
	if err != nil {
		t.Fatal(err)
	}
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
