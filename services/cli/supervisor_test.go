package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

// TestSupervisorAlone checks that a private supervisor leaves no files if its client is
// killed at any point of the handshake.
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

// TestSupervisorClosedPipe checks that EPIPE does not kill the supervisor.
func TestSupervisorClosedPipe(t *testing.T) {
	w := newWorld(t)
	cmd := w.command("up", "--private", filepath.Join(w.runtime, "zino-x"))
	r, out, err := os.Pipe()
	zinotest.Must(t, err)
	r.Close()
	cmd.Stdout, cmd.Stderr, cmd.Stdin = out, out, strings.NewReader("\n")
	if err := cmd.Run(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
		t.Errorf("ended with %v, want status 1: no configuration", err)
	}
	out.Close()
	zinotest.Equal(t, "files left", zinotest.Names(t, w.runtime), "")
}

// TestSupervisorForeignDir checks that an existing directory is not changed.
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
