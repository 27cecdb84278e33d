package zino_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

// The child of TestDisks finds here the directory that becomes its disk, and the
// binaries under test.
const diskEnv, diskBinEnv = "ZINO_TEST_DISK", "ZINO_TEST_DISK_BIN"

// TestDisks runs zino on a disk that is full and on one that is read-only, in a
// mount namespace of its own. The log is on the same disk.
func TestDisks(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), diskEnv+"="+t.TempDir(), diskBinEnv+"="+bin)
	zinotest.SmallDisk(t, cmd)
}

// useDisk is the child of TestDisks.
func useDisk(dir string) error {
	if err := zinotest.Mount(dir, "size=256k", 0); err != nil {
		return err
	}
	runtime, err := os.MkdirTemp("", "z")
	if err != nil {
		return err
	}
	defer os.RemoveAll(runtime)
	d := &disk{base: filepath.Join(dir, "base"), runtime: runtime}
	if err := os.Mkdir(d.base, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(d.base, "config.toml"), []byte("provider = \"offline\"\n"), 0o600); err != nil {
		return err
	}
	err = errors.Join(
		d.zino(0, "", "--channel", "kitchen", "run date"),
		d.zino(0, "", "exec", "-p", "run date", "--session", "first"),
		d.zino(0, "", "memory", "add", "spare", "key"),
	)
	if err != nil {
		return err
	}
	fill, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		return err
	}
	if _, err := io.Copy(fill, endless{}); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk does not get full: %w", err)
	}
	if err := fill.Close(); err != nil {
		return err
	}
	session := filepath.Join(d.base, "sessions", "other.jsonl")
	err = errors.Join(
		d.zino(1, `Warning: this was not stored in the channel "hall": `, "--channel", "hall", "run date"),
		d.zino(1, session+": no space left on device; ", "exec", "-p", "run date", "--session", "other"),
		d.zino(1, "--no-save answers without storing anything\n", "exec", "-p", "run date", "--session", "other"),
		d.zino(0, "", "exec", "-p", "run date", "--no-save"),
		d.reads(),
	)
	if err != nil {
		return fmt.Errorf("full: %w", err)
	}
	if err := syscall.Mount("none", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	err = errors.Join(
		d.reads(),
		d.zino(1, filepath.Join(d.base, "data", "mem", "hard_memories.json")+": read-only file system; ", "memory", "add", "more"),
		d.zino(0, "Warning: nothing is kept of this run: ", "exec", "-p", "run date"),
	)
	if err != nil {
		return fmt.Errorf("read-only: %w", err)
	}
	return nil
}

// disk is a base directory on the disk, and a runtime directory on another.
type disk struct{ base, runtime string }

// reads runs the commands that read.
func (d *disk) reads() error {
	return errors.Join(
		d.zino(0, "  1 turn  ", "sessions", "list"),
		d.zino(0, "\n  run date\n", "sessions", "show", "first"),
		d.zino(0, "first  20", "sessions", "search", "date"),
		d.zino(0, "kitchen\n", "channels", "list"),
		d.zino(0, "user: run date\n", "channels", "show", "kitchen"),
		d.zino(0, "spare key\n", "memory", "list"),
		d.zino(0, "spare key\n", "memory", "search", "key"),
	)
}

// zino runs a command, which must end with a status and print a text on either
// stream.
func (d *disk) zino(status int, text string, args ...string) error {
	cmd := exec.Command(filepath.Join(os.Getenv(diskBinEnv), "zino"), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.base, "ZINO_HOME=" + d.base, "XDG_RUNTIME_DIR=" + d.runtime}
	cmd.Dir = d.runtime
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != status || !strings.Contains(string(out), text) {
		return fmt.Errorf("%s: status %d, %w, printed %s", strings.Join(args, " "), got, err, bytes.TrimSpace(out))
	}
	return nil
}

// endless is a file without an end.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }
