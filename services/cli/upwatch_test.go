package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStaleUnits: the services of units are not told of an edit, and the user is.
func TestStaleUnits(t *testing.T) {
	base, dir := t.TempDir(), shortDir(t)
	t.Setenv("ZINO_HOME", base)
	made, file := filepath.Join(dir, "rtr.toml"), filepath.Join(base, "config.toml")
	for _, path := range []string{made, file} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	for _, test := range []struct {
		edited time.Time
		want   string
	}{{now.Add(-time.Hour), ""}, {now.Add(time.Hour), "systemctl --user restart"}} {
		if err := os.Chtimes(file, test.edited, test.edited); err != nil {
			t.Fatal(err)
		}
		said, err := os.Create(filepath.Join(base, "stderr"))
		if err != nil {
			t.Fatal(err)
		}
		a := &app{err: said}
		a.caughtUp(t.Context(), place{socket: filepath.Join(dir, "daemon.sock")})
		text, err := os.ReadFile(said.Name())
		if err := errors.Join(err, said.Close()); err != nil {
			t.Fatal(err)
		}
		if got := string(text); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("edited at %v: printed %q", test.edited, got)
		}
	}
}
