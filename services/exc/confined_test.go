package exc

import (
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
)

// confinedLevels are the levels that confine without a unit, writableLevels those
// of them at which the root can be written.
var (
	confinedLevels = []proto.Level{proto.LevelReadOnly, proto.LevelWorkspaceWrite, levelLandlock}
	writableLevels = confinedLevels[1:]
)

// each runs a test at each level. A level that is not available here must be refused.
func (a *harness) each(t *testing.T, levels []proto.Level, do func(t *testing.T, level proto.Level)) {
	t.Helper()
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			if a.available(t, level) {
				do(t, level)
			}
		})
	}
}

// available reports whether this host has a level, and checks that the level is
// refused with the reason otherwise.
func (a *harness) available(t *testing.T, level proto.Level) bool {
	t.Helper()
	name := a.at(level)
	why := a.levelProblem(t.Context(), name)
	if why == nil {
		return true
	}
	_, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: "echo pwned", Sandbox: name, Root: a.root})
	zinotest.Error(t, err, proto.ErrUnavailable, why.Error())
	return false
}

// programs are what interpreters and devices need to work when they are confined.
// Each prints "42 true".
var programs = []struct{ executor, code string }{
	{"python3", `
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
`},
	{"node", `
const fs = require("fs"), os = require("os"), { execSync } = require("child_process");
fs.writeFileSync(os.tmpdir() + "/x", "x");
let n = 0;
for (let i = 0; i < 1e6; i++) n += i % 3; // compiled on the way
console.log(42, execSync("echo sub").toString() === "sub\n");
`},
	{"bash", `n=$(cat <<END | wc -l
$(for i in 1 2 3; do echo $i; done)
END
)
[[ $n = 3 && $(mktemp) == $TMPDIR/* ]] && seq 40 >"$TMPDIR/y" && cd && pwd | grep -qx "$TMPDIR" && echo 42 true`},
	{"bash", `set -e
echo x >/dev/null; echo x >>/dev/null
[ "$(head -c 3 /dev/zero | tr '\0' z)" = zzz ]
[ "$(head -c 9 /dev/urandom | wc -c)" = 9 ]
! { echo x >/dev/full; } 2>/dev/null
[ "$(cat | wc -c)" = 0 ]
[ /dev/stdin -ef /dev/null ]
echo 42 true`},
	{"bash", `mkdir -p "$TMPDIR/a/b" && chmod 000 "$TMPDIR/a" "$TMPDIR" && echo 42 true`}, // a directory that is hard to remove
}

func TestConfinedPrograms(t *testing.T) {
	t.Parallel()
	a := newHarness(t, func(c *config.Exc) { c.MemoryMax = 2 << 30 })
	writeTools(t, a.dir, map[string]string{"node.json": `{"meta":{"executor":"node","file_extension":".js"}}`})
	a.catalog.Reload()
	a.each(t, confinedLevels, func(t *testing.T, level proto.Level) {
		for _, p := range programs {
			if r := a.runIn(t, level, a.root, p.executor, p.code); r.ExitCode != 0 || !strings.HasSuffix(strings.ToLower(r.Stdout), "42 true\n") {
				t.Errorf("%s: %+v\n%s", p.executor, r, p.code)
			}
		}
		zinotest.Eventually(t, "no directory is left", func() bool { return len(a.workspaces()) == 0 }) // those of analyses may outlive a run
	})
}

// Code has the network if the request asks for it, and never sockets with a path.
// Without the network, code in a namespace can still connect to itself.
func TestNetwork(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	a.each(t, confinedLevels, func(t *testing.T, level proto.Level) {
		r, err := a.execute(t.Context(), proto.Execute{
			Executor: "bash", Root: a.root, Sandbox: a.at(level), Network: new(true),
			Code: a.env() + attacker("dial") + "\n" + attacker("dial unix") + "\n" + attacker("dial @"),
		})
		if hits := a.hitsSoFar(); err != nil || !slices.Equal(hits, []string{"dial"}) || !r.Confinement.Network {
			t.Errorf("reached %q, %+v, %v", hits, r, err)
		}
		code := "import socket\ns = socket.create_server(('127.0.0.1', 0))\nsocket.create_connection(s.getsockname())\nprint('met')\n"
		if r := a.runIn(t, level, a.root, "python3", code); (r.Stdout == "met\n") != (level != levelLandlock) || r.Confinement.Network {
			t.Errorf("without the network: %+v", r)
		}
	})
}

// The file with the whole of a long output can be read at every level.
func TestConfinedReadsOutputs(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	a.each(t, confinedLevels, func(t *testing.T, level proto.Level) {
		req := call("bash", a.root, in{"command": "seq 100000"})
		req.Sandbox, req.OutputBytes = a.at(level), 1000
		got, err := a.call(t.Context(), req, nil)
		_, path, ok := strings.Cut(string(got.Result), "the full output is in ")
		if err != nil || !ok {
			t.Fatalf("%.200s, %v", got.Result, err)
		}
		path = path[:strings.Index(path, "/stdout")+len("/stdout")]
		for tool, input := range map[string]in{"bash": {"command": "tail -n 1 " + path}, "read": {"path": path}} {
			if got := a.tool(t, level, tool, input); !strings.HasPrefix(got, `{"ok":true`) || !strings.Contains(got, `00\n`) {
				t.Errorf("%s: %.300s", tool, got)
			}
		}
	})
}

