package zino_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

// TestDisks runs zino on a full disk and on a read-only one, in a new mount namespace.
// The log is on the same disk.
func TestDisks(t *testing.T) {
	zinotest.SmallDisk(t, zinotest.Command(t, "disk", t.TempDir(), zinotest.Dir(t), bin))
}

// useDisk is the child of TestDisks. Its arguments are the mount point, the runtime
// directory and the directory of the binaries under test.
func useDisk(args []string) error {
	dir, runtime := args[0], args[1]
	bin = args[2]
	if err := zinotest.Mount(dir, "size=256k", 0); err != nil {
		return err
	}
	base := filepath.Join(dir, "base")
	if err := os.Mkdir(base, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(base, "config.toml"), []byte("provider = \"offline\"\n"), 0o600); err != nil {
		return err
	}
	// zino runs a command and checks its status and that its output contains text.
	zino := func(status int, text string, args ...string) error {
		cmd := program([]string{"HOME=" + base, "ZINO_HOME=" + base, "XDG_RUNTIME_DIR=" + runtime}, "zino", args...)
		cmd.Dir = runtime
		out, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != status || !strings.Contains(string(out), text) {
			return fmt.Errorf("%s: status %d, %w, printed %s", strings.Join(args, " "), got, err, bytes.TrimSpace(out))
		}
		return nil
	}
	reads := func() error {
		return errors.Join(
			zino(0, "  1 turn  ", "sessions", "list"),
			zino(0, "\n  run date\n", "sessions", "show", "first"),
			zino(0, "first  20", "sessions", "search", "date"),
			zino(0, "kitchen\n", "channels", "list"),
			zino(0, "user: run date\n", "channels", "show", "kitchen"),
			zino(0, "spare key\n", "memory", "list"),
			zino(0, "spare key\n", "memory", "search", "key"),
		)
	}
	err := errors.Join(
		zino(0, "", "--channel", "kitchen", "run date"),
		zino(0, "", "exec", "-p", "run date", "--session", "first"),
		zino(0, "", "memory", "add", "spare", "key"),
	)
	if err != nil {
		return err
	}
	fill, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		return err
	}
	if _, err := io.Copy(fill, zinotest.Endless{}); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk does not get full: %w", err)
	}
	if err := fill.Close(); err != nil {
		return err
	}
	session := filepath.Join(base, "sessions", "other.jsonl")
	err = errors.Join(
		zino(1, `Warning: this was not stored in the channel "hall": `, "--channel", "hall", "run date"),
		zino(1, session+": no space left on device; ", "exec", "-p", "run date", "--session", "other"),
		zino(1, "--no-save answers without storing anything\n", "exec", "-p", "run date", "--session", "other"),
		zino(0, "", "exec", "-p", "run date", "--no-save"),
		reads(),
	)
	if err != nil {
		return fmt.Errorf("full: %w", err)
	}
	if err := zinotest.Remount(dir, syscall.MS_RDONLY); err != nil {
		return err
	}
	err = errors.Join(
		reads(),
		zino(1, filepath.Join(base, "data", "mem", "hard_memories.json")+": read-only file system; ", "memory", "add", "more"),
		zino(0, "Warning: nothing is kept of this run: ", "exec", "-p", "run date"),
	)
	if err != nil {
		return fmt.Errorf("read-only: %w", err)
	}
	return nil
}
