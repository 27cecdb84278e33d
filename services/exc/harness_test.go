package exc

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"zino/pkg/config"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/exc/sandbox"
)

// levelLandlock is the level workspace-write on a host without namespaces.
const levelLandlock proto.Level = "landlock alone"

// harness is a service on a host with victims for attacks.
type harness struct {
	*service
	root     string // the directory to work in
	outside  string // a directory outside of the root, with the file victim
	home     string // the user's, with .ssh/id
	victim   *exec.Cmd
	pty      *os.File // a terminal of the user's
	ptyName  string
	tcp      net.Listener
	sockets  []net.Listener  // with a path in root, and abstract
	datagram *net.UnixConn   // with a path in root
	hits     chan string     // names of attacks that reached a listener
	inherit  int             // a descriptor of a secret, not closed on exec
	marked   func() []string // lists what is left of runs
}

const secret = "the-secret-of-the-harness"

// newHarness makes a harness. change, if not nil, changes the configuration.
func newHarness(t *testing.T, change func(*config.Exc)) *harness {
	t.Helper()
	a := &harness{root: zinotest.Dir(t), outside: zinotest.Dir(t), home: zinotest.Dir(t), hits: make(chan string, 1000)}
	for path, text := range map[string]string{
		a.outside + "/victim": "intact\n", a.home + "/.ssh/id": secret, a.root + "/AGENTS.md": "intact\n",
		a.root + "/.git/config": "intact\n", a.root + "/.git/hooks/pre-commit": "intact\n", a.root + "/.git/hooks/pre-push": "intact\n",
		a.root + "/own/deep/config.toml": "intact\n", a.root + "/own/deep/other.toml": "intact\n", a.root + "/sub/AGENTS.md": "intact\n",
		a.root + "/.mcp.json": "intact\n", a.root + "/.claude/settings.json": "intact\n", a.root + "/.agents/skill": "intact\n",
		a.root + "/linked/AGENTS.md": "intact\n",
	} {
		zinotest.Write(t, path, text)
	}
	a.service = newService(t, change, nil)
	a.host.home, a.host.protected = a.home, []string{filepath.Join(a.root, "own/deep")}
	thisHost.Lock()
	if thisHost.Kernel == nil {
		thisHost.Kernel = new(a.kernel(t.Context()))
	}
	a.host.kernel = thisHost.Kernel
	thisHost.Unlock()
	a.victim = exec.Command("sleep", "1000")
	a.victim.Env = []string{"WORD=" + secret}
	zinotest.Must(t, a.victim.Start())
	t.Cleanup(func() { a.victim.Process.Kill(); a.victim.Wait() }) // later attacks need a victim that was killed before, as a zombie
	a.openTerminal(t)
	a.listen(t)
	zinotest.Must(t, errors.Join(os.Link(theAttacker(), a.root+"/attacker"), os.Link(a.root+"/linked/AGENTS.md", a.root+"/hard.md")))
	var err error
	a.inherit, err = unix.Open(a.home+"/.ssh/id", unix.O_RDONLY, 0) // it lacks O_CLOEXEC
	zinotest.Must(t, err)
	t.Cleanup(func() { unix.Close(a.inherit) })
	return a
}

// thisHost is the kernel of this host, probed once.
var thisHost struct {
	sync.Mutex
	*sandbox.Kernel
}

// attackerDir is where theAttacker is.
var attackerDir string

// theAttacker copies the test program to a file to which hard links can be made.
var theAttacker = sync.OnceValue(func() string {
	var err error
	if attackerDir, err = os.MkdirTemp("", "z"); err != nil {
		panic(err)
	}
	if err := exec.Command("cp", fmt.Sprintf("/proc/%d/exe", os.Getpid()), attackerDir+"/attacker").Run(); err != nil {
		panic(err)
	}
	return attackerDir + "/attacker"
})

// testProgram runs this test program in a directory that is also its home.
func testProgram(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir}
	return cmd
}

// openTerminal opens a pseudo-terminal.
func (a *harness) openTerminal(t *testing.T) {
	t.Helper()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	zinotest.Must(t, err)
	t.Cleanup(func() { pty.Close() })
	n, err := unix.IoctlGetInt(int(pty.Fd()), unix.TIOCGPTN)
	zinotest.Must(t, errors.Join(err, unix.IoctlSetPointerInt(int(pty.Fd()), unix.TIOCSPTLCK, 0)))
	a.pty, a.ptyName = pty, "/dev/pts/"+strconv.Itoa(n)
}

