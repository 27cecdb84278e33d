package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBaseOutOfReach has a home that is none: nothing of it is asked for, as a
// file that is missing stops nobody and one that cannot be reached does.
func TestBaseOutOfReach(t *testing.T) {
	cfg, _, w, err := settingsIn(t, nil, func(w world) {
		if err := errors.Join(os.Remove(w.home), os.WriteFile(w.home, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := os.Create(filepath.Join(w.cwd, "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	if (&app{err: stderr}).writable(cfg, w.runtime) {
		t.Error("it is writable")
	}
	said, err := os.ReadFile(stderr.Name())
	if err != nil || !strings.HasPrefix(string(said), "Warning: nothing is kept of this run: ") || strings.Count(string(said), "\n") != 1 {
		t.Errorf("said %q, %v", said, err)
	}
	for name, path := range map[string]string{"data": cfg.Mem.DataDir, "tools": cfg.Tools.Dir, "skills": cfg.Skills.Dir, "SYSTEM.md": cfg.Sys.Template} {
		if path != filepath.Join(w.runtime, name) {
			t.Errorf("%s is at %s", name, path)
		}
	}
}

// TestBaseReadOnly goes on using what is there.
func TestBaseReadOnly(t *testing.T) {
	cfg, _, w, err := settingsIn(t, map[string]string{"h/.config/zino/tools/x": "", "h/.config/zino/data": "in the way"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	base := filepath.Join(w.home, ".config/zino")
	if (&app{err: stderr}).writable(cfg, w.runtime) || cfg.Tools.Dir != filepath.Join(base, "tools") || cfg.Sys.Template != filepath.Join(base, "SYSTEM.md") {
		t.Errorf("tools in %s, template %s", cfg.Tools.Dir, cfg.Sys.Template)
	}
}
