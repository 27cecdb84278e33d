package exc

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/exc/sandbox"
)

// confinedLevels are the levels that confine without a unit.
var confinedLevels = []proto.Level{proto.LevelReadOnly, proto.LevelWorkspaceWrite, levelLandlock}

// each runs a test at each confined level. One that is not available here must be
// refused.
func (a *harness) each(t *testing.T, do func(t *testing.T, level, name proto.Level)) {
	t.Helper()
	for _, level := range confinedLevels {
		name := a.at(level)
		t.Run(string(level), func(t *testing.T) {
			if err := a.levelProblem(t.Context(), name); err != nil {
				a.mustRefuse(t, name, err)
				return
			}
			do(t, level, name)
		})
	}
}

// interpreters are programs that need more than a shell does.
var interpreters = map[string]string{
	"python3": `
import ctypes, json, multiprocessing, os, socket, subprocess, tempfile
with tempfile.NamedTemporaryFile("w") as f:
    f.write("x")
a, b = socket.socketpair()
a.send(b"hi")
assert b.recv(2) == b"hi"
assert subprocess.run(["sh", "-c", "echo sub"], capture_output=True, text=True).stdout == "sub\n"
os.makedirs(os.path.expanduser("~/.cache/x"))
f = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda n: n + 1) # makes code
print(f(41), os.getcwd() == os.environ["PWD"])
`,
	"node": `
const fs = require("fs"), os = require("os"), { execSync } = require("child_process");
fs.writeFileSync(os.tmpdir() + "/x", "x");
let n = 0;
for (let i = 0; i < 1e6; i++) n += i % 3; // compiled on the way
console.log(42, execSync("echo sub").toString() === "sub\n");
`,
	"bash": `n=$(cat <<END | wc -l
$(for i in 1 2 3; do echo $i; done)
END
)
[[ $n = 3 && $(mktemp) == $TMPDIR/* ]] && seq 40 >"$TMPDIR/y" && cd && pwd | grep -qx "$TMPDIR" && echo 42 true`,
}

func TestInterpreters(t *testing.T) {
	t.Parallel()
	a := newHarness(t, func(c *config.Exc) { c.MemoryMax = 2 << 30 })
	writeTools(t, a.dir, map[string]string{"node.json": `{"meta":{"executor":"node","file_extension":".js"}}`})
	zinotest.Eventually(t, "the executor is loaded", func() bool { _, ok := a.catalog.Snapshot().Executor("node"); return ok })
	a.each(t, func(t *testing.T, _, name proto.Level) {
		for executor, code := range interpreters {
			r, err := a.execute(t.Context(), proto.Execute{Executor: executor, Code: code, Sandbox: name, Root: a.root})
			if out := strings.ToLower(r.Stdout); err != nil || r.ExitCode != 0 || !strings.HasSuffix(out, "42 true\n") {
				t.Errorf("%s: %+v, %v", executor, r, err)
			}
		}
	})
}

// Code has the network if the request asks for it, and never sockets with a path.
func TestNetwork(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	a.each(t, func(t *testing.T, _, name proto.Level) {
		r, err := a.execute(t.Context(), proto.Execute{
			Executor: "bash", Root: a.root, Sandbox: name, Network: new(true),
			Code: a.env() + attacker("dial") + "\n" + attacker("dial unix") + "\n" + attacker("dial @"),
		})
		if hits := a.hitsSoFar(); err != nil || !slices.Equal(hits, []string{"dial"}) || !r.Confinement.Network {
			t.Errorf("reached %q, %+v, %v", hits, r, err)
		}
	})
}

// Without the network a program can still connect to itself in a namespace of its
// own.
func TestLoopback(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	a.each(t, func(t *testing.T, level, name proto.Level) {
		code := "import socket\ns = socket.create_server(('127.0.0.1', 0))\nsocket.create_connection(s.getsockname())\nprint('met')\n"
		r, err := a.execute(t.Context(), proto.Execute{Executor: "python3", Code: code, Sandbox: name, Root: a.root})
		if met := r.Stdout == "met\n"; err != nil || met != (level != levelLandlock) || r.Confinement.Network {
			t.Errorf("met itself: %v, %+v, %v", met, r, err)
		}
	})
}

