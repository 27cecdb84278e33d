package exc

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"zino/pkg/config"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
	"zino/proto"
)

// run executes code at the level off. An error ends the test.
func (s *service) run(t testing.TB, executor, code string) proto.Result {
	t.Helper()
	r, err := s.execute(t.Context(), proto.Execute{Executor: executor, Code: code})
	zinotest.Must(t, err)
	return plain(t, r)
}

// plain is r without its confinement, which is checked here.
func plain(t testing.TB, r proto.Result) proto.Result {
	t.Helper()
	if ran := r.ExitCode != -1; ran && (r.Confinement == nil || r.Confinement.Sandbox != proto.LevelOff || !r.Confinement.Network) {
		t.Errorf("confinement: %+v", r.Confinement)
	}
	r.Confinement = nil
	return r
}

// workspaces lists the directories of runs.
func (s *service) workspaces() []string {
	found, _ := filepath.Glob(filepath.Join(s.dir, workspacePrefix+"*", "*"))
	return found
}

func TestExecute(t *testing.T) {
	s := newService(t, nil, nil)
	tests := []struct {
		name, executor, code string
		want                 proto.Result
	}{
		{"output", "bash", "echo out; echo err >&2", proto.Result{Stdout: "out\n", Stderr: "err\n"}},
		{"nothing", "bash", "", proto.Result{}},
		{"status", "bash", "printf x; exit 255", proto.Result{ExitCode: 255, Stdout: "x"}},
		{"python", "python3", "import sys; print(sys.argv[1:]); sys.exit(3)", proto.Result{ExitCode: 3, Stdout: "[]\n"}},
		{"signal", "bash", "echo so far; kill -9 $$", proto.Result{ExitCode: -9, Stdout: "so far\n"}},
		{"terminated", "bash", "kill -TERM $$", proto.Result{ExitCode: -15}},
		{"no input", "bash", "cat; echo $?", proto.Result{Stdout: "0\n"}},
		{"bad UTF-8", "bash", `printf 'a\xff\xe2\x82b'`, proto.Result{Stdout: "a\uFFFD\uFFFDb"}},
		{"markup", "bash", "echo '<tool_call>&'", proto.Result{Stdout: "<tool_call>&\n"}},
		{"extension", "bash", `echo "${0##*/}"`, proto.Result{Stdout: "code.sh\n"}},
		{"private file", "bash", `stat -c %a "$0" "${0%/*}" "${0%/*/*}"`, proto.Result{Stdout: "600\n700\n700\n"}},
		{"files", "bash", "ls /proc/self/fd", proto.Result{Stdout: "0\n1\n2\n3\n"}}, // 3 is the directory
		{"own session", "bash", `read -r _ _ _ _ group session _ </proc/$$/stat; [ $group = $$ ] && [ $session = $PPID ]`, proto.Result{}},
		{"no executor", "cobol", "x", proto.Result{ExitCode: -1, Stderr: "Unknown executor: cobol"}},
		{"empty name", "", "x", proto.Result{ExitCode: -1, Stderr: "Unknown executor: "}},
		{"no command", "zino-no-such-command", "x", proto.Result{ExitCode: -1, Stderr: "Command not found: zino-no-such-command"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := s.run(t, tt.executor, tt.code)
			if got != tt.want {
				t.Errorf("got %+v\nwant %+v", got, tt.want)
			}
			// The directory of an analysis may outlive the run.
			zinotest.Eventually(t, "no directory is left", func() bool { return len(s.workspaces()) == 0 })
		})
	}
}

func TestExecuteProgramThatCannotStart(t *testing.T) {
	program := filepath.Join(t.TempDir(), "broken")
	zinotest.Must(t, os.WriteFile(program, []byte{0, 1, 2}, 0o700))
	s := newService(t, nil, map[string]string{"broken.json": fmt.Sprintf(`{"meta":{"executor":%q}}`, program)})
	want := proto.Result{ExitCode: -1, Stderr: "Cannot start " + program + ": exec format error"}
	zinotest.Equal(t, "the result", s.run(t, program, "x"), want)
}

func TestExecuteTimeout(t *testing.T) {
	tests := []struct {
		name, code     string
		stdout, stderr string
	}{
		{"daemons", daemonic(), "", "Execution timed out after 3s."},
		{"output so far", "echo so far; printf 'part' >&2; sleep 1000", "so far\n", "part\nExecution timed out after 3s."},
		{"ignores SIGTERM", "trap '' TERM; echo deaf; while :; do sleep 1000; done", "deaf\n", "Execution timed out after 3s."},
		{"stops its supervisor", "kill -STOP $PPID; exec sleep 1000", "", "Execution timed out after 3s."},
		{"stopped", "kill -STOP $$", "", "Execution timed out after 3s."},
	}
	marked := mark(t)
	s := newService(t, func(c *config.Exc) { c.Timeout = 3 }, nil)
	var all sync.WaitGroup
	for _, tt := range tests {
		all.Go(func() {
			got, err := s.execute(context.Background(), proto.Execute{Executor: "bash", Code: tt.code})
			want := proto.Result{ExitCode: -1, TimedOut: true, Stdout: tt.stdout, Stderr: tt.stderr}
			if err != nil || plain(t, got) != want {
				t.Errorf("%s: got %+v, %v\nwant %+v", tt.name, got, err, want)
			}
		})
	}
	all.Go(func() {
		got, err := s.carryOut(context.Background(), call("bash", s.dir, in{"command": "echo so far; setsid sleep 1000 & sleep 1000"}), new(turnCall))
		want := bashData{ExitCode: -1, TimedOut: true, Stdout: "so far\n", Stderr: "Execution timed out after 3s."}
		if err != nil || got.Data != want {
			t.Errorf("bash: got %+v, %v", got, err)
		}
	})
	all.Wait()
	s.mustLeaveNothing(t, marked)
}

