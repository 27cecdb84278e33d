package supervise

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

// other is a supervisor in a process of its own.
type other struct {
	cmd    *exec.Cmd
	said   *bufio.Reader
	socket string
}

func newOther(t *testing.T) *other {
	t.Helper()
	o := &other{socket: filepath.Join(shortDir(t), "s")}
	o.cmd = exec.Command(os.Args[0], o.socket)
	o.cmd.Env = append(os.Environ(), modeEnv+"=supervisor")
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := o.cmd.StdoutPipe()
	zinotest.Must(t, err)
	zinotest.Must(t, o.cmd.Start())
	t.Cleanup(func() {
		o.cmd.Process.Kill() // an error: it has ended
		o.cmd.Wait()
	})
	o.said = bufio.NewReader(out)
	o.says(t, "ready\n")
	return o
}

func (o *other) says(t *testing.T, want string) {
	t.Helper()
	if line, err := o.said.ReadString('\n'); err != nil || line != want {
		t.Fatalf("the supervisor says %q, %v; want %q", line, err, want)
	}
}

// TestKilledSupervisor leaves nothing behind.
func TestKilledSupervisor(t *testing.T) {
	o := newOther(t)
	pid, _ := who(t, o.socket)
	kill(t, o.cmd.Process.Pid, syscall.SIGKILL)
	until(t, "the program is gone", func() bool { return gone(pid) })
}

// TestInterruptedGroup holds that Ctrl-C on the terminal reaches the supervisor
// alone.
func TestInterruptedGroup(t *testing.T) {
	o := newOther(t)
	pid, group := who(t, o.socket)
	if group != pid {
		t.Errorf("the program %d is in the group %d", pid, group)
	}
	kill(t, -o.cmd.Process.Pid, syscall.SIGINT)
	o.says(t, "interrupted\n")
	if after, _ := who(t, o.socket); after != pid {
		t.Error("the program was ended")
	}
}
