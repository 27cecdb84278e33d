package exc

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"zino/pkg/config"
	"zino/proto"
	"zino/services/exc/sandbox"
)

// confinedLevels are the levels that confine without a unit.
var confinedLevels = []string{levelReadOnly, levelWorkspace, levelLandlock}

// each has a test done at each confined level that this host can have; where it
// cannot, the level must be refused.
func (a *arena) each(t *testing.T, do func(t *testing.T, level, name string)) {
	t.Helper()
	for _, level := range confinedLevels {
		name := a.at(level)
		t.Run(level, func(t *testing.T) {
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
	a := newArena(t, func(c *config.Exc) { c.MemoryMax = 2 << 30 })
	writeTools(t, a.dir, map[string]string{"node.json": `{"meta":{"executor":"node","file_extension":".js"}}`})
	eventually(t, func() bool { _, ok := a.catalog.Snapshot().Executor("node"); return ok })
	a.each(t, func(t *testing.T, _, name string) {
		for executor, code := range interpreters {
			r, err := a.execute(t.Context(), proto.Execute{Executor: executor, Code: code, Sandbox: proto.Level(name), Root: a.root})
			if out := strings.ToLower(r.Stdout); err != nil || r.ExitCode != 0 || !strings.HasSuffix(out, "42 true\n") {
				t.Errorf("%s: %+v, %v", executor, r, err)
			}
		}
	})
}

// Code has the network where it was asked for, and sockets with a path nowhere.
func TestNetwork(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	a.each(t, func(t *testing.T, _, name string) {
		r, err := a.execute(t.Context(), proto.Execute{
			Executor: "bash", Root: a.root, Sandbox: proto.Level(name), Network: new(true),
			Code: a.env() + attacker("dial") + "\n" + attacker("dial unix") + "\n" + attacker("dial @"),
		})
		if hits := a.hitsSoFar(); err != nil || !slices.Equal(hits, []string{"dial"}) || !r.Confinement.Network {
			t.Errorf("reached %q, %+v, %v", hits, r, err)
		}
	})
}

// Without the network a program can still speak to itself, where it has a
// network of its own.
func TestLoopback(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	a.each(t, func(t *testing.T, level, name string) {
		code := "import socket\ns = socket.create_server(('127.0.0.1', 0))\nsocket.create_connection(s.getsockname())\nprint('met')\n"
		r, err := a.execute(t.Context(), proto.Execute{Executor: "python3", Code: code, Sandbox: proto.Level(name), Root: a.root})
		if met := r.Stdout == "met\n"; err != nil || met != (level != levelLandlock) || r.Confinement.Network {
			t.Errorf("met itself: %v, %+v, %v", met, r, err)
		}
	})
}

// An output that was too long for a result can be read at every level.
func TestConfinedReadsOutputs(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	a.each(t, func(t *testing.T, _, name string) {
		req := call("bash", a.root, in{"command": "seq 100000"})
		req.Sandbox, req.OutputBytes = proto.Level(name), 1000
		got, err := a.call(t.Context(), req, nil)
		_, path, ok := strings.Cut(string(got.Result), "the full output is in ")
		if err != nil || !ok {
			t.Fatalf("%.200s, %v", got.Result, err)
		}
		path = path[:strings.Index(path, "/stdout")+len("/stdout")]
		for tool, input := range map[string]in{"bash": {"command": "tail -n 1 " + path}, "read": {"path": path}} {
			req := call(tool, a.root, input)
			req.Sandbox = proto.Level(name)
			if got, err := a.call(t.Context(), req, nil); err != nil || !strings.Contains(string(got.Result), `"ok":true`) || !strings.Contains(string(got.Result), `00\n`) {
				t.Errorf("%s: %.300s, %v", tool, got.Result, err)
			}
		}
	})
}

// Code that floods its output is stopped long before its time is over.
func TestFlood(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	a.ceiling = 4 << 20
	a.each(t, func(t *testing.T, level, name string) {
		r, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: "yes", Sandbox: proto.Level(name), Root: a.root})
		if err != nil || r.TimedOut || r.ExitCode == 0 || r.Confinement.Limit != "output" || !strings.HasSuffix(r.Stderr, "Execution stopped: more than 4 MiB of output.") {
			t.Errorf("%d %q %+v, %v", r.ExitCode, r.Stderr, r.Confinement, err)
		}
	})
}

// A run without a root in a service that was started in / has a directory of its
// own and nothing else.
func TestNoRoot(t *testing.T) {
	a := newArena(t, nil)
	t.Chdir("/")
	a.each(t, func(t *testing.T, _, name string) {
		r, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: `[ "$PWD" = "$HOME" ] && touch x && echo ok; touch /y /usr/y`, Sandbox: proto.Level(name)})
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

// A host that has nothing refuses every level, with the reason, and the counters
// say so.
func TestHostWithNothing(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *config.Exc) { c.Sandbox = levelReadOnly }, nil)
	s.host.unit = s.dir + "/nobody"
	s.host.tree, s.host.noTree = nil, errors.New("no groups here")
	s.host.kernel = &sandbox.Kernel{NoNamespaces: errors.New("none here")}
	_, err := s.execute(t.Context(), proto.Execute{Executor: "bash"})
	if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeUnavailable || !strings.Contains(e.Message, "none here") || !strings.Contains(e.Message, "Landlock") {
		t.Errorf("got %v", err)
	}
	st := proto.Stats{Info: map[string]string{}}
	s.stats(&st)
	if st.Info["sandboxes"] != levelOff || !strings.Contains(st.Info["no sandbox workspace-write"], "none here") ||
		!strings.Contains(st.Info["no sandbox unit"], "nobody") || st.Info["no control groups"] != "no groups here" || st.Info["limits not enforced"] != "tasks" {
		t.Errorf("info %q", st.Info)
	}
	if !slices.ContainsFunc(st.Problems, func(p string) bool { return strings.Contains(p, `sandbox = "read-only" is not available`) }) {
		t.Errorf("problems %q", st.Problems)
	}
	r, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Code: "echo hi", Sandbox: levelOff})
	if b, _ := json.Marshal(r.Confinement); err != nil || string(b) != `{"sandbox":"off","network":true,"means":[],"unlimited":["tasks"]}` {
		t.Errorf("%s, %v", b, err)
	}
}

