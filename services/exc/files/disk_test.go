package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

// inNamespace runs a role in a mount namespace of its own, with a directory for it.
func inNamespace(t *testing.T, role string) {
	t.Helper()
	t.Setenv("TMPDIR", newDir(t))
	zinotest.SmallDisk(t, zinotest.Command(t, role, newDir(t)))
}

func TestDiskFull(t *testing.T)     { inNamespace(t, "full") }
func TestMountedFile(t *testing.T)  { inNamespace(t, "mounted") }
func TestReadOnlyDisk(t *testing.T) { inNamespace(t, "readonly") }

// failsWith expects an error of that code, with that text in its message.
func failsWith(call tool, dir string, a args, code, text string) error {
	reply, err := call(context.Background(), dir, a.input())
	if errorCode(err) != code || !strings.Contains(err.Error(), text) {
		return fmt.Errorf("got %+v, %w, want the code %s and %q", reply, err, code, text)
	}
	return nil
}

// left expects exactly these files in a directory.
func left(dir string, want map[string]string) error {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(want) {
		return fmt.Errorf("left: %v, %w", entries, err)
	}
	for name, content := range want {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != content {
			return fmt.Errorf("%s holds %d bytes, %w", name, len(text), err)
		}
	}
	return nil
}

// onFullDisk makes changes for which the disk has no room: all files keep their
// content, and no others are left.
func onFullDisk(dir string) error {
	if err := zinotest.Mount(dir, "size=96k", 0); err != nil {
		return err
	}
	old := strings.Repeat("o", 40<<10)
	want := map[string]string{"file": old, "a": "linked", "b": "linked"}
	for name, content := range want {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, "b")), os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b"))); err != nil {
		return err
	}
	large := strings.Repeat("n", 70<<10)
	return errors.Join(
		failsWith(doWrite, dir, args{"path": "file", "content": large}, WriteError, "no space left"),
		failsWith(doWrite, dir, args{"path": "new", "content": large}, WriteError, "no space left"),
		failsWith(doWrite, dir, args{"path": "a", "content": large}, WriteError, "no space left"),
		failsWith(doEdit, dir, args{"path": "file", "old": old, "new": large}, WriteError, "no space left"),
		failsWith(doEdit, dir, args{"path": "b", "old": "linked", "new": large}, WriteError, "no space left"),
		left(dir, want),
	)
}

// onMountedFile changes a file that is a mount point and cannot be replaced.
func onMountedFile(dir string) error {
	if err := zinotest.Mount(dir, "size=1m", 0); err != nil {
		return err
	}
	source, file := filepath.Join(dir, "source"), filepath.Join(dir, "file")
	for _, path := range []string{source, file} {
		if err := os.WriteFile(path, []byte("former text\n"), 0o640); err != nil {
			return err
		}
	}
	if err := syscall.Mount(source, file, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	for _, a := range []args{{"path": "file", "old": "former", "new": "longer than the former"}, {"path": "file", "old": "longer than the ", "new": ""}} {
		if _, err := doEdit(context.Background(), dir, a.input()); err != nil {
			return err
		}
	}
	if err := left(dir, map[string]string{"file": "former text\n", "source": "former text\n"}); err != nil {
		return err
	}
	if _, err := doWrite(context.Background(), dir, []byte(`{"path":"file","content":"short"}`)); err != nil {
		return err
	}
	return left(dir, map[string]string{"file": "short", "source": "short"})
}

// onReadOnlyDisk makes changes that are impossible, also for root.
func onReadOnlyDisk(dir string) error {
	if err := zinotest.Mount(dir, "size=1m", 0); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600); err != nil {
		return err
	}
	if err := zinotest.Remount(dir, syscall.MS_RDONLY); err != nil {
		return err
	}
	return errors.Join(
		failsWith(doWrite, dir, args{"path": "file", "content": "y"}, WriteError, "read-only"),
		failsWith(doWrite, dir, args{"path": "new", "content": "y"}, WriteError, "read-only"),
		failsWith(doWrite, dir, args{"path": "d/e/new", "content": "y"}, MkdirError, "read-only"),
		failsWith(doEdit, dir, args{"path": "file", "old": "x", "new": "y"}, WriteError, "read-only"),
		left(dir, map[string]string{"file": "x"}),
	)
}
