package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zino/pkg/zinotest"
)

func TestRunRefuses(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := run("127.0.0.1:0", script); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing script: got %v", err)
	}
	zinotest.Must(t, os.WriteFile(script, []byte("hello\n"), 0o600))
	if err := run("127.0.0.1:0", script); err == nil || !strings.HasPrefix(err.Error(), script+":1: ") {
		t.Errorf("broken script: got %v", err)
	}
	if err := run("127.0.0.1:notaport", ""); err == nil {
		t.Error("no error for an invalid address")
	}
}
