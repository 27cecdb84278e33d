package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestAuthSetInput takes the first line of standard input.
func TestAuthSetInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, input := range []string{secretKey, secretKey + "\n", "  " + secretKey + "\r\nsecond line\n"} {
		status, out, said := run(t, w.auth("set", "openai"), input)
		want := "The key of openai is kept in " + w.store() + "/openai, readable by you only, not encrypted (systemd-creds is not installed).\n"
		if status != 0 || out != "" || said != want || w.kept(t) != "openai="+secretKey {
			t.Errorf("status %d, printed %q, said %q; kept %s", status, out, said, w.kept(t))
		}
	}
	for input, want := range map[string]string{
		"":                              "Error [internal]: no key was given, and nothing was changed: zino auth set openai reads it",
		"\n" + secretKey:                "Error [internal]: no key was given, and nothing was changed: zino auth set openai reads it",
		secretKey + " x\n":              "Error [internal]: this is no key: it has a blank",
		strings.Repeat("k", 10*1024):    "Error [internal]: this is no key: it is longer",
		strings.Repeat("k", maxTyped*2): "Error [internal]: this is no key: it is longer",
	} {
		status, out, said := run(t, w.auth("set", "openai"), input)
		if status != exitError || out != "" || !strings.HasPrefix(said, want) || strings.Contains(said, secretKey) || w.kept(t) != "openai="+secretKey {
			t.Errorf("status %d, printed %q, said %q; kept %s", status, out, said, w.kept(t))
		}
	}
}

// TestAuthSetEncrypted keeps nothing that can be read.
func TestAuthSetEncrypted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tool := "#!/bin/sh\necho \"$*\" >>" + w.home + "/log\nexec tr a-zA-Z n-za-mN-ZA-M\n"
	if err := os.WriteFile(filepath.Join(w.cwd, "systemd-creds"), []byte(tool), 0o700); err != nil {
		t.Fatal(err)
	}
	path := "PATH=" + w.cwd + ":" + os.Getenv("PATH")
	status, out, said := run(t, with(w.auth("set", "gemini"), path, "GEMINI_API_KEY=other"), secretKey)
	want := "The key of gemini is kept encrypted with systemd-creds in " + w.store() + "/gemini.cred.\nNote: the one in environment GEMINI_API_KEY comes before it.\n"
	if status != 0 || out != "" || said != want {
		t.Errorf("status %d, printed %q, said %q", status, out, said)
	}
	if list := w.holders(t, secretKey); len(list) > 0 {
		t.Errorf("the key is in %v", list)
	}
	status, out, said = run(t, with(w.auth("list"), path), "")
	if status != 0 || !strings.Contains(out, "gemini      store     encrypted, "+w.store()+"/gemini.cred\n") || said != "" {
		t.Errorf("status %d, printed %q, said %q", status, out, said)
	}
}

// TestAuthPrompt shows nothing of what is typed, and gives the terminal back.
func TestAuthPrompt(t *testing.T) {
	for _, test := range []struct {
		name, keys string
		signal     os.Signal
		status     int
		kept, says string
	}{
		{"typed", secretKey + "\r", nil, 0, "openai=" + secretKey, "is kept in "},
		{"mended", "xx\x7f\x7f" + secretKey + "\r", nil, 0, "openai=" + secretKey, "is kept in "},
		{"nothing", "\r", nil, exitError, "", "no key was given"},
		{"Ctrl-D", "\x04", nil, exitError, "", "no key was given"},
		{"Ctrl-C", "sk-half\x03", nil, exitInterrupted, "", ""},
		{"an interrupt from elsewhere", "", os.Interrupt, exitInterrupted, "", ""},
		{"terminated", "", syscall.SIGTERM, exitInterrupted, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			x := onTerminal(t, w.auth("set", "openai"))
			x.shows("Get a key of openai at https://platform.openai.com/api-keys")
			x.shows("Key of openai (it is not shown): ")
			x.types(test.keys)
			if test.signal != nil {
				if err := x.cmd.Process.Signal(test.signal); err != nil {
					t.Fatal(err)
				}
			}
			x.leaves(test.status)
			x.shows(test.says)
			if strings.Contains(x.screen(), "sk-") || w.kept(t) != test.kept {
				t.Errorf("kept %q, on the screen: %q", w.kept(t), x.screen())
			}
		})
	}
}

// leaves waits for the end of a program that edits no lines: the terminal must
// be given back.
func (x *terminal) leaves(status int) {
	x.t.Helper()
	until(x.t, "the end", func() bool {
		select {
		case <-x.ended:
			return true
		default:
			return false
		}
	})
	if got := x.cmd.ProcessState.ExitCode(); got != status {
		x.t.Errorf("status %d, want %d; on the screen: %q", got, status, x.screen())
	}
	if !x.cooked() {
		x.t.Error("the terminal is still raw")
	}
}

// TestAuthInterrupted ends while it waits for a pipe.
func TestAuthInterrupted(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	a := &app{in: r}
	if line, err := a.firstLine(ctx); line != "" || !errors.Is(err, errInterrupted) {
		t.Errorf("%q, %v", line, err)
	}
	w.Close() // ends what still reads
	r.Close()
}
