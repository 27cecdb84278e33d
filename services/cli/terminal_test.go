package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// chatOn starts a chat with a fake daemon on a terminal.
func chatOn(t *testing.T) (*terminal, *fake) {
	t.Helper()
	f := newFake(t, "")
	x := onTerminal(t, newWorld(t).command("--socket", f.socket))
	x.prompts(1)
	return x, f
}

func TestTerminalChat(t *testing.T) {
	t.Parallel()
	x, f := chatOn(t)
	x.types("one\r")
	x.shows("echo: one")
	x.prompts(2)
	x.types("\r\r") // blank lines are skipped
	x.prompts(4)
	x.types("tvo\x7f\x7fwo\\\r")
	x.types("lines\r")
	x.shows("echo: two\r\nlines")
	x.prompts(5)
	x.types("\x1b[200~three\rpasted\rlines\x1b[201~\r")
	x.shows("echo: three\r\npasted\r\nlines")
	x.prompts(6)
	x.types("fail\r") // an error ends nothing
	x.shows("Error [internal]: this fails ^[[31m")
	x.prompts(7)
	x.types(":q\r")
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
	x.shows("To go on: " + os.Args[0] + " sessions resume " + session[:8] + " --socket " + f.socket + "\r\n")
}

// TestTerminalLeave ends the chat in each way.
func TestTerminalLeave(t *testing.T) {
	for name, keys := range map[string]string{":q": ":q\r", "/quit": "/quit\r", "Ctrl-D": "\x04", "Ctrl-C twice": "half\x03\x03"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, f := chatOn(t)
			x.types(keys)
			x.ends(0)
			if len(f.messages()) > 0 {
				t.Errorf("sent %q", f.messages())
			}
		})
	}
}

// TestTerminalClear clears a line with Ctrl-C.
func TestTerminalClear(t *testing.T) {
	t.Parallel()
	x, f := chatOn(t)
	x.types("wrong\x03right\r")
	x.shows("echo: right")
	x.prompts(2)
	x.types("\x04")
	x.ends(0)
	if !slices.Equal(f.messages(), []string{"right"}) {
		t.Errorf("sent %q", f.messages())
	}
}

// TestTerminalInterrupt ends a turn with Ctrl-C, and not the chat.
func TestTerminalInterrupt(t *testing.T) {
	t.Parallel()
	x, f := chatOn(t)
	for n := range 2 {
		x.types("wait\r")
		f.waiting(t, n+1)
		until(t, "the turn has begun to answer", func() bool { return strings.Count(x.screen(), "so far") > n })
		x.types("\x03")
		<-f.ended
		x.prompts(n + 2)
	}
	until(t, "two interruptions are printed", func() bool { return strings.Count(x.screen(), "\r\n\r^C Interrupted.\r\n") == 2 })
	x.types("one\r")
	x.shows("echo: one")
	x.prompts(4)
	x.types("\x04")
	x.ends(0)
}

// TestTerminalSignals restores the terminal, at the prompt and in a turn.
func TestTerminalSignals(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		for _, where := range []string{"prompt", "turn"} {
			t.Run(signal.String()+" "+where, func(t *testing.T) {
				t.Parallel()
				x, f := chatOn(t)
				x.types("half a line")
				x.shows("half a line")
				if where == "turn" {
					x.types("\x03wait\r")
					f.waiting(t, 1)
				}
				if err := x.cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				x.ends(exitInterrupted)
				if where == "turn" {
					<-f.ended
				}
			})
		}
	}
	t.Run("interrupt from elsewhere at the prompt", func(t *testing.T) {
		t.Parallel()
		x, _ := chatOn(t)
		if err := x.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		x.ends(exitInterrupted)
	})
}

// TestTerminalRaw checks that a terminal gets no control characters, and that
// redirected output is unchanged and has no prompt.
func TestTerminalRaw(t *testing.T) {
	t.Parallel()
	x, f := chatOn(t)
	x.types("\x1b[200~a\u009b31mb\u202ec\x1b[201~\r")
	x.shows(`echo: a\u009b31mb\u202ec`)
	x.prompts(2)
	x.types("\x04")
	x.ends(0)
	if !slices.Equal(f.messages(), []string{"a\u009b31mb\u202ec"}) {
		t.Errorf("sent %q", f.messages())
	}
}

// TestTerminalRedirected edits on the terminal though stdout and stderr are files.
func TestTerminalRedirected(t *testing.T) {
	t.Parallel()
	f := newFake(t, "")
	cmd := newWorld(t).command("--socket", f.socket)
	dir := shortDir(t)
	said, err := os.Create(filepath.Join(dir, "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	cmd.Stderr = said
	x := onTerminal(t, cmd)
	x.prompts(1)
	x.types("one\r")
	x.shows("> one")
	x.shows("echo: one")
	x.prompts(2)
	x.types("fail\r")
	x.prompts(3)
	x.types("\x04")
	x.ends(0)
	text, err := os.ReadFile(said.Name())
	if err != nil || !strings.HasPrefix(string(text), "Error [internal]: this fails ^[[31m\nTo go on: ") || strings.Count(string(text), "\n") != 2 {
		t.Errorf("stderr holds %q, %v", text, err)
	}
}

// TestTerminalHistory recalls what was typed in the last chat, unless that was not
// stored.
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
		x := onTerminal(t, w.command(append(strings.Fields(chat.args), "--socket", f.socket)...))
		x.prompts(1)
		x.types(chat.keys)
		x.shows(chat.shows)
		x.prompts(2)
		x.types("\x04")
		x.ends(0)
	}
	text, err := os.ReadFile(filepath.Join(w.home, ".config", "zino", "chat_history"))
	if err != nil || string(text) != "\"a\\nb\"\n" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	if len(f.removed) != 1 || len(f.messages()) != 3 {
		t.Errorf("removed %q, sent %q", f.removed, f.messages())
	}
}

// TestTerminalDumb writes text only with TERM=dumb.
func TestTerminalDumb(t *testing.T) {
	t.Parallel()
	cmd := newWorld(t).command("--socket", newFake(t, "").socket)
	cmd.Env = append(cmd.Env, "TERM=dumb")
	x := onTerminal(t, cmd)
	x.shows("> ")
	x.types("one\r")
	x.shows("echo: one")
	until(t, "a second prompt", func() bool { return strings.Count(x.screen(), "> ") > 1 && !x.cooked() })
	x.types("\x04")
	if x.leaves(0); strings.Contains(x.screen(), "\x1b") {
		t.Errorf("written as %q", x.screen())
	}
}
