package cli

import (
	"os"
	"path/filepath"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
)

// TestServiceGivesUp has each service fail when it starts: the error is reported, and
// nothing is left behind.
func TestServiceGivesUp(t *testing.T) {
	w := newWorld(t)
	zino := w.install(t)
	for _, name := range config.Services {
		script := "#!/bin/sh\necho started >&2\necho 'zino-" + name + ": its file is wrong' >&2\nexit 1\n"
		zinotest.Must(t, os.WriteFile(filepath.Join(w.home, "zino-"+name), []byte(script), 0o755))
	}
	const why = "the service daemon does not start: its file is wrong\n"
	for _, args := range [][]string{{"hello", "you"}, {"exec", "-p", "hello"}, {"sessions", "resume", "x"}} {
		want := "Error [internal]: " + why
		if len(args) == 2 {
			want = "Error [internal]: " + why
		}
		cmd := w.command(args...)
		cmd.Path = zino
		cmd.Env = append(cmd.Env, "ANTHROPIC_API_KEY=k")
		status, out, said := run(t, cmd, "")
		if status != 1 || out != "" || said != want {
			t.Errorf("%v: status %d, printed %q, said %q", args, status, out, said)
		}
	}
	if left, err := os.ReadDir(w.runtime); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
