package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

// TestSupervisorAlone starts a private supervisor whose client was killed, at each
// point of the handshake: it leaves nothing behind.
func TestSupervisorAlone(t *testing.T) {
	for _, test := range []struct {
		name, input string
		status      int
		out, stderr string
	}{
		{"before the configuration", "", 0, "made\n", ""},
		{"in the middle of a line", "x", 0, "made\n", ""},
		{"without a configuration", "\n", 1, "made\n", "Error [internal]: cannot read the configuration: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			status, out, stderr := run(t, w.command("up", "--private", filepath.Join(w.runtime, "zino-x")), test.input)
			if status != test.status || out != test.out || !strings.HasPrefix(stderr, test.stderr) || test.stderr == "" && stderr != "" {
				t.Errorf("status %d, stdout %q, stderr %q", status, out, stderr)
			}
			zinotest.Equal(t, "files left", zinotest.Names(t, w.runtime), "")
		})
	}
}

// TestSupervisorClosedPipe closes the streams of the supervisor.
func TestSupervisorClosedPipe(t *testing.T) {
	w := newWorld(t)
	cmd := w.command("up", "--private", filepath.Join(w.runtime, "zino-x"))
	r, out, err := os.Pipe()
	zinotest.Must(t, err)
	r.Close()
	cmd.Stdout, cmd.Stderr, cmd.Stdin = out, out, strings.NewReader("\n")
	if err := cmd.Run(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
		t.Errorf("it ended with %v, want status 1 for want of a configuration", err)
	}
	out.Close()
	zinotest.Equal(t, "files left", zinotest.Names(t, w.runtime), "")
}

// TestSupervisorForeignDir does not change a directory that exists.
func TestSupervisorForeignDir(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.runtime, "zino-x", "kept")
	zinotest.Must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	zinotest.Must(t, os.WriteFile(file, nil, 0o600))
	status, out, stderr := run(t, w.command("up", "--private", filepath.Dir(file)), "\n")
	if status != 1 || out != "" || !strings.HasPrefix(stderr, "Error [internal]: no place for the sockets of this run: ") {
		t.Errorf("status %d, stdout %q, stderr %q", status, out, stderr)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
