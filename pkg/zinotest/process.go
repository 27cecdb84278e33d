package zinotest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
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
	// With the race detector, a process waits for a second before it exits.
	return append(os.Environ(), roleEnv+"="+role, "GORACE=atexit_sleep_ms=0")
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
