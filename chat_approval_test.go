package zino_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
	"zino/pkg/zinotest/fakedaemon"
)

// newFakeChat opens the interactive chat on a scripted daemon: zino --socket S ARGS.
func newFakeChat(t *testing.T, d *fakedaemon.Daemon, args string, env ...string) *zinotest.Screen {
	t.Helper()
	s := zinotest.NewScreen(t, bin, append([]string{"TMUX=yes"}, env...)...)
	zinotest.Write(t, filepath.Join(s.Dir, "home", ".config", "zino", "chat_history"), "\"hello\"\n")
	s.Tmux("set", "-g", "status", "off")
	s.Tmux("resize-window", "-x", "80", "-y", "24")
	s.Enter("mkdir ~/proj; cd ~/proj; clear; zino --socket " + d.Socket + " " + args)
	s.Shows("/help", `\$0\.00|claude`)
	return s
}

// begin sends a message and returns its turn.
func begin(s *zinotest.Screen, d *fakedaemon.Daemon, message string) *fakedaemon.Turn {
	s.Enter(message)
	turn := d.Turn()
	turn.Live()
	s.Shows("Esc stops", ``)
	return turn
}

// leave ends the chat.
func leave(s *zinotest.Screen) {
	s.Tmux("send-keys", "C-d")
	s.Shows("", shell)
}

// asks is the packet of a request to run a command; more are further fields, with a comma
// behind them.
func asks(id, command, more string) string {
	return fmt.Sprintf(`{"type":"approval_requested","id":"ap-%s","state":"pending","kind":"call",%s"session_id":"6467336c-1f30-429b-8d2f-0123456789ab","turn":"t-1","step":1,"call_id":"c1",`+
		`"by":{"uid":1000,"user":"ann"},"call":{"tool":"bash","input":{"command":%q},"sandbox":"off","network":true,"files":[]},"digest":"sha256:%[1]s","preview":{"commands":[%[3]q]}}`, id, more, command)
}

const deletes = `"reasons":["deletes files"],`

// ready waits until the dialog accepts keys: its choices are no longer dim.
func ready(t *testing.T, s *zinotest.Screen, choice string) {
	zinotest.Eventually(t, "a dialog with "+choice+" that accepts keys", func() bool {
		for line := range strings.Lines(s.Tmux("capture-pane", "-p", "-e")) {
			if strings.HasPrefix(line, choice) {
				return true
			}
		}
		return false
	})
}

// TestChatApproval checks the dialog of requests: how it looks, what it accepts, and what
// the daemon is sent.
func TestChatApproval(t *testing.T) {
	t.Parallel()
	d := fakedaemon.New(t)
	s := newFakeChat(t, d, "--sandbox off")
	turn := begin(s, d, "clean up")
	s.Tmux("send-keys", "-l", "half a message")
	s.Shows("half a message", ``)
	turn.Send(asks("1", "rm -rf build", deletes), asks("2", "make install", ""))
	ready(t, s, "1 once")
	s.Eventually("screen 07", func(text string) bool {
		return strings.Contains(text, "bash wants to run (deletes files), sandbox off, 1 of 2\n    rm -rf build\n1 once · 2 this session · 3 always \"rm -rf build*\" · 4 deny\n")
	})
	if text := s.Text(); strings.Contains(text, "half a message") {
		t.Errorf("the editor is shown with the dialog:\n%s", text)
	}
	checkDialog(t, s, "chat-07")
	// Neither Enter nor other keys answer; a paste does not either.
	s.Tmux("send-keys", "Enter", "y", "Space", "Tab")
	s.Tmux("set-buffer", "1\n2\n")
	s.Tmux("paste-buffer", "-p")
	s.Tmux("send-keys", "3")
	s.Shows("Always allow what matches this", ``)
	s.Shows("> rm -rf build*", ``)
	s.Tmux("send-keys", "BSpace", "Enter")
	r := d.Request("approve")
	zinotest.Equal(t, "the answer", r.JSON(), `{"answer":"always","digest":"sha256:1","id":"ap-1","pattern":"rm -rf build"}`)
	s.Shows("Always allowed: bash rm -rf build", ``)
	ready(t, s, "1 once")
	s.Shows(`3 always "make *"`, ``)
	s.Tmux("send-keys", "Escape")
	s.Shows("A reason for the model", ``)
	s.Tmux("send-keys", "-l", "not now")
	s.Tmux("send-keys", "Enter")
	zinotest.Equal(t, "the answer", d.Request("approve").JSON(), `{"answer":"deny","digest":"sha256:2","id":"ap-2","note":"not now"}`)
	s.Shows("Denied: bash make install", ``)
	s.Shows("> half a message", ``)
	turn.Send(asks("3", "sudo make", `"grantable":"once",`))
	ready(t, s, "1 once · 4 deny")
	s.Tmux("send-keys", "2", "3", "1")
	zinotest.Equal(t, "the answer", d.Request("approve").JSON(), `{"answer":"once","digest":"sha256:3","id":"ap-3"}`)
	s.Shows("Allowed once: bash sudo make", ``)
	zinotest.Equal(t, "answers", len(d.Requests("approve")), 3)
	s.Tmux("send-keys", "C-u")
	turn.End("done")
	leave(s)
}

// checkDialog compares the screen from the activity line on with a golden one.
func checkDialog(t *testing.T, s *zinotest.Screen, name string) {
	t.Helper()
	text := s.Text()
	checkText(t, s, name, working.ReplaceAllString(text, "Working 0s"))
}

// TestChatTypeAhead checks that nothing that was typed before a dialog appeared answers it,
// wherever it is: with zino-chat stopped, it waits in the terminal's buffer.
func TestChatTypeAhead(t *testing.T) {
	t.Parallel()
	d := fakedaemon.New(t)
	s := newFakeChat(t, d, "")
	turn := begin(s, d, "clean up")
	pid, err := turn.PID()
	zinotest.Must(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 8 {
		zinotest.Must(t, syscall.Kill(pid, syscall.SIGSTOP))
		turn.Send(asks(fmt.Sprint(round), "rm -rf build", deletes))
		for range 20 {
			const keys = "1234 1111yY3qx"
			var typed strings.Builder
			for range 1 + random.IntN(20) {
				typed.WriteByte(keys[random.IntN(len(keys))])
			}
			if random.IntN(4) == 0 {
				s.Tmux("set-buffer", typed.String()+"1\n1")
				s.Tmux("paste-buffer", "-p")
				continue
			}
			s.Tmux("send-keys", "-l", typed.String())
		}
		zinotest.Must(t, syscall.Kill(pid, syscall.SIGCONT))
		ready(t, s, "1 once")
		s.Tmux("send-keys", "4", "Enter")
		r := d.Request("approve")
		zinotest.Equal(t, "the first answer", r.String("answer")+" "+r.String("id"), fmt.Sprintf("deny ap-%d", round))
		s.Shows("Denied", ``)
		s.Eventually("the editor", func(text string) bool { return !strings.Contains(text, "1 once") })
	}
	zinotest.Equal(t, "answers", len(d.Requests("approve")), 8)
	s.Tmux("send-keys", "C-c")
	turn.End("done")
	leave(s)
}

var working = regexp.MustCompile(`Working \d+s`)
