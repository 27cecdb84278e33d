package zino_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
	"zino/pkg/zinotest/fakedaemon"
	"zino/proto"
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
	t.Helper()
	s.Eventually("a dialog with "+choice+" that accepts keys", func(string) bool {
		styled := s.Tmux("capture-pane", "-p", "-e")
		at := choiceRow(choice).FindStringIndex(styled)
		if at == nil {
			return false
		}
		dim := false // a style goes on over the ends of lines
		for _, m := range sgr.FindAllStringSubmatch(styled[:at[1]], -1) {
			for parameter := range strings.SplitSeq(m[1], ";") {
				dim = parameter == "2" || dim && parameter != "0" && parameter != "22" && parameter != ""
			}
		}
		return !dim
	})
}

// sgr is a sequence that sets the style of what follows.
var sgr = regexp.MustCompile(`\x1b\[([0-9;]*)m`)

// choiceRow matches what stands in front of the choices of a dialog, and them.
func choiceRow(choice string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^(\x1b\[[0-9;]*m)*` + choice)
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
	s.Tmux("send-keys", "2")
	s.Tmux("send-keys", "3")
	s.Tmux("send-keys", "1")
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

// TestChatApprovalClosed checks what else ends a dialog: another terminal, a refused answer,
// and the end of the turn; and that a dialog waits behind whatever has the terminal.
func TestChatApprovalClosed(t *testing.T) {
	t.Parallel()
	d := fakedaemon.New(t)
	s := newFakeChat(t, d, "", "EDITOR=sh -c 'touch opened; while ! test -e close; do sleep 0.01; done' sh")
	turn := begin(s, d, "clean up")
	turn.Send(asks("1", "rm -rf build", deletes), asks("2", "make install", ""))
	s.Shows("1 of 2", ``)
	turn.Send(`{"type":"approval_closed","approval":"ap-1","state":"denied","by":{"uid":1001,"user":"bob"}}`)
	s.Shows("Denied by bob (uid 1001): bash rm -rf build", ``)
	ready(t, s, "1 once")
	// Another terminal was faster, and its packet comes after the answer.
	d.Answer("approve", func(fakedaemon.Request) string {
		return fakedaemon.Error(proto.CodeInvalid, "ap-2 was denied by ann (uid 1000) at 10:31")
	})
	s.Tmux("send-keys", "1")
	s.Eventually("the error without the dialog", func(text string) bool {
		return strings.Contains(text, "ap-2 was denied by ann (uid 1000) at 10:31") && !strings.Contains(text, "1 once")
	})
	// The call has changed: the dialog comes back with it.
	d.Answer("approve", func(r fakedaemon.Request) string {
		return fakedaemon.Error(proto.CodeInvalid, "request ap-3 has digest sha256:new; show it again")
	})
	d.Answer("approvals", func(fakedaemon.Request) string {
		changed := strings.Replace(asks("3", "make everything", ""), `"sha256:3"`, `"sha256:new"`, 1)
		return `{"type":"approval_list","approvals":[` + changed + `]}`
	})
	turn.Send(asks("3", "make install", ""))
	ready(t, s, "1 once")
	s.Tmux("send-keys", "2")
	s.Shows("request ap-3 has digest sha256:new; show it again", ``)
	s.Shows("    make everything", ``)
	ready(t, s, "1 once")
	d.Answer("approve", func(fakedaemon.Request) string { return `{"type":"approval","id":"ap-3","state":"approved"}` })
	s.Tmux("send-keys", "2")
	s.Shows("Allowed for this session: bash make everything", ``)
	zinotest.Equal(t, "the answer", d.Requests("approve")[2].JSON(), `{"answer":"session","digest":"sha256:new","id":"ap-3"}`)
	// An editor has the terminal: the dialog is there when it ends.
	s.Tmux("send-keys", "-l", "my text")
	s.Tmux("send-keys", "C-g")
	zinotest.Eventually(t, "the editor", func() bool { return exists(s.Dir + "/home/proj/opened") })
	turn.Send(asks("4", "make late", ""))
	s.Tmux("send-keys", "-l", "1111")
	zinotest.Write(t, filepath.Join(s.Dir, "home", "proj", "close"), "")
	s.Shows("    make late", ``)
	// The connection is lost while it waits, and made again: one dialog.
	turn.HangUp()
	turn = d.Turn()
	d.Answer("approvals", func(fakedaemon.Request) string {
		return `{"type":"approval_list","approvals":[` + asks("4", "make late", "") + `]}`
	})
	turn.Live()
	turn.Send(asks("4", "make late", ""))
	ready(t, s, "1 once")
	if strings.Contains(s.Text(), "1 of") {
		t.Errorf("the request is there twice:\n%s", s.Text())
	}
	// Ctrl-Z and back.
	s.Tmux("send-keys", "C-z")
	s.Shows("", shell)
	s.Enter("fg")
	ready(t, s, "1 once")
	s.Tmux("send-keys", "4")
	s.Shows("A reason for the model", ``)
	s.Tmux("send-keys", "-l", "because")
	turn.End("interrupted")
	s.Eventually("the editor", func(text string) bool {
		return strings.Contains(text, "> my text") && !strings.Contains(text, "A reason") && !strings.Contains(text, "Esc stops")
	})
	zinotest.Equal(t, "answers", len(d.Requests("approve")), 3)
	s.Tmux("send-keys", "C-u")
	leave(s)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestChatApprovalNarrow checks the dialog on a small screen, with a diff, with a long
// command, and without colours.
func TestChatApprovalNarrow(t *testing.T) {
	t.Parallel()
	d := fakedaemon.New(t)
	s := newFakeChat(t, d, "--sandbox off")
	s.Tmux("resize-window", "-x", "40", "-y", "12")
	turn := begin(s, d, "clean up")
	turn.Send(asks("1", "rm -rf build", deletes), asks("2", "make install", ""))
	ready(t, s, "1 once")
	checkDialog(t, s, "chat-07-narrow")
	turn.Send(`{"type":"approval_closed","approval":"ap-1","state":"expired"}`, `{"type":"approval_closed","approval":"ap-2","state":"canceled"}`)
	s.Shows("No longer needed: bash make install", ``)
	turn.Send(`{"type":"approval_requested","id":"ap-3","call":{"tool":"edit","input":{"path":"mean.go","old":"a","new":"b"},"sandbox":"workspace-write"},"digest":"sha256:3","reasons":["mode ask"],` +
		`"preview":{"diff":"--- a/mean.go\n+++ b/mean.go\n@@ -1,2 +1,2 @@\n package p\n-a\n+b\n"},"grantable":"session"}`)
	ready(t, s, "1 once")
	checkDialog(t, s, "chat-07-edit")
	if colours := s.Tmux("capture-pane", "-p", "-e"); !strings.Contains(colours, "\x1b[31m2 - a") || !strings.Contains(colours, "\x1b[32m2 + b") {
		t.Errorf("the diff has no colours:\n%s", colours)
	}
	turn.Send(`{"type":"approval_closed","approval":"ap-3","state":"approved","by":{"uid":1003}}`)
	s.Shows("Allowed by uid 1003: edit mean.go", ``)
	turn.Send(asks("4", strings.Repeat("0123456789", 30)+" the end", ""))
	ready(t, s, "1 once")
	s.Shows("more lines · Ctrl-O shows all", ``)
	s.Tmux("send-keys", "C-o")
	s.Shows("the end", ``)
	s.Tmux("send-keys", "q")
	ready(t, s, "1 once")
	turn.End("done")
	s.Eventually("the end of the turn", func(text string) bool { return !strings.Contains(text, "Esc stops") })
	leave(s)
	s.Tmux("resize-window", "-x", "80", "-y", "24")
	for name, variable := range map[string]string{"nocolor": "NO_COLOR", "reader": "ZINO_SCREEN_READER"} {
		s.Enter("clear; " + variable + "=1 zino --sandbox off --socket " + d.Socket)
		s.Shows("/help", `>|claude`)
		s.Enter("again")
		turn = d.Turn()
		turn.Live()
		turn.Send(asks("5", "rm -rf build", deletes))
		if name == "reader" {
			s.Shows(`4 deny`, `Answer:`)
		} else {
			ready(t, s, "1 once")
		}
		checkDialog(t, s, "chat-07-"+name)
		if name == "nocolor" {
			checkStyles(t, s, false, "\x1b[1m> again")
		}
		turn.End("done")
		s.Eventually("the end of the turn", func(text string) bool {
			return !strings.Contains(text, "Esc stops") && !strings.Contains(text, "Answer:") && !strings.Contains(text, "1 once ·")
		})
		leave(s)
	}
}

// TestChatModes checks what is sent and shown of modes, and the end of a plan.
func TestChatModes(t *testing.T) {
	t.Parallel()
	d := fakedaemon.New(t)
	s := newFakeChat(t, d, "")
	status := func(begins string) {
		t.Helper()
		s.Shows("", "^"+regexp.QuoteMeta(begins))
	}
	status("claude-sonnet-5-5 · ~/proj · workspace-write")
	turn := begin(s, d, "one")
	zinotest.Equal(t, "the mode of the first turn", turn.Start.String("mode"), "derived")
	zinotest.Equal(t, "reachable", turn.Start.Fields["reachable"], any(true))
	turn.End("done")
	s.Eventually("the end of the turn", func(text string) bool { return !strings.Contains(text, "Esc stops") })
	for _, begins := range []string{"YOLO · claude", "PLAN · claude-sonnet-5-5 · ~/proj · one · read-only", "ASK · claude", "claude"} {
		s.Tmux("send-keys", "BTab")
		status(begins)
	}
	s.Enter("/mode ask")
	s.Shows("Mode ask: you are asked before", "^ASK")
	s.Enter("/mode none")
	s.Shows("use plan, ask, auto, yolo", "^ASK")
	s.Enter("/go")
	s.Shows("There is no plan to carry out: /plan begins one.", "^ASK")
	s.Enter("/plan")
	s.Shows("Mode plan: nothing is changed", "^PLAN")
	turn = begin(s, d, "how?")
	zinotest.Equal(t, "the mode of the second turn", turn.Start.String("mode"), "plan")
	turn.Send(`{"type":"todo","items":[{"text":"reproduce","status":"done"},{"text":"write the test","status":"active"},{"text":"fix mean","status":"open"}]}`,
		`{"type":"usage","input_tokens":82000,"output_tokens":1000,"context_window":100000,"cost_usd":0.02}`)
	turn.Answer("Like this.")
	turn.End("done")
	s.Shows("1 carry it out · 2 keep planning", "^PLAN")
	s.Shows("83 % · /handoff", "^PLAN")
	checkDialog(t, s, "chat-12-plan")
	s.Tmux("send-keys", "2")
	s.Eventually("the editor", func(text string) bool { return !strings.Contains(text, "2 keep planning") })
	turn = begin(s, d, "and then?")
	turn.End("done")
	s.Shows("1 carry it out · 2 keep planning", "^PLAN")
	zinotest.Eventually(t, "the next turn", func() bool { // the choice accepts keys when it has been drawn
		if len(d.Requests("turn_start")) == 4 {
			return true
		}
		s.Tmux("send-keys", "1")
		return false
	})
	turn = d.Turn()
	turn.Live()
	zinotest.Equal(t, "the mode after the plan", turn.Start.String("mode")+": "+turn.Start.String("message"), "ask: Carry out the plan.")
	s.Shows("> Carry out the plan.", "^ASK")
	turn.End("done")
	s.Eventually("the end of the turn", func(text string) bool { return !strings.Contains(text, "Esc stops") })
	d.Answer("approvals", func(fakedaemon.Request) string {
		return `{"type":"approval_list","approvals":[` + asks("7", "make x", deletes) + `]}`
	})
	s.Tmux("send-keys", "C-c")
	s.Enter("/approvals")
	s.Shows("ap-7  bash make x  (deletes files)", "^ASK")
	leave(s)
}

// TestChatTurnMode checks that the mode of the open turn changes, and that Shift-Tab does not
// take it through the modes between.
func TestChatTurnMode(t *testing.T) {
	t.Parallel()
	d := fakedaemon.New(t)
	s := newFakeChat(t, d, "--mode auto")
	turn := begin(s, d, "one")
	s.Enter("/mode ask")
	s.Shows("Mode ask from the next step on: you are asked before", "^ASK")
	zinotest.Equal(t, "the change", d.Request("turn_mode").JSON(), `{"mode":"ask","session_id":"6467336c-1f30-429b-8d2f-0123456789ab","turn":"t-1"}`)
	s.Tmux("send-keys", "BTab", "BTab", "BTab")
	s.Shows("", "^PLAN")
	zinotest.Equal(t, "the change by key", d.Request("turn_mode").String("mode"), "plan")
	turn.End("done")
	s.Shows("1 carry it out · 2 keep planning", "^PLAN")
	zinotest.Equal(t, "changes", len(d.Requests("turn_mode")), 2)
	s.Tmux("send-keys", "C-c")
	d.Remove("turn_mode")
	leave(s)
}

// TestChatOldDaemon checks the chat with daemons that lack methods.
func TestChatOldDaemon(t *testing.T) {
	t.Parallel()
	d := fakedaemon.New(t)
	d.Remove("approve", "approvals", "turn_say", "turn_start", "turn_follow", "turn_cancel", "turns")
	s := newFakeChat(t, d, "--mode ask")
	const refused = "Not available: this daemon has no approvals (version 0.1.3)."
	s.Shows(refused, `claude`)
	s.Tmux("send-keys", "BTab")
	for n, command := range []string{"/mode", "/mode ask", "/plan", "/go", "/approvals"} {
		s.Eventually("what is not available", func(string) bool { return strings.Count(s.History(), refused) == n+2 })
		s.Enter(command)
	}
	s.Eventually("what is not available", func(string) bool { return strings.Count(s.History(), refused) == 7 })
	s.Enter("hello")
	turn := d.Turn()
	zinotest.Equal(t, "the type of a plain request", turn.Request.Type, "")
	for _, field := range []string{"mode", "reachable"} {
		if turn.Request.Fields[field] != nil {
			t.Errorf("a daemon without approvals was sent %s: %s", field, turn.Request.Raw)
		}
	}
	s.Shows("Esc stops", `claude`)
	s.Enter("and this")
	s.Shows("then: and this", `claude`)
	turn.Answer("Hi.")
	turn.End("done")
	next := d.Turn()
	zinotest.Equal(t, "the queued message", next.Request.String("message"), "and this")
	zinotest.Equal(t, "its session", next.Request.String("session_id"), turn.Request.String("session_id"))
	s.Tmux("send-keys", "Escape")
	zinotest.Receive(t, "the cancellation", next.Gone)
	s.Shows("Interrupted.", `claude`)
	leave(s)
}

var working = regexp.MustCompile(`Working \d+s`)