// The file of a long output can be read at every level.
func TestConfinedReadsOutputs(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	a.each(t, func(t *testing.T, _, name proto.Level) {
		req := call("bash", a.root, in{"command": "seq 100000"})
		req.Sandbox, req.OutputBytes = name, 1000
		got, err := a.call(t.Context(), req, nil)
		_, path, ok := strings.Cut(string(got.Result), "the full output is in ")
		if err != nil || !ok {
			t.Fatalf("%.200s, %v", got.Result, err)
		}
		path = path[:strings.Index(path, "/stdout")+len("/stdout")]
		for tool, input := range map[string]in{"bash": {"command": "tail -n 1 " + path}, "read": {"path": path}} {
			req := call(tool, a.root, input)
			req.Sandbox = name
			if got, err := a.call(t.Context(), req, nil); err != nil || !strings.Contains(string(got.Result), `"ok":true`) || !strings.Contains(string(got.Result), `00\n`) {
				t.Errorf("%s: %.300s, %v", tool, got.Result, err)
			}
		}
	})
}

// Code that prints more than the ceiling is stopped before its time limit.
func TestFlood(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	a.ceiling = 4 << 20
	a.each(t, func(t *testing.T, level, name proto.Level) {
		r, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: "yes", Sandbox: name, Root: a.root})
		if err != nil || r.TimedOut || r.ExitCode == 0 || r.Confinement.Limit != "output" || !strings.HasSuffix(r.Stderr, "Execution stopped: more than 4 MiB of output.") {
			t.Errorf("%d %q %+v, %v", r.ExitCode, r.Stderr, r.Confinement, err)
		}
	})
}

// A run without a root in a service that was started in / has only a directory of
// its own.
func TestNoRoot(t *testing.T) {
	a := newHarness(t, nil)
	t.Chdir("/")
	a.each(t, func(t *testing.T, _, name proto.Level) {
		r, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: `[ "$PWD" = "$HOME" ] && touch x && echo ok; touch /y /usr/y`, Sandbox: name})
		if err != nil || r.Stdout != "ok\n" || exists("/y") || exists("/usr/y") {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestUnknownSandbox(t *testing.T) {
	t.Parallel()
	s := newService(t, nil, nil)
	_, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Sandbox: "tight"})
	if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeInvalid || !strings.Contains(e.Message, "workspace-write") {
		t.Errorf("got %v", err)
	}
	for _, tool := range []string{"bash", "read", "write"} {
		req := call(tool, s.dir, in{"command": "true", "path": "x", "content": "x"})
		req.Sandbox = "tight"
		if got, err := s.call(t.Context(), req, nil); err != nil || !strings.Contains(string(got.Result), `"code":"invalid_input"`) {
			t.Errorf("%s: %s, %v", tool, got.Result, err)
		}
	}
}

// A host without means refuses every level with the reason, also in its stats.
func TestHostWithNothing(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *config.Exc) { c.Sandbox = proto.LevelReadOnly }, nil)
	s.host.unit = s.dir + "/nobody"
	s.host.tree, s.host.noTree = nil, errors.New("no groups here")
	s.host.kernel = &sandbox.Kernel{NoNamespaces: errors.New("none here")}
	_, err := s.execute(t.Context(), proto.Execute{Executor: "bash"})
	if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeUnavailable || !strings.Contains(e.Message, "none here") || !strings.Contains(e.Message, "Landlock") {
		t.Errorf("got %v", err)
	}
	st := proto.Stats{Info: map[string]string{}}
	s.stats(&st)
	if st.Info["sandboxes"] != "off" || !strings.Contains(st.Info["no sandbox workspace-write"], "none here") ||
		!strings.Contains(st.Info["no sandbox unit"], "nobody") || st.Info["no control groups"] != "no groups here" || st.Info["limits not enforced"] != "tasks" {
		t.Errorf("info %q", st.Info)
	}
	if !slices.ContainsFunc(st.Problems, func(p string) bool { return strings.Contains(p, `sandbox = "read-only" is not available`) }) {
		t.Errorf("problems %q", st.Problems)
	}
	r, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Code: "echo hi", Sandbox: proto.LevelOff})
	if b, _ := json.Marshal(r.Confinement); err != nil || string(b) != `{"sandbox":"off","network":true,"means":[],"unlimited":["tasks"]}` {
		t.Errorf("%s, %v", b, err)
	}
}

