package zino_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/fakellm"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/fakedaemon"
)

// TestChatShell runs commands of the user in the chat: they are shown as calls of a tool,
// the model reads those that are kept with the next message, and those that are stopped
// leave no process.
func TestChatShell(t *testing.T) {
	t.Parallel()
	provider := fakellm.New(fakellm.Turn{Match: "wait", Wait: "go", Text: "waited"}, fakellm.Turn{Times: fakellm.Forever, Text: "done"})
	t.Cleanup(provider.Close)
	s := zinotest.NewScreen(t, bin, "ANTHROPIC_API_KEY=test", "ANTHROPIC_BASE_URL="+provider.Host, "TMUX=yes")
	s.Tmux("set", "-g", "status", "off")
	s.Enter("clear; zino")
	s.Shows("/help", `\$0\.00`)

	s.Enter("!")
	s.Shows("> !\nNothing to run.", ``)
	s.Enter("!cd /tmp")
	s.Shows("The directory of a session is fixed: start zino in /tmp.", ``)
	s.Enter("!cd / && pwd")
	s.Shows("✓ bash  cd / && pwd  1 line", ``)
	s.Enter("!seq 1 30; echo problem >&2; exit 3")
	s.Shows("✗ bash  seq 1 30; echo problem >&2; exit 3  exit 3", ``)
	s.Shows("… 21 more lines · /show 2\n    22\n", ``)
	s.Shows("    30\n    problem\n", ``)
	s.Enter("!!echo private $((40 + 2))")
	s.Shows("    private 42\n", ``)
	s.Enter("/show 2")
	s.Shows("    12\n    13\n", ``)
	zinotest.Equal(t, "requests", len(provider.Requests()), 0)

	s.Enter("explain")
	answered(s, "done")
	body := string(provider.Requests()[0].Body)
	zinotest.Contains(t, "the request", body, "I ran: seq 1 30; echo problem", `29\n30\nproblem\n`, "Exit status: 3", "explain")
	if strings.Contains(body, "private") {
		t.Errorf("the model was sent what !! ran: %s", body)
	}
	s.Tmux("send-keys", "Up", "Up")
	s.Shows("> /show 2", ``)
	s.Tmux("send-keys", "Up")
	s.Shows("> !!echo private $((40 + 2))", ``)
	s.Tmux("send-keys", "C-u")

	// A command is not allowed during a turn: it stays in the editor.
	s.Enter("wait")
	s.Shows("Esc stops", ``)
	s.Enter("!echo later")
	s.Shows("Wait for the turn to end, or press Esc.", ``)
	provider.Open("go")
	answered(s, "waited")
	s.Shows("> !echo later", ``)
	s.Tmux("send-keys", "Enter")
	s.Shows("✓ bash  echo later  1 line", ``)

	for i, key := range []string{"Escape", "C-c"} {
		seconds := fmt.Sprintf("%d%d", 1_000_000+os.Getpid(), i) // no other run has it
		s.Enter("!echo begun; sleep " + seconds)
		s.Eventually("the row of the command", func(text string) bool {
			_, row, _ := strings.Cut(text, "\nbash  echo begun; sleep "+seconds+"  ")
			row, _, _ = strings.Cut(row, "\n")
			return strings.HasSuffix(row, "s  begun")
		})
		s.Enter("what was queued")
		s.Shows("then: what was queued", ``)
		s.Tmux("send-keys", key)
		s.Shows("✗ bash  echo begun; sleep "+seconds+"  interrupted", ``)
		s.Shows("Interrupted.\n\n> what was queued\n", ``)
		zinotest.Equal(t, "processes", len(zinotest.Processes("sleep "+seconds)), 0)
		s.Tmux("send-keys", "C-u")
	}
	zinotest.Equal(t, "requests", len(provider.Requests()), 2)
	s.Tmux("send-keys", "C-d")
	s.Shows("Go on with", shell)
}

// TestChatShellMissing refuses a command where the daemon cannot run one.
func TestChatShellMissing(t *testing.T) {
	t.Parallel()
	d := fakedaemon.New(t)
	d.Remove("run_command")
	d.SetVersion("0.1.3")
	s := newFakeChat(t, d, "")
	s.Enter("!make")
	s.Shows("Not available: this daemon has no run_command (version 0.1.3).", ``)
	zinotest.Equal(t, "requests", len(d.Requests("run_command"))+len(d.Requests("turn_start")), 0)
	leave(s)
	zinotest.Contains(t, "the history", zinotest.Read(t, filepath.Join(s.Dir, "home", ".config", "zino", "chat_history")), `"!make"`)
}
