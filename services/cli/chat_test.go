package cli

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

// TestChatSession checks which session a chat continues, and what is stored of it.
func TestChatSession(t *testing.T) {
	known := map[string]int{"3f2a-1": 4, "notes": 2, "notes2": 1}
	for _, test := range []struct {
		name, args string
		session    string // of the requests
		stderr     string
		removed    []string
	}{
		{"a new one by name", "--session mine", "mine", "", nil},
		{"an existing one", "--session notes", "notes", "Loaded 2 previous messages\n", nil},
		{"resumed", "sessions resume 3f2a", "3f2a-1", "Loaded 4 previous messages\n", nil},
		{"resumed under a new name", "sessions resume 77", "77", "", nil},
		{"not saved", "--no-save --session mine", "mine", "", []string{"mine"}},
		{"a copy", "--no-save sessions resume notes", "copy", "Loaded 2 previous messages\n", []string{"copy"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "")
			f.has(map[string]int{"3f2a-1": known["3f2a-1"], "notes": known["notes"], "notes2": known["notes2"]})
			cmd := newWorld(t).command(append(strings.Fields(test.args), "--socket", f.socket)...)
			expect(t, cmd, "hello\nhello\n", 0, "echo: hello\necho: hello\n", test.stderr)
			for _, req := range f.requests() {
				if req.SessionID != test.session || req.NoSave {
					t.Errorf("sent %+v", req)
				}
			}
			if !slices.Equal(f.removed, test.removed) {
				t.Errorf("removed %q, want %q", f.removed, test.removed)
			}
		})
	}
}

// TestChatCannotBegin checks the one-line errors for a missing session or daemon.
func TestChatCannotBegin(t *testing.T) {
	f := newFake(t, "")
	f.has(map[string]int{"ab1": 1, "ab2": 1})
	empty := newFake(t, "")
	for _, test := range []struct {
		name, args string
		status     int
		stderr     string
	}{
		{"nothing to resume", "sessions resume --socket " + empty.socket, 1, "Error [session]: No sessions found to resume\n"},
		{"several", "sessions resume ab --socket " + f.socket, 1, "Error [session]: Several sessions begin with that.\n"},
		{"no daemon", "--session x --socket none", 1, "Error [internal]: Could not connect to daemon: "},
		{"no model", "", 1, "Error [internal]: no model is connected: "},
		{"no directory", "--root none --socket " + f.socket, 2, "Error [usage]: --root: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			status, out, stderr := run(t, newWorld(t).command(strings.Fields(test.args)...), "hello\n")
			if status != test.status || out != "" || !strings.HasPrefix(stderr, test.stderr) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("status %d, stdout %q, stderr %q", status, out, stderr)
			}
		})
	}
}

// TestChatRemovesItsOwn checks that --no-save removes neither sessions with a similar
// name nor one that existed before.
func TestChatRemovesItsOwn(t *testing.T) {
	for args, removed := range map[string][]string{"--session note": nil, "--session notes": {"copy"}} {
		f := newFake(t, "")
		f.has(map[string]int{"notes": 0, "notes2": 1})
		status, _, stderr := run(t, newWorld(t).command(append(strings.Fields(args), "--no-save", "--socket", f.socket)...), "")
		if status != 0 || stderr != "" || !slices.Equal(f.removed, removed) {
			t.Errorf("%s: status %d, stderr %q, removed %q", args, status, stderr, f.removed)
		}
	}
}

// TestChatHelp checks that /help lists the commands on standard error.
func TestChatHelp(t *testing.T) {
	f := newFake(t, "")
	status, out, stderr := run(t, newWorld(t).command("--socket", f.socket), "/help\n/helper\n")
	if status != 0 || out != "echo: /helper\n" || !strings.Contains(stderr, ":q") || !strings.Contains(stderr, `in \ goes on`) {
		t.Errorf("status %d, stdout %q, stderr %q", status, out, stderr)
	}
}

// TestChatDaemonGone checks the error while the daemon is down, and that the chat
// continues when it is back.
func TestChatDaemonGone(t *testing.T) {
	w := newWorld(t)
	socket := filepath.Join(w.runtime, "zino", "daemon.sock")
	zinotest.Must(t, os.Mkdir(filepath.Dir(socket), 0o700))
	first := newFake(t, socket)
	cmd := w.command()
	in, err := cmd.StdinPipe()
	zinotest.Must(t, err)
	dir := zinotest.Dir(t)
	stderr, err := os.Create(filepath.Join(dir, "stderr"))
	zinotest.Must(t, err)
	defer stderr.Close()
	cmd.Stderr = stderr
	zinotest.Must(t, cmd.Start())
	defer cmd.Process.Kill()
	io.WriteString(in, "one\n")
	first.waiting(t, 1)
	first.die()
	io.WriteString(in, "two\n")
	zinotest.Eventually(t, "the error", func() bool {
		text, err := os.ReadFile(stderr.Name())
		return err == nil && strings.Contains(string(text), "Error [internal]: no model is connected: ")
	})
	second := newFake(t, socket)
	io.WriteString(in, "three\n")
	second.waiting(t, 1)
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if got := second.requests(); got[0].Message != "three" || got[0].SessionID != first.requests()[0].SessionID {
		t.Errorf("sent %+v", got)
	}
}
