package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

// chatOn starts a chat with a fake daemon on a terminal.
func chatOn(t *testing.T) (*terminal, *fake) {
	t.Helper()
	f := newFake(t, "")
	x := onTerminal(t, newWorld(t).command("--plain", "--socket", f.socket))
	x.prompts(1)
	return x, f
}

func TestTerminalChat(t *testing.T) {
	t.Parallel()
	x, f := chatOn(t)
	x.Type("one\r")
	x.Shows("echo: one")
	x.prompts(2)
	x.Type("\r\r") // blank lines are skipped
	x.prompts(4)
	x.Type("tvo\x7f\x7fwo\\\r")
	x.Type("lines\r")
	x.Shows("echo: two\r\nlines")
	x.prompts(5)
	x.Type("\x1b[200~three\rpasted\rlines\x1b[201~\r")
	x.Shows("echo: three\r\npasted\r\nlines")
	x.prompts(6)
	x.Type("fail\r") // an error does not end the chat
	x.Shows("Error [internal]: this fails ^[[31m")
	x.prompts(7)
	x.Type(":q\r")
	x.ends(0)
	if want := []string{"one", "two\nlines", "three\npasted\nlines", "fail"}; !slices.Equal(f.messages(), want) {
		t.Errorf("sent %q, want %q", f.messages(), want)
	}
	session := f.requests()[0].SessionID
	for _, req := range f.requests() {
		if !req.Events || req.SessionID != session || req.ChannelID != "" {
			t.Errorf("sent %+v, session %s", req, session)
		}
	}
	x.Shows("To go on: " + os.Args[0] + " sessions resume " + session[:8] + " --socket " + f.socket + "\r\n")
}

// TestTerminalLeave checks each way to leave the chat.
func TestTerminalLeave(t *testing.T) {
	for name, keys := range map[string]string{":q": ":q\r", "/quit": "/quit\r", "Ctrl-D": "\x04", "Ctrl-C twice": "half\x03\x03"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, f := chatOn(t)
			x.Type(keys)
			x.ends(0)
			if len(f.messages()) > 0 {
				t.Errorf("sent %q", f.messages())
			}
		})
	}
}

// TestTerminalClear checks that Ctrl-C clears a line.
func TestTerminalClear(t *testing.T) {
	t.Parallel()
	x, f := chatOn(t)
	x.Type("wrong\x03right\r")
	x.Shows("echo: right")
	x.prompts(2)
	x.Type("\x04")
	x.ends(0)
	if !slices.Equal(f.messages(), []string{"right"}) {
		t.Errorf("sent %q", f.messages())
	}
}

// TestTerminalInterrupt checks that Ctrl-C ends a turn but not the chat.
func TestTerminalInterrupt(t *testing.T) {
	t.Parallel()
	x, f := chatOn(t)
	for n := range 2 {
		x.Type("wait\r")
		f.waiting(t, n+1)
		zinotest.Eventually(t, "the turn has begun to answer", func() bool { return x.Written.Count("so far") > n })
		x.Type("\x03")
		<-f.ended
		x.prompts(n + 2)
	}
	zinotest.Eventually(t, "two interruptions are printed", func() bool { return x.Written.Count("\r\n\r^C Interrupted.\r\n") == 2 })
	x.Type("one\r")
	x.Shows("echo: one")
	x.prompts(4)
	x.Type("\x04")
	x.ends(0)
}

// TestTerminalSignals checks that signals restore the terminal, at the prompt and in a
// turn.
func TestTerminalSignals(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		for _, where := range []string{"prompt", "turn"} {
			t.Run(signal.String()+" "+where, func(t *testing.T) {
				t.Parallel()
				x, f := chatOn(t)
				x.Type("half a line")
				x.Shows("half a line")
				if where == "turn" {
					x.Type("\x03wait\r")
					f.waiting(t, 1)
				}
				x.Signal(signal)
				x.ends(exitAfter(signal))
				if where == "turn" {
					<-f.ended
				}
			})
		}
	}
	t.Run("SIGINT at the prompt", func(t *testing.T) {
		t.Parallel()
		x, _ := chatOn(t)
		x.Signal(os.Interrupt)
		x.ends(exitInterrupted)
	})
}

// TestTerminalRaw checks that pasted C1 and bidi characters are escaped on the terminal
// and sent unchanged.
func TestTerminalRaw(t *testing.T) {
	t.Parallel()
	x, f := chatOn(t)
	x.Type("\x1b[200~a\u009b31mb\u202ec\x1b[201~\r")
	x.Shows(`echo: a\u009b31mb\u202ec`)
	x.prompts(2)
	x.Type("\x04")
	x.ends(0)
	if !slices.Equal(f.messages(), []string{"a\u009b31mb\u202ec"}) {
		t.Errorf("sent %q", f.messages())
	}
}

// TestTerminalRedirected checks that the editor uses /dev/tty if stderr is a file.
func TestTerminalRedirected(t *testing.T) {
	t.Parallel()
	f := newFake(t, "")
	cmd := newWorld(t).command("--plain", "--socket", f.socket)
	dir := zinotest.Dir(t)
	stderr, err := os.Create(filepath.Join(dir, "stderr"))
	zinotest.Must(t, err)
	defer stderr.Close()
	cmd.Stderr = stderr
	x := onTerminal(t, cmd)
	x.prompts(1)
	x.Type("one\r")
	x.Shows("> one")
	x.Shows("echo: one")
	x.prompts(2)
	x.Type("fail\r")
	x.prompts(3)
	x.Type("\x04")
	x.ends(0)
	text, err := os.ReadFile(stderr.Name())
	if err != nil || !strings.HasPrefix(string(text), "Error [internal]: this fails ^[[31m\nTo go on: ") || strings.Count(string(text), "\n") != 2 {
		t.Errorf("stderr %q, %v", text, err)
	}
}

// TestTerminalHistory checks that messages of earlier chats are recalled, except with
// --no-save.
func TestTerminalHistory(t *testing.T) {
	t.Parallel()
	f, w := newFake(t, ""), newWorld(t)
	for _, chat := range []struct {
		args, keys, shows string
	}{
		{"", "a\\\rb\r", "echo: a\r\nb"},
		{"--no-save", "secret\r", "echo: secret"},
		{"", "\x1b[A\r", "echo: a\r\nb"},
	} {
		x := onTerminal(t, w.command(append(strings.Fields(chat.args), "--plain", "--socket", f.socket)...))
		x.prompts(1)
		x.Type(chat.keys)
		x.Shows(chat.shows)
		x.prompts(2)
		x.Type("\x04")
		x.ends(0)
	}
	text, err := os.ReadFile(filepath.Join(w.home, ".config", "zino", "chat_history"))
	if err != nil || string(text) != "\"a\\nb\"\n" {
		t.Errorf("the file contains %q, %v", text, err)
	}
	if len(f.removed) != 1 || len(f.messages()) != 3 {
		t.Errorf("removed %q, sent %q", f.removed, f.messages())
	}
}

// TestTerminalDumb checks that TERM=dumb gets no escape sequences.
func TestTerminalDumb(t *testing.T) {
	t.Parallel()
	cmd := newWorld(t).command("--socket", newFake(t, "").socket)
	cmd.Env = append(cmd.Env, "TERM=dumb")
	x := onTerminal(t, cmd)
	x.Shows("> ")
	x.Type("one\r")
	x.Shows("echo: one")
	zinotest.Eventually(t, "a second prompt", func() bool { return x.Written.Count("> ") > 1 && !x.Cooked() })
	x.Type("\x04")
	if x.leaves(0); x.Written.Contains("\x1b") {
		t.Errorf("written as %q", x.Written.String())
	}
}
