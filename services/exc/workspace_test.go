package exc

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"zino/pkg/durable"
	"zino/pkg/zinotest"
	"zino/proto"
)

func openTestWorkspace(t *testing.T, parent string) *workspace {
	t.Helper()
	w, err := openWorkspace(parent, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	return w
}

func TestWorkspacePlace(t *testing.T) {
	w := openTestWorkspace(t, t.TempDir())
	file, remove, err := w.place("echo hi", ".sh")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || string(text) != "echo hi" || !strings.HasSuffix(file, "/code.sh") {
		t.Errorf("%s holds %q, %v", file, text, err)
	}
	other, removeOther, err := w.place("", "")
	if err != nil || filepath.Dir(other) == filepath.Dir(file) {
		t.Errorf("a second place: %s, %v", other, err)
	}
	if err := os.MkdirAll(filepath.Join(filepath.Dir(file), "__pycache__", "more"), 0o700); err != nil {
		t.Fatal(err)
	}
	remove()
	removeOther()
	remove() // again does no harm
	if entries, err := os.ReadDir(w.dir); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

func TestWorkspaceRefusesExtension(t *testing.T) {
	w := openTestWorkspace(t, t.TempDir())
	for _, ext := range []string{"/x", "/../../x", "/.."} {
		if file, _, err := w.place("x", ext); err == nil {
			t.Errorf("%q led to %s", ext, file)
		}
	}
	if entries, err := os.ReadDir(w.dir); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// Whoever clears the host's temporary files does not stop the service.
func TestWorkspaceComesBack(t *testing.T) {
	parent := t.TempDir()
	w := openTestWorkspace(t, parent)
	old := w.dir
	if err := os.RemoveAll(old); err != nil {
		t.Fatal(err)
	}
	file, _, err := w.place("x", "")
	if err != nil || !exists(file) || w.dir == old {
		t.Errorf("got %s, %v", file, err)
	}
	other := openTestWorkspace(t, parent)
	if !exists(file) || other.dir == w.dir {
		t.Error("the new directory is not locked")
	}
	if err := os.RemoveAll(parent); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.place("x", ""); err == nil {
		t.Error("a place without a parent directory")
	}
}

func TestWorkspaceSweep(t *testing.T) {
	parent := t.TempDir()
	for _, name := range []string{workspacePrefix + "dead/1", "other/1"} {
		if err := os.MkdirAll(filepath.Join(parent, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	target := t.TempDir()
	if err := os.Symlink(target, filepath.Join(parent, workspacePrefix+"link")); err != nil {
		t.Fatal(err)
	}
	if err := writeNew(filepath.Join(parent, workspacePrefix+"file"), ""); err != nil {
		t.Fatal(err)
	}
	living := openTestWorkspace(t, parent)
	openTestWorkspace(t, parent)
	for name, want := range map[string]bool{
		workspacePrefix + "dead": false, workspacePrefix + "link": true, workspacePrefix + "file": true, "other/1": true,
		filepath.Base(living.dir): true,
	} {
		if exists(filepath.Join(parent, name)) != want {
			t.Errorf("%s is there: %v", name, !want)
		}
	}
	if !exists(target) {
		t.Error("a link was followed")
	}
}

// Services that start at the same moment leave each other's directories alone.
func TestWorkspaceRace(t *testing.T) {
	parent := t.TempDir()
	var all sync.WaitGroup
	made := make(chan *workspace, 20)
	for range cap(made) {
		all.Go(func() {
			w, err := openWorkspace(parent, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Error(err)
				return
			}
			made <- w
		})
	}
	all.Wait()
	close(made)
	for w := range made {
		if !exists(w.dir) {
			t.Errorf("%s was swept away", w.dir)
		}
		w.close()
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestLockDirOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		if _, err := lockDir("/", durable.TryLock); err == nil {
			t.Error("locked a directory of another user")
		}
		return
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := lockDir(dir, durable.TryLock); err == nil {
		t.Error("locked a directory of another user")
	}
}

func TestTemporary(t *testing.T) {
	tests := []struct{ runtime, tmp, want string }{
		{"/run/zino", "/x", "/run/zino"},
		{"/run/a:/run/b", "/x", "/run/a"},
		{"", "/x", "/x"},
	}
	for _, tt := range tests {
		t.Setenv("RUNTIME_DIRECTORY", tt.runtime)
		t.Setenv("TMPDIR", tt.tmp)
		if got := temporary(); got != tt.want {
			t.Errorf("%q, %q: got %q, want %q", tt.runtime, tt.tmp, got, tt.want)
		}
	}
	if _, err := openWorkspace("/nonexistent/dir", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("got %v", err)
	}
}

// What code made hard to remove is removed as well.
func TestRemoveStubborn(t *testing.T) {
	t.Parallel()
	s := newService(t, nil, nil)
	for _, code := range []string{
		`mkdir -p "${0%/*}/a/b/c" && touch "${0%/*}/a/b/c/x" && chmod 0 "${0%/*}/a/b/c" "${0%/*}/a/b" "${0%/*}/a"`,
		`ln -s / "${0%/*}/root"; mkdir "${0%/*}/x"; ln -s .. "${0%/*}/x/up"; chmod 0 "${0%/*}/x"`,
	} {
		if r := s.run(t, "bash", code); r.ExitCode != 0 {
			t.Errorf("%+v", r)
		}
	}
	if left := s.workspaces(); len(left) > 0 {
		t.Errorf("left on disk: %v", left)
	}
}

// What code locked is unlocked, itself as well, and nothing that lies elsewhere.
// To root nothing is locked.
func TestRemoveLocked(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		dir := zinotest.Dir(t)
		if err := errors.Join(os.Chown(dir, 61234, 61234), os.Chmod(dir, 0o700)); err != nil {
			t.Fatal(err)
		}
		if out, err := asUser(61234, dir, "-test.run=^TestRemoveLocked$|^TestRemoveStubborn$|^TestLockedTmp$"); err != nil {
			t.Errorf("%s, %v", out, err)
		}
		return
	}
	w := openTestWorkspace(t, zinotest.Dir(t))
	dir, err := w.newDir()
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, dir+"/a/x", "")
	if err := errors.Join(os.Chmod(dir+"/a", 0), os.Chmod(dir, 0)); err != nil {
		t.Fatal(err)
	}
	w.remove(dir)
	if exists(dir) {
		t.Error("left on disk")
	}
	other := t.TempDir()
	if err := errors.Join(os.Symlink(other, dir), os.Chmod(other, 0o500)); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(other); grantAccess(dir) == nil || err != nil || fi.Mode().Perm() != 0o500 {
		t.Errorf("a link was followed: %v, %v", fi, err)
	}
}

// Code that locks its own /tmp leaves nothing of it.
func TestLockedTmp(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	a.each(t, func(t *testing.T, _, name proto.Level) {
		code := `mkdir -p "$TMPDIR/a/b" && chmod 000 "$TMPDIR/a" "$TMPDIR" && echo locked`
		r, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: code, Sandbox: name, Root: a.root})
		if left := a.workspaces(); err != nil || r.Stdout != "locked\n" || len(left) > 0 {
			t.Errorf("left on disk: %v; %+v, %v", left, r, err)
		}
	})
}
