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
	"zino/services/exc/run"
)

func openTestWorkspace(t *testing.T, parent string) *workspace {
	t.Helper()
	w, err := openWorkspace(parent, slog.New(slog.DiscardHandler))
	zinotest.Must(t, err)
	t.Cleanup(w.close)
	return w
}

func TestWorkspacePlace(t *testing.T) {
	w := openTestWorkspace(t, t.TempDir())
	file, remove, err := w.place("echo hi", ".sh")
	zinotest.Must(t, err)
	if text := zinotest.Read(t, file); text != "echo hi" || !strings.HasSuffix(file, "/code.sh") {
		t.Errorf("%s holds %q", file, text)
	}
	other, removeOther, err := w.place("", "")
	if err != nil || filepath.Dir(other) == filepath.Dir(file) {
		t.Errorf("a second place: %s, %v", other, err)
	}
	zinotest.Must(t, os.MkdirAll(filepath.Join(filepath.Dir(file), "__pycache__", "more"), 0o700))
	remove()
	removeOther()
	remove() // again does no harm
	zinotest.Equal(t, "left", zinotest.Names(t, w.dir), "")
}

func TestWorkspaceRefusesExtension(t *testing.T) {
	w := openTestWorkspace(t, t.TempDir())
	for _, ext := range []string{"/x", "/../../x", "/.."} {
		if file, _, err := w.place("x", ext); err == nil {
			t.Errorf("%q led to %s", ext, file)
		}
	}
	zinotest.Equal(t, "left", zinotest.Names(t, w.dir), "")
}

// A workspace that was removed with other temporary files is made again.
func TestWorkspaceIsRecreated(t *testing.T) {
	parent := t.TempDir()
	w := openTestWorkspace(t, parent)
	old := w.dir
	zinotest.Must(t, os.RemoveAll(old))
	file, _, err := w.place("x", "")
	if err != nil || !exists(file) || w.dir == old {
		t.Errorf("got %s, %v", file, err)
	}
	other := openTestWorkspace(t, parent)
	if !exists(file) || other.dir == w.dir {
		t.Error("the new directory is not locked")
	}
	zinotest.Must(t, os.RemoveAll(parent))
	if _, _, err := w.place("x", ""); err == nil {
		t.Error("a place without a parent directory")
	}
}

func TestWorkspaceSweep(t *testing.T) {
	parent := t.TempDir()
	zinotest.WriteFiles(t, parent, map[string]string{workspacePrefix + "dead/1/x": "", "other/1": "", workspacePrefix + "file": ""})
	target := t.TempDir()
	zinotest.Must(t, os.Symlink(target, filepath.Join(parent, workspacePrefix+"link")))
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
	zinotest.Equal(t, "left", zinotest.Names(t, parent), "")
}

func TestLockDirOfAnother(t *testing.T) {
	dir := "/"
	if os.Geteuid() == 0 {
		dir = t.TempDir()
		zinotest.Must(t, os.Chown(dir, zinotest.Nobody, -1))
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
		zinotest.Equal(t, "RUNTIME_DIRECTORY="+tt.runtime, temporary(), tt.want)
	}
	_, err := openWorkspace("/nonexistent/dir", slog.New(slog.DiscardHandler))
	zinotest.Error(t, err, nil, "TMPDIR")
}

// Files that code has made hard to remove are removed.
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
	s.mustLeaveNothing(t, nil)
}

// A directory without permissions is removed, and permissions of other files stay.
// Modes do not bind root: the tests run again as another user.
func TestRemoveLocked(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		asUser(t, "TestRemoveLocked", "TestRemoveStubborn", "TestConfinedPrograms")
		return
	}
	w := openTestWorkspace(t, zinotest.Dir(t))
	dir, err := w.newDir()
	zinotest.Must(t, err)
	zinotest.Write(t, dir+"/a/x", "")
	zinotest.Must(t, errors.Join(os.Chmod(dir+"/a", 0), os.Chmod(dir, 0)))
	w.remove(dir)
	if exists(dir) {
		t.Error("left on disk")
	}
	other := t.TempDir()
	zinotest.Must(t, errors.Join(os.Symlink(other, dir), os.Chmod(other, 0o500)))
	if fi, err := os.Stat(other); run.RemoveAll(dir) != nil || exists(dir) || err != nil || fi.Mode().Perm() != 0o500 {
		t.Errorf("a link was followed: %v, %v", fi, err)
	}
}
