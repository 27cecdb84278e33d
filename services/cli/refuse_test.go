package cli

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"zino/pkg/config"
	"zino/pkg/zinotest"
)

// TestServiceGivesUp checks that the error of a service that fails to start is printed,
// and that no files are left.
func TestServiceGivesUp(t *testing.T) {
	w := newWorld(t)
	zino := w.install(t)
	for _, name := range append(slices.Clone(config.Services), "mcp") {
		script := "#!/bin/sh\necho started >&2\necho 'zino-" + name + ": its file is wrong' >&2\nexit 1\n"
		zinotest.Must(t, os.WriteFile(filepath.Join(w.home, "zino-"+name), []byte(script), 0o755))
	}
	for _, args := range [][]string{{"hello", "you"}, {"exec", "-p", "hello"}, {"sessions", "resume", "x"}} {
		cmd := w.command(args...)
		cmd.Path = zino
		cmd.Env = append(cmd.Env, "ANTHROPIC_API_KEY=k")
		expect(t, cmd, "", 1, "", "Error [internal]: the service daemon does not start: its file is wrong\n")
	}
	zinotest.Equal(t, "files left", zinotest.Names(t, w.runtime), "")
}
