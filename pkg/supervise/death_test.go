package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

// startOther starts a supervisor in a new process group. Its program listens on socket.
func startOther(t *testing.T) (p *zinotest.Process, socket string) {
	t.Helper()
	socket = filepath.Join(zinotest.Dir(t), "s")
	cmd := exec.Command(os.Args[0], socket)
	cmd.Env = append(os.Environ(), modeEnv+"=supervisor")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p = zinotest.Start(t, cmd)
	p.Out.WaitFor(t, "ready\n")
	return p, socket
}

// TestKilledSupervisor checks that SIGKILL to the supervisor ends the program.
func TestKilledSupervisor(t *testing.T) {
	p, socket := startOther(t)
	pid, _ := who(t, socket)
	p.Kill()
	zinotest.Eventually(t, "the program is gone", func() bool { return zinotest.Gone(pid) })
}

// TestInterruptedGroup checks that Ctrl-C on the terminal does not signal the program.
func TestInterruptedGroup(t *testing.T) {
	p, socket := startOther(t)
	pid, group := who(t, socket)
	if group != pid {
		t.Errorf("the program %d is in the group %d", pid, group)
	}
	zinotest.Must(t, syscall.Kill(-p.Process.Pid, syscall.SIGINT))
	p.Out.WaitFor(t, "ready\ninterrupted\n")
	if after, _ := who(t, socket); after != pid {
		t.Error("the program was ended")
	}
}
