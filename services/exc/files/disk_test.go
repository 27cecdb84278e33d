package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zino/pkg/zinotest"
)

// children are what the test binary does in a mount namespace of its own.
var children = map[string]func(dir string) error{
	"full":     onFullDisk,
	"mounted":  onMountedFile,
	"readonly": onReadOnlyDisk,
}

// inNamespace runs a child, for which dir is a directory of its own.
func inNamespace(t *testing.T, role string) {
	t.Helper()
	dir := place(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"="+role, dirEnv+"="+dir, "TMPDIR="+place(t), "GORACE=atexit_sleep_ms=0")
	zinotest.SmallDisk(t, cmd)
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

// left expects files in a directory that are as they were.
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

// onFullDisk changes files for which the disk has no room: they stay as they
// were, and nothing else stays.
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
	f := New()
	return errors.Join(
		failsWith(f.Write, dir, args{"path": "file", "content": large}, WriteError, "no space left"),
		failsWith(f.Write, dir, args{"path": "new", "content": large}, WriteError, "no space left"),
		failsWith(f.Write, dir, args{"path": "a", "content": large}, WriteError, "no space left"),
		failsWith(f.Edit, dir, args{"path": "file", "old": old, "new": large}, WriteError, "no space left"),
		failsWith(f.Edit, dir, args{"path": "b", "old": "linked", "new": large}, WriteError, "no space left"),
		left(dir, want),
	)
}

// onMountedFile changes a file that is a mount point, which nothing can replace.
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
		if _, err := New().Edit(context.Background(), dir, a.input()); err != nil {
			return err
		}
	}
	if err := left(dir, map[string]string{"file": "former text\n", "source": "former text\n"}); err != nil {
		return err
	}
	if _, err := New().Write(context.Background(), dir, []byte(`{"path":"file","content":"short"}`)); err != nil {
		return err
	}
	return left(dir, map[string]string{"file": "short", "source": "short"})
}

// onReadOnlyDisk asks for changes that are impossible, for root as well.
func onReadOnlyDisk(dir string) error {
	if err := zinotest.Mount(dir, "size=1m", 0); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600); err != nil {
		return err
	}
	if err := syscall.Mount("none", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	f := New()
	return errors.Join(
		failsWith(f.Write, dir, args{"path": "file", "content": "y"}, WriteError, "read-only"),
		failsWith(f.Write, dir, args{"path": "new", "content": "y"}, WriteError, "read-only"),
		failsWith(f.Write, dir, args{"path": "d/e/new", "content": "y"}, MkdirError, "read-only"),
		failsWith(f.Edit, dir, args{"path": "file", "old": "x", "new": "y"}, WriteError, "read-only"),
		left(dir, map[string]string{"file": "x"}),
	)
}