// Code that prints more than the ceiling is stopped before its time limit.
func TestFlood(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	a.ceiling = 4 << 20
	a.each(t, confinedLevels, func(t *testing.T, level proto.Level) {
		r := a.run(t, level, "yes")
		if r.TimedOut || r.ExitCode == 0 || r.Confinement.Limit != "output" || !strings.HasSuffix(r.Stderr, "Execution stopped: more than 4 MiB of output.") {
			t.Errorf("%d %q %+v", r.ExitCode, r.Stderr, r.Confinement)
		}
	})
}

// A run without a root, in a service that was started in /, has only a directory of
// its own.
func TestNoRoot(t *testing.T) {
	a := newHarness(t, nil)
	t.Chdir("/")
	a.each(t, confinedLevels, func(t *testing.T, level proto.Level) {
		r := a.runIn(t, level, "", "bash", `[ "$PWD" = "$HOME" ] && touch x && echo ok; touch /y /usr/y`)
		if r.Stdout != "ok\n" || exists("/y") || exists("/usr/y") {
			t.Errorf("%+v", r)
		}
	})
}

func TestConfinedEnviron(t *testing.T) {
	got := confinedEnviron([]string{"HOME=/home/u", "PATH=/bin", "XDG_RUNTIME_DIR=/run/user/1", "SSH_AUTH_SOCK=/s", "TMPDIR=/t", "A=b"}, "/tmp", "/tmp")
	if want := []string{"PATH=/bin", "A=b", "HOME=/tmp", "TMPDIR=/tmp"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// Confined code that listens cannot be reached.
func TestListening(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	a.each(t, tableLevels, func(t *testing.T, level proto.Level) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		zinotest.Must(t, err)
		address := l.Addr().String()
		l.Close()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.run(t, level, "export LISTEN="+address+"\n"+attacker("listen"))
		}()
		reached := false
		for running := true; running && !reached; {
			if c, err := net.Dial("tcp", address); err == nil {
				reached = true
				c.Close()
			}
			select {
			case <-ended:
				running = false
			case <-time.After(5 * time.Millisecond):
			}
		}
		<-ended
		zinotest.Equal(t, "code that listens was reached", reached, !level.Confined())
	})
}

// TestUnprivilegedAttacks runs TestAttacks as a user without root's rights.
func TestUnprivilegedAttacks(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("TestAttacks has just done this")
		TestAttacks(t)
		return
	}
	t.Logf("%s", asUser(t, "TestAttacks", "TestLimits"))
}

// Limits are enforced, or reported as not enforced.
func TestLimits(t *testing.T) {
	t.Parallel()
	a := newHarness(t, func(c *config.Exc) { c.MemoryMax, c.TasksMax, c.Timeout = 600<<20, 100, 60 }) // the race detector takes 400 MiB itself
	a.ceiling = 4 << 20
	for _, level := range []proto.Level{proto.LevelOff, proto.LevelWorkspaceWrite} {
		if !a.available(t, level) {
			continue
		}
		for limit, code := range map[string]string{
			"memory": `perl -e '$x = "a" x 800_000_000; print "pwned\n"'`,
			"tasks":  `perl -e 'for (1..300) { my $p = fork; defined $p or exit 1; $p or do { sleep 100; exit } } print "pwned\n"'`,
		} {
			r := a.run(t, level, code)
			stopped, reported := !strings.Contains(r.Stdout, pwned), slices.Contains(r.Confinement.Unlimited, limit)
			if want := !reported || limit == "memory" && level.Confined(); stopped != want {
				t.Errorf("%s at %s: stopped %v, want %v: %+v %+v", limit, level, stopped, want, r, r.Confinement)
			}
			t.Logf("%s at %s: reported as not enforced %v, stopped %v", limit, level, reported, stopped)
		}
	}
}

// asUser runs tests of this program again as another user, in a directory of its
// own, and returns what they print.
func asUser(t *testing.T, tests ...string) string {
	t.Helper()
	const uid = 61234
	dir := zinotest.Dir(t)
	zinotest.Must(t, errors.Join(os.Chown(dir, uid, uid), os.Chmod(dir, 0o700)))
	cmd := testProgram(dir, "-test.run=^("+strings.Join(tests, "|")+")$", "-test.v")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	for _, name := range tests {
		if err != nil || !strings.Contains(string(out), "--- PASS: "+name+" ") {
			t.Fatalf("%s as user %d: %v\n%s", name, uid, err, out)
		}
	}
	return string(out)
}