// The levels in the stats are those that runs can have.
func TestLevelsInStats(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	st := proto.Stats{Info: map[string]string{}}
	a.stats(&st)
	for _, level := range proto.Levels {
		_, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Sandbox: level, Root: a.root})
		told := slices.Contains(strings.Split(st.Info["sandboxes"], ", "), string(level))
		if told != (err == nil) || told != (st.Info["no sandbox "+string(level)] == "") {
			t.Errorf("%s: told %v, %v, %q", level, told, err, st.Info)
		}
	}
}

// CPU time is reported if there are control groups.
func TestAccounting(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	r, err := a.run(t, proto.LevelOff, "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done")
	if err != nil || (a.host.tree == nil) != (r.Confinement.CPUMS == nil) || r.Confinement.CPUMS != nil && *r.Confinement.CPUMS == 0 {
		t.Errorf("%+v, %v", r.Confinement, err)
	}
}

// The level off cannot keep code from the network: a request without network is an
// error, a configuration without it is not.
func TestOffWithoutNetwork(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *config.Exc) { c.Network = false }, nil)
	for _, level := range []proto.Level{proto.LevelOff, ""} {
		_, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Sandbox: level, Network: new(false)})
		if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeInvalid || !strings.Contains(e.Message, "read-only, workspace-write, unit") {
			t.Errorf("%q: %v", level, err)
		}
		for _, tool := range []string{"bash", "read", "write"} {
			req := call(tool, s.dir, in{"command": "true", "path": "x", "content": "x"})
			req.Sandbox, req.Network = level, new(false)
			if got, err := s.call(t.Context(), req, nil); err != nil || !strings.Contains(string(got.Result), `"code":"invalid_input"`) || exists(s.dir+"/x") {
				t.Errorf("%s at %q: %s, %v", tool, level, got.Result, err)
			}
		}
		r, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Code: "echo hi", Sandbox: level})
		if err != nil || r.Stdout != "hi\n" || !r.Confinement.Network {
			t.Errorf("%q, as configured: %+v, %v", level, r, err)
		}
	}
}

// The file tools are refused at a level that is not available, as code is.
func TestFileToolsWithoutLevel(t *testing.T) {
	t.Parallel()
	s := newService(t, nil, nil)
	root := zinotest.Dir(t)
	zinotest.Write(t, root+"/file", "a")
	s.host.unit = s.dir + "/nobody"
	s.host.kernel = &sandbox.Kernel{NoNamespaces: errors.New("none here")}
	for _, level := range []proto.Level{proto.LevelReadOnly, proto.LevelWorkspaceWrite, proto.LevelUnit} {
		for tool, input := range map[string]in{"read": {"path": "file"}, "write": {"path": "x", "content": "x"}, "edit": {"path": "file", "old": "a", "new": "b"}} {
			req := call(tool, root, input)
			req.Sandbox = level
			got, err := s.call(t.Context(), req, nil)
			if err != nil || !strings.Contains(string(got.Result), `"code":"sandbox"`) || !strings.Contains(string(got.Result), "not available") || got.Confinement != nil {
				t.Errorf("%s at %s: %s, %v", tool, level, got.Result, err)
			}
		}
	}
	if exists(root + "/x") {
		t.Error("it was written")
	}
}

