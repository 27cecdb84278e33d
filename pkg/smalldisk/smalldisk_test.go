package smalldisk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestMain plays the child where it is told to.
func TestMain(m *testing.M) {
	dir := os.Getenv("SMALLDISK_DIR")
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := fill(dir); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func fill(dir string) error {
	if err := Mount(dir, "size=64k", 0); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "small"), make([]byte, 1000), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk is not small: %w", err)
	}
	return nil
}

// TestRun has a child with a disk that nobody else sees.
func TestRun(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "SMALLDISK_DIR="+dir)
	Run(t, cmd)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("what is on the disk shows outside: %v, %v", entries, err)
	}
}
