package cli

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// terminal is a terminal with zino on it.
type terminal struct {
	*zinotest.Terminal
	t *testing.T
}

// onTerminal starts a command whose standard streams are a terminal.
func onTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	x := &terminal{zinotest.NewTerminal(t), t}
	x.Start(cmd)
	return x
}

// prompts waits for the nth prompt in raw mode.
func (x *terminal) prompts(n int) {
	x.t.Helper()
	zinotest.Eventually(x.t, "prompt "+strconv.Itoa(n), func() bool { return x.Written.Count("\x1b[?2004h") >= n && !x.Cooked() })
}

// leaves waits for the exit and checks the status and that the terminal is restored.
func (x *terminal) leaves(status int) {
	x.t.Helper()
	if got := x.Exit(); got != status {
		x.t.Errorf("status %d, want %d; on the screen: %q", got, status, x.Written)
	}
	if !x.Cooked() {
		x.t.Error("the terminal is still raw")
	}
}

// ends is like leaves, and checks that bracketed paste is off.
func (x *terminal) ends(status int) {
	x.t.Helper()
	x.leaves(status)
	zinotest.Eventually(x.t, "bracketed paste is off", func() bool { // the last output may not have been read yet
		screen := x.Written.String()
		return strings.LastIndex(screen, "\x1b[?2004l") > strings.LastIndex(screen, "\x1b[?2004h")
	})
}