// What the counters say agrees with what happens.
func TestLevelsTold(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	st := proto.Stats{Info: map[string]string{}}
	a.stats(&st)
	for _, level := range config.Sandboxes {
		_, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Sandbox: proto.Level(level), Root: a.root})
		told := slices.Contains(strings.Split(st.Info["sandboxes"], ", "), level)
		if told != (err == nil) || told != (st.Info["no sandbox "+level] == "") {
			t.Errorf("%s: told %v, %v, %q", level, told, err, st.Info)
		}
	}
}

// What a run takes is told where there are control groups.
func TestAccounting(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	r, err := a.run(t, levelOff, "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done")
	if err != nil || (a.host.tree == nil) != (r.Confinement.CPUMS == nil) || r.Confinement.CPUMS != nil && *r.Confinement.CPUMS == 0 {
		t.Errorf("%+v, %v", r.Confinement, err)
	}
}

// Nothing keeps code from the network at the level off. Who asks for that gets no
// run that has it; who leaves it to the configuration asks for nothing.
func TestOffWithoutNetwork(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *config.Exc) { c.Network = false }, nil)
	for _, level := range []string{levelOff, ""} {
		_, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Sandbox: proto.Level(level), Network: new(false)})
		if e, ok := errors.AsType[*proto.Error](err); !ok || e.Code != proto.CodeInvalid || !strings.Contains(e.Message, "read-only, workspace-write, unit") {
			t.Errorf("%q: %v", level, err)
		}
		for _, tool := range []string{"bash", "read", "write"} {
			req := call(tool, s.dir, in{"command": "true", "path": "x", "content": "x"})
			req.Sandbox, req.Network = proto.Level(level), new(false)
			if got, err := s.call(t.Context(), req, nil); err != nil || !strings.Contains(string(got.Result), `"code":"invalid_input"`) || exists(s.dir+"/x") {
				t.Errorf("%s at %q: %s, %v", tool, level, got.Result, err)
			}
		}
		r, err := s.execute(t.Context(), proto.Execute{Executor: "bash", Code: "echo hi", Sandbox: proto.Level(level)})
		if err != nil || r.Stdout != "hi\n" || !r.Confinement.Network {
			t.Errorf("%q, as configured: %+v, %v", level, r, err)
		}
	}
}

// The file tools are refused where a level is not available, as code is.
func TestFileToolsOfNoLevel(t *testing.T) {
	t.Parallel()
	s := newService(t, nil, nil)
	root := shortDir(t)
	mustWrite(t, root+"/file", "a")
	s.host.unit = s.dir + "/nobody"
	s.host.kernel = &sandbox.Kernel{NoNamespaces: errors.New("none here")}
	for _, level := range []string{levelReadOnly, levelWorkspace, levelUnit} {
		for tool, input := range map[string]in{"read": {"path": "file"}, "write": {"path": "x", "content": "x"}, "edit": {"path": "file", "old": "a", "new": "b"}} {
			req := call(tool, root, input)
			req.Sandbox = proto.Level(level)
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
