package cli

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
	"zino/services/cli/render"
)

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// TestPipeChat checks that each line is answered, also after errors, with status 0.
func TestPipeChat(t *testing.T) {
	for _, test := range []struct {
		name, input, out, stderr string
		messages                 []string
	}{
		{"nothing", "", "", "", nil},
		{"lines", "one\ntwo\n", "echo: one\necho: two\n", "", []string{"one", "two"}},
		{"no newline at the end", "one\ntwo", "echo: one\necho: two\n", "", []string{"one", "two"}},
		{"blank lines", "\n \t\none\n\r\n\n", "echo: one\n", "", []string{"one"}},
		{"carriage returns", "one\r\ntwo\r\n", "echo: one\necho: two\n", "", []string{"one", "two"}},
		{"an error", "one\nfail\ntwo\n", "echo: one\necho: two\n", "Error [internal]: this fails ^[[31m\n", []string{"one", "fail", "two"}},
		{"an empty answer", "nothing\none\n", "\necho: one\n", render.EmptyAnswer + "\n", []string{"nothing", "one"}},
		{":q", "one\n:q\ntwo\n", "echo: one\n", "", []string{"one"}},
		{"/quit", " /quit \ntwo\n", "", "", nil},
		{"no continuation", "one\\\ntwo\n", "echo: one\\\necho: two\n", "", []string{"one\\", "two"}},
		{"a long line", strings.Repeat("x", 200_000) + "\n", "echo: " + strings.Repeat("x", 200_000) + "\n", "", []string{strings.Repeat("x", 200_000)}},
		{"no commands", "status\nhelp\n", "echo: status\necho: help\n", "", []string{"status", "help"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "")
			expect(t, newWorld(t).command("--socket", f.socket), test.input, 0, test.out, test.stderr)
			if got := f.messages(); !slices.Equal(got, test.messages) {
				t.Errorf("sent %.80q", got)
			}
			requests := f.requests()
			for _, req := range requests {
				if !uuid.MatchString(req.SessionID) || req.SessionID != requests[0].SessionID || !req.Events || req.NoSave || req.NeedModel {
					t.Errorf("sent %.200v", req)
				}
			}
		})
	}
}

// TestPipeChatSignals checks the status for signals between and during turns.
func TestPipeChatSignals(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		for _, line := range []string{"one", "wait"} {
			t.Run(signal.String()+" at "+line, func(t *testing.T) {
				t.Parallel()
				f := newFake(t, "")
				cmd := newWorld(t).command("--socket", f.socket)
				in, err := cmd.StdinPipe()
				zinotest.Must(t, err)
				p := zinotest.Start(t, cmd)
				io.WriteString(in, line+"\n")
				f.waiting(t, 1)
				if line == "one" { // a second turn has begun: the first is over
					io.WriteString(in, "fail\n")
					f.waiting(t, 2)
				}
				p.Signal(signal)
				if status, stderr := p.Exit(), p.Err.String(); status != exitAfter(signal) || line == "wait" && stderr != "^C Interrupted.\n" {
					t.Errorf("status %d, want %d; stderr %q", status, exitAfter(signal), stderr)
				}
			})
		}
	}
}