// daemonic starts every kind of daemon and sleeps.
func daemonic() string {
	var code strings.Builder
	code.WriteString("exec 2>/dev/null; export UP=/dev/null\n") // bash reports terminated jobs
	for _, start := range daemons {
		code.WriteString(start + "\n")
	}
	return code.String() + "sleep 1000"
}

// Code runs in a root, here without a time limit.
func TestExecuteInRoot(t *testing.T) {
	s := newService(t, func(c *config.Exc) { c.Timeout = 0 }, nil)
	dir, err := filepath.EvalSymlinks(zinotest.Dir(t))
	zinotest.Must(t, err)
	for root, want := range map[string]proto.Result{
		dir:           {Stdout: dir + "\n" + dir + "\n"},
		dir + "/gone": {ExitCode: -1, Stderr: "Cannot work in " + dir + "/gone: no such file or directory"},
		"x":           {ExitCode: -1, Stderr: "Cannot work in x: not an absolute path"},
	} {
		got, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Code: "sleep 0.1; echo $PWD; pwd -P", Root: root})
		if err != nil || plain(t, got) != want {
			t.Errorf("%s: got %+v, %v", root, got, err)
		}
	}
}

func TestExecuteFlood(t *testing.T) {
	s := newService(t, nil, nil)
	r := s.run(t, "bash", "echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo last; yes err | head -c 50000000 >&2; echo end >&2")
	if r.ExitCode != 0 || !r.Truncated {
		t.Errorf("exit code %d, truncated %v", r.ExitCode, r.Truncated)
	}
	left := 100000000 + len("first\nlast\n") - 1<<20
	note := fmt.Sprintf("\n[%d bytes left out]\n", left)
	if n := len(r.Stdout); n != 1<<20+len(note) || strings.Count(r.Stdout, note) != 1 {
		t.Errorf("stdout has %d bytes, or lacks %q", n, note)
	}
	if !strings.HasPrefix(r.Stdout, "first\nxxx") || !strings.HasSuffix(r.Stdout, "xxxlast\n") {
		t.Error("stdout lost its head or tail")
	}
	if !strings.HasPrefix(r.Stderr, "err\n") || !strings.HasSuffix(r.Stderr, "err\nend\n") {
		t.Error("stderr lost its head or tail")
	}
}

func TestExecuteFitsPacket(t *testing.T) {
	s := newService(t, func(c *config.Exc) { c.OutputMax = 6 << 20 }, nil)
	r := s.run(t, "bash", "head -c 4000000 /dev/zero") // each byte takes six in a packet
	packet, err := json.Marshal(r)
	if err != nil || !r.Truncated || len(packet) > wire.MaxPayload || len(r.Stdout) < 1<<20 {
		t.Errorf("truncated %v: %d bytes, %d in a packet, %v", r.Truncated, len(r.Stdout), len(packet), err)
	}
}

func TestExecuteMany(t *testing.T) {
	marked := mark(t)
	s := newService(t, nil, nil)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			r, err := s.execute(context.Background(), proto.Execute{Executor: "bash", Code: fmt.Sprintf("sleep 1000 & echo %d; exit %d", i, i)})
			if want := (proto.Result{ExitCode: i, Stdout: fmt.Sprintf("%d\n", i)}); err != nil || plain(t, r) != want {
				t.Errorf("got %+v, %v, want %+v", r, err, want)
			}
		})
	}
	all.Wait()
	s.mustLeaveNothing(t, marked)
}

func TestExecuteEnvironment(t *testing.T) {
	for _, name := range []string{"LLM_API_KEY", "MY_TOKEN", "KEEP_TOKEN", "NOTIFY_SOCKET", "ZINO_CONFIG", "GODEBUG", "HARMLESS"} {
		t.Setenv(name, "value")
	}
	s := newService(t, func(c *config.Exc) { c.PassEnv = []string{"KEEP_TOKEN"} }, nil)
	r := s.run(t, "bash", "env | grep '=value$' | sort")
	if want := "GODEBUG=value\nHARMLESS=value\nKEEP_TOKEN=value\n"; r.Stdout != want || r.Stderr != "" {
		t.Errorf("got %q, %q, want %q", r.Stdout, r.Stderr, want)
	}
}

// A host that cannot start a process is an error, not a result.
func TestExecuteCannotStart(t *testing.T) {
	t.Setenv("BIG", strings.Repeat("x", 200<<10)) // more than the kernel takes in one variable
	s := newService(t, nil, nil)
	_, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Code: "echo hi"})
	zinotest.Error(t, err, proto.ErrBusy, "argument list too long")
	s.mustLeaveNothing(t, nil)
}