func TestConfinedEnviron(t *testing.T) {
	got := confinedEnviron([]string{"HOME=/home/u", "PATH=/bin", "XDG_RUNTIME_DIR=/run/user/1", "SSH_AUTH_SOCK=/s", "TMPDIR=/t", "A=b"}, "/tmp")
	if want := []string{"PATH=/bin", "A=b", "HOME=/tmp", "TMPDIR=/tmp"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// The devices work at every level, and standard input is empty.
func TestDevices(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	const code = `set -e
echo x >/dev/null; echo x >>/dev/null
[ "$(head -c 3 /dev/zero | tr '\0' z)" = zzz ]
[ "$(head -c 9 /dev/urandom | wc -c)" = 9 ]
! { echo x >/dev/full; } 2>/dev/null
[ "$(cat | wc -c)" = 0 ]
[ /dev/stdin -ef /dev/null ]
echo fine`
	a.each(t, func(t *testing.T, _, name proto.Level) {
		r, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: code, Sandbox: name, Root: a.root})
		if err != nil || r.Stdout != "fine\n" || r.ExitCode != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// Confined code that listens cannot be reached.
func TestListening(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	for level, want := range map[proto.Level]bool{proto.LevelOff: true, proto.LevelReadOnly: false, proto.LevelWorkspaceWrite: false, levelLandlock: false} {
		if a.levelProblem(t.Context(), a.at(level)) != nil {
			continue // TestAttacks sees to it
		}
		if got := a.dialedIn(t, level); got != want {
			t.Errorf("%s: code that listens was reached: %v", level, got)
		}
	}
}

// dialedIn runs code that listens, and connects to it until it has ended.
func (a *harness) dialedIn(t *testing.T, level proto.Level) bool {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if _, err := a.run(t, level, "export LISTEN="+address+"\n"+attacker("listen")); err != nil {
			t.Error(err)
		}
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			<-ended
			return true
		}
		select {
		case <-ended:
			return false
		case <-tick.C:
		}
	}
}

// TestUnprivilegedAttacks runs TestAttacks as an unprivileged user.
func TestUnprivilegedAttacks(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("TestAttacks has just done this")
		TestAttacks(t)
		return
	}
	dir := zinotest.Dir(t)
	if err := errors.Join(os.Chown(dir, 61234, 61234), os.Chmod(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	out, err := asUser(61234, dir, "-test.run=^TestAttacks$|^TestLimits$", "-test.v")
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// Limits are enforced, or reported as not enforced.
func TestLimits(t *testing.T) {
	t.Parallel()
	a := newHarness(t, func(c *config.Exc) { c.MemoryMax, c.TasksMax, c.Timeout = 600<<20, 100, 60 }) // the race detector takes 400 MiB itself
	a.ceiling = 4 << 20
	tests := []struct {
		name, code, limit string
		stopped           func(r proto.Result, confined bool) bool // what is to be expected
	}{
		{"memory", `perl -e '$x = "a" x 800_000_000; print "pwned\n"'`, "memory", func(r proto.Result, confined bool) bool { return confined || !unlimited(r, "memory") }},
		{"tasks", `perl -e 'for (1..300) { my $p = fork; defined $p or exit 1; $p or do { sleep 100; exit } } print "pwned\n"'`, "tasks", func(r proto.Result, _ bool) bool { return !unlimited(r, "tasks") }},
	}
	for _, level := range []proto.Level{proto.LevelOff, proto.LevelWorkspaceWrite} {
		if a.levelProblem(t.Context(), level) != nil {
			continue
		}
		for _, tt := range tests {
			r, err := a.run(t, level, tt.code)
			if stopped := !strings.Contains(r.Stdout, pwned); err != nil || stopped != tt.stopped(r, level != proto.LevelOff) {
				t.Errorf("%s at %s: stopped %v, %v\n%+v %+v", tt.name, level, stopped, err, r, r.Confinement)
			}
			t.Logf("%s at %s: unlimited %v, stopped %v", tt.name, level, unlimited(r, tt.limit), !strings.Contains(r.Stdout, pwned))
		}
	}
}

// asUser runs this test program as another user.
func asUser(uid uint32, dir string, args ...string) (string, error) {
	cmd := testProgram(dir, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