// listen opens the listeners that attacks dial.
func (a *harness) listen(t *testing.T) {
	t.Helper()
	var err error
	open := func(network, address string) net.Listener {
		l, err := net.Listen(network, address)
		zinotest.Must(t, err)
		t.Cleanup(func() { l.Close() })
		go a.accept(l)
		return l
	}
	a.tcp = open("tcp", "127.0.0.1:0")
	a.sockets = []net.Listener{open("unix", a.root+"/sock"), open("unix", "@"+filepath.Base(a.root))}
	a.datagram, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: a.root + "/dgram", Net: "unixgram"})
	zinotest.Must(t, err)
	t.Cleanup(func() { a.datagram.Close() })
	go func() {
		buf := make([]byte, 100)
		for {
			n, _, err := a.datagram.ReadFromUnix(buf)
			if err != nil {
				return
			}
			a.hits <- strings.TrimSpace(string(buf[:n]))
		}
	}()
}

// accept records the attacks that connect: each sends its name.
func (a *harness) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		line, _ := bufio.NewReader(c).ReadString('\n')
		a.hits <- strings.TrimSpace(line)
		c.Close()
	}
}

// env sets the variables that name the victims.
func (a *harness) env() string {
	return fmt.Sprintf("ROOT=%s OUT=%s REALHOME=%s VICTIM=%d PTY=%s TCP=%s SOCK=%s ABSTRACT=%s DGRAM=%s FD=%d\nexport ROOT OUT REALHOME VICTIM PTY TCP SOCK ABSTRACT DGRAM FD\n",
		a.root, a.outside, a.home, a.victim.Process.Pid, a.ptyName, a.tcp.Addr(), a.root+"/sock", filepath.Base(a.root), a.root+"/dgram", a.inherit)
}

// run runs Bash code in the root at a level, with the variables of env.
func (a *harness) run(t testing.TB, level proto.Level, code string) proto.Result {
	t.Helper()
	return a.runIn(t, level, a.root, "bash", a.env()+code)
}

// runIn runs code at a level in a root. An error is reported.
func (a *harness) runIn(t testing.TB, level proto.Level, root, executor, code string) proto.Result {
	t.Helper()
	r, err := a.execute(t.Context(), proto.Execute{Executor: executor, Code: code, Sandbox: a.at(level), Root: root})
	if err != nil {
		t.Errorf("%s at %s: %v", executor, level, err)
		return proto.Result{ExitCode: -1, Confinement: new(proto.Confinement)}
	}
	return r
}

// tool calls a tool at a level in the root and returns the envelope.
func (a *harness) tool(t testing.TB, level proto.Level, tool string, input in) string {
	t.Helper()
	return a.toolIn(t, a.at(level), a.root, tool, input)
}

// at sets the host to what a level of the tests needs, and returns its name in
// requests.
func (a *harness) at(level proto.Level) proto.Level {
	a.host.mu.Lock()
	defer a.host.mu.Unlock()
	if level != levelLandlock {
		a.host.kernel = thisHost.Kernel
		return level
	}
	a.host.kernel = new(sandbox.Probe(func() error { return errors.New("refused by the test") }))
	return proto.LevelWorkspaceWrite
}

// hitsSoFar returns the names of the attacks that reached a listener. It connects
// to each listener itself: all earlier connections have been recorded then.
func (a *harness) hitsSoFar() (hits []string) {
	const last = "last"
	for _, dialed := range [][2]string{{"tcp", a.tcp.Addr().String()}, {"unix", a.root + "/sock"}, {"unix", "@" + filepath.Base(a.root)}, {"unixgram", a.root + "/dgram"}} {
		c, err := net.Dial(dialed[0], dialed[1])
		if err != nil {
			continue
		}
		fmt.Fprintln(c, last)
		c.Close()
		for hit := range a.hits {
			if hit == last {
				break
			}
			hits = append(hits, hit)
		}
	}
	return hits
}

// intact reports whether a victim that is a file is unchanged.
func intact(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && string(text) == "intact\n"
}
