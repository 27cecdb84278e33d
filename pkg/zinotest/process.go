package zinotest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Roles are what the test binary can be run again as. An error is printed and
// ends the process with status 1.
type Roles map[string]func(args []string) error

const roleEnv, aloneEnv = "ZINOTEST_ROLE", "ZINOTEST_ALONE"

// Child runs the role that Command chose and exits; in the process of the tests
// it returns. TestMain calls it first.
func Child(roles Roles) {
	name := os.Getenv(roleEnv)
	if name == "" {
		return
	}
	os.Unsetenv(roleEnv) // not for the processes that the role starts
	role, ok := roles[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no role %q in this test binary\n", name)
		os.Exit(2)
	}
	if err := role(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Command returns a command that runs the test binary in a role of Child.
func Command(t testing.TB, role string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	Must(t, err)
	cmd := exec.Command(exe, args...)
	cmd.Env = RoleEnv(role)
	return cmd
}

// RoleEnv returns the environment in which the test binary runs a role: for
// code under test that starts a program itself.
func RoleEnv(role string) []string {
	// With the race detector, a process waits for a second before it exits. Under
	// `make cover`, a role that exits by itself is counted.
	return append(os.Environ(), append(CoverEnv(), roleEnv+"="+role, "GORACE=atexit_sleep_ms=0")...)
}

// coverEnv names the directory for the coverage of the programs under test.
// GOCOVERDIR would not do: go test -cover replaces it.
const coverEnv = "ZINOTEST_COVERDIR"

// Build builds the programs under test into dir. Under `make cover` they report
// their coverage, if their environment has what CoverEnv returns.
func Build(dir string, args ...string) error {
	into := []string{"build", "-o", dir + string(filepath.Separator)}
	if CoverEnv() != nil {
		into = append(into, "-cover", "-coverpkg=zino/...")
	}
	if err := goCommand(append(into, args...)...); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "zino-exc")); err != nil || CoverEnv() == nil {
		return nil
	}
	// exc runs itself between the service and executed code, with the code's
	// environment and in its sandbox: its complaint that it cannot write coverage
	// would be the code's output.
	return goCommand(append(into[:3:3], "zino/services/exc/zino-exc")...)
}

func goCommand(args ...string) error {
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// CoverEnv returns what the environment of a program built by Build needs.
func CoverEnv() []string {
	if dir := os.Getenv(coverEnv); dir != "" {
		return []string{"GOCOVERDIR=" + dir}
	}
	return nil
}

// Process is a running command. It is killed when the test ends.
type Process struct {
	*exec.Cmd
	Out, Err *Buffer // standard output and error, unless the command has its own

	t    testing.TB
	done chan struct{}
}

// Start starts a command.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Cmd: cmd, Out: new(Buffer), Err: new(Buffer), t: t, done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.Out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.Err
	}
	Must(t, cmd.Start())
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // Exit returns the status
	}()
	t.Cleanup(p.Kill)
	return p
}

// WaitFor waits until the process has written all parts to its standard error.
// It ends the test if the process ends before.
func (p *Process) WaitFor(parts ...string) {
	p.t.Helper()
	p.Eventually(fmt.Sprintf("it writes %q", parts), func() bool { return p.Err.Contains(parts...) })
}

// Eventually waits until condition holds. It ends the test if the process ends
// before.
func (p *Process) Eventually(what string, condition func() bool) {
	p.t.Helper()
	ended := false
	Eventually(p.t, what, func() bool {
		if ended = p.ended(); condition() {
			return true
		}
		if ended {
			p.t.Fatalf("%s: the process ended with %v before\n%s%s", what, p.ProcessState, p.Out, p.Err)
		}
		return false
	})
}

func (p *Process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit waits for the end of the process and returns its status, -1 if a signal
// killed it.
func (p *Process) Exit() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(Timeout):
		p.t.Fatalf("the process does not end; it wrote:\n%s%s", p.Out, p.Err)
	}
	return p.ProcessState.ExitCode()
}

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	Must(p.t, p.Process.Signal(s))
}

// Kill kills the process, unless it has ended, and waits for its end.
func (p *Process) Kill() {
	_ = p.Process.Kill() // an error: it has ended
	<-p.done
}

// CommandLines returns the command lines of all live processes by their pid, the
// words joined by blanks.
func CommandLines() map[int]string {
	lines := map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, file := range files {
		data, err := os.ReadFile(file)
		pid, pidErr := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && pidErr == nil && len(data) > 0 { // it has ended, or is a zombie
			lines[pid] = strings.ReplaceAll(string(data), "\x00", " ")
		}
	}
	return lines
}

// Processes lists the live processes whose command line contains part.
func Processes(part string) (list []string) {
	for pid, line := range CommandLines() {
		if strings.Contains(line, part) {
			list = append(list, fmt.Sprintf("%d: %s", pid, line))
		}
	}
	return list
}

// Gone reports whether no process has the pid, or only a zombie.
func Gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(stat, []byte(") Z "))
}

// KillAfter runs a command, kills it with SIGKILL after n lines of standard
// output, and returns all lines that it printed. A command that ends by itself
// is an error. Goroutines may call it.
func KillAfter(t testing.TB, cmd *exec.Cmd, n int) (lines []string) {
	t.Helper()
	var stderr Buffer
	if cmd.Stderr == nil {
		cmd.Stderr = &stderr
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	scan := bufio.NewScanner(out)
	for scan.Scan() {
		if lines = append(lines, scan.Text()); len(lines) == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Errorf("the process ended by itself: %v\n%s", err, &stderr)
	}
	return lines
}

// Alone runs the test again in a process of its own and returns true in the
// process that started it. A test that limits or changes the whole process
// begins with `if zinotest.Alone(t) { return }`.
func Alone(t *testing.T) (done bool) {
	t.Helper()
	if os.Getenv(aloneEnv) == t.Name() {
		return false
	}
	exe, err := os.Executable()
	Must(t, err)
	cmd := exec.Command(exe, "-test.v", "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$")
	if dir := os.Getenv(coverEnv); dir != "" {
		cmd.Args = append(cmd.Args, "-test.gocoverdir="+dir)
	}
	cmd.Env = append(os.Environ(), aloneEnv+"="+t.Name(), "GORACE=atexit_sleep_ms=0")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
	return true
}

// LimitFileSize limits the files of this process to size bytes until lift is
// called: a write beyond fails with EFBIG after a part, as on a full disk. Use
// it after Alone.
func LimitFileSize(t testing.TB, size uint64) (lift func()) {
	t.Helper()
	var old syscall.Rlimit
	Must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old))
	signal.Ignore(syscall.SIGXFSZ)
	limit := old
	limit.Cur = size
	Must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	return sync.OnceFunc(func() {
		Must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old))
		signal.Reset(syscall.SIGXFSZ)
	})
}
