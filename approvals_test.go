package zino_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
)

// TestApprovalsTogether checks requests on two terminals with real services, a chat and zino
// attach: both show them, and the first answer closes them on both.
func TestApprovalsTogether(t *testing.T) {
	t.Parallel()
	script, err := fakellm.Parse(`=== reply match="Install it." times=forever
@call bash {"command":"make install"}
=== reply match="exit_code" times=forever
It is installed.
=== reply match="denied" times=forever
I could not.
`)
	zinotest.Must(t, err)
	provider := fakellm.New(script...)
	t.Cleanup(provider.Close)
	env := []string{"ANTHROPIC_API_KEY=test", "ANTHROPIC_BASE_URL=" + provider.Host, "TMUX=yes"}
	one := zinotest.NewScreen(t, bin, env...)
	home, run := filepath.Join(one.Dir, "home"), filepath.Join(one.Dir, "run")
	two := zinotest.NewScreen(t, bin, append(env, "HOME="+home, "XDG_RUNTIME_DIR="+run)...)
	tools := filepath.Join(one.Dir, "bin")
	zinotest.Write(t, filepath.Join(tools, "make"), "#!/bin/sh\necho \"$@\" >>made\n")
	zinotest.Must(t, os.Chmod(filepath.Join(tools, "make"), 0o755))
	zinotest.Write(t, filepath.Join(home, ".config", "zino", "config.toml"), "[repl]\nhttp = \"127.0.0.1:0\"\n")
	up := program(append(env, "HOME="+home, "XDG_RUNTIME_DIR="+run), "zino", "up")
	up.Dir = one.Dir
	services := zinotest.Start(t, up)
	zinotest.Eventually(t, "zino up", func() bool { return exists(filepath.Join(run, "zino", "daemon.sock")) })

	startChat(one, "80x24", "PATH="+tools+":$PATH zino --sandbox off --mode ask")
	made := filepath.Join(home, "proj", "made")
	const question = "    make install\n1 once · 2 this session · 3 always \"make *\" · 4 deny"
	ask := func() {
		t.Helper()
		one.Enter("Install it.")
		one.Eventually("the dialog", func(text string) bool { return strings.Contains(text, question) })
		two.Enter("clear; zino attach")
		two.Shows(`    make install`, `xplain why:`)
	}
	// The second terminal allows it once.
	ask()
	if exists(made) {
		t.Error("the command ran before the answer")
	}
	two.Enter("y")
	two.Shows("Allowed once: bash make install", `^\$`)
	one.Shows("Allowed by ", ``)
	answered(one, "It is installed.")
	zinotest.Equal(t, "what ran", zinotest.Read(t, made), "install\n")
	// The chat denies it: the prompt of the other terminal ends.
	ask()
	ready(t, one, "1 once")
	one.Tmux("send-keys", "4")
	one.Shows("A reason for the model", ``)
	one.Enter("not now")
	two.Shows("Denied by ", `^\$`)
	answered(one, "I could not.")
	zinotest.Contains(t, "the chat", one.History(), "Denied: bash make install", "denied this call: not now")
	zinotest.Equal(t, "what ran", zinotest.Read(t, made), "install\n")
	// The chat allows it for the session: the next call is not asked.
	ask()
	ready(t, one, "1 once")
	one.Tmux("send-keys", "2")
	two.Shows("Allowed by ", `^\$`)
	zinotest.Eventually(t, "the command", func() bool { return zinotest.Read(t, made) == "install\ninstall\n" })
	one.Eventually("the end of the turn", func(text string) bool { return !strings.Contains(text, "Esc stops") })
	one.Enter("Install it.")
	zinotest.Eventually(t, "the command", func() bool { return strings.Count(zinotest.Read(t, made), "\n") == 3 })
	one.Eventually("the end of the turn", func(text string) bool { return !strings.Contains(text, "Esc stops") })
	one.Enter("/approvals")
	one.Shows("bash make *, sandbox off, for the session", ``)
	// Ctrl-C interrupts a turn that asks on the other terminal, and the dialog closes.
	two.Enter("zino approvals revoke --all")
	two.Shows("Taken back: g-", `^\$`)
	ask()
	ready(t, one, "1 once")
	one.Tmux("send-keys", "C-c")
	two.Shows("Interrupted.", `^\$`)
	one.Eventually("the editor", func(text string) bool {
		return !strings.Contains(text, "1 once") && !strings.Contains(text, "Stopping")
	})
	leave(one)
	services.Signal(syscall.SIGINT)
	zinotest.Equal(t, "the exit status of zino up", services.Exit(), 0)
}
