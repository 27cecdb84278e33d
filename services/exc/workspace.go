package exc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"zino/pkg/durable"
	"zino/services/exc/run"
)

// workspacePrefix begins the names of workspaces.
const workspacePrefix = "zino-exc-"

// workspace is a private directory with a directory for each run. It is locked as
// long as the process lives: the next one removes those without a lock.
type workspace struct {
	parent string
	log    *slog.Logger

	mu   sync.Mutex
	dir  string
	lock *os.File
	next int
}

// openWorkspace makes a workspace in parent and removes those of dead processes.
func openWorkspace(parent string, log *slog.Logger) (*workspace, error) {
	parent, err := filepath.Abs(parent)
	if err != nil {
		return nil, err
	}
	w := &workspace{parent: parent, log: log}
	w.sweep()
	if err := w.create(); err != nil {
		return nil, fmt.Errorf("no private directory for code: %w: set TMPDIR to a directory that can be written", err)
	}
	return w, nil
}

// temporary is the directory for workspaces: the service's own under systemd.
func temporary() string {
	if own, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":"); own != "" {
		return own
	}
	return os.TempDir()
}

// create makes the directory and locks it. The sweep of another process may
// remove it before it is locked: then it is made again.
func (w *workspace) create() error {
	for {
		dir, err := os.MkdirTemp(w.parent, workspacePrefix)
		if err != nil {
			return err
		}
		lock, err := lockDir(dir, func(f *os.File) error { return durable.Lock(context.Background(), f) })
		if err == nil {
			there, statErr := os.Lstat(dir)
			locked, lockErr := lock.Stat()
			if statErr == nil && lockErr == nil && os.SameFile(there, locked) {
				closeAll(w.lock)
				w.dir, w.lock = dir, lock
				return nil
			}
			closeAll(lock)
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, os.Remove(dir))
		}
	}
}

// lockDir opens a directory of this user and locks it.
func lockDir(dir string, lock func(*os.File) error) (*os.File, error) {
	f, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err == nil && int(st.Uid) != os.Geteuid() {
		err = fs.ErrPermission
	}
	if err == nil {
		err = lock(f)
	}
	if err != nil {
		closeAll(f)
		return nil, err
	}
	return f, nil
}

// sweep removes the workspaces of dead processes of this user, after a check of
// their open runs.
func (w *workspace) sweep() {
	entries, err := os.ReadDir(w.parent)
	if err != nil {
		w.log.Warn("cannot look for the directories of dead processes", "error", err)
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), workspacePrefix) {
			continue
		}
		dir := filepath.Join(w.parent, e.Name())
		lock, err := lockDir(dir, durable.TryLock)
		if err != nil {
			continue // in use, or of another user
		}
		checkOpenRuns(dir, w.log)
		w.remove(dir)
		closeAll(lock)
	}
}

// place writes code to a file whose name ends in ext, in a directory of its own
// that remove removes.
func (w *workspace) place(code, ext string) (file string, remove func(), err error) {
	dir, err := w.newDir()
	if err != nil {
		return "", nil, fmt.Errorf("no place for the code: %w", err)
	}
	remove = func() { w.remove(dir) }
	if file, err = placeIn(dir, code, ext); err != nil {
		remove()
		return "", nil, err
	}
	return file, remove, nil
}

// placeIn writes code to a file in dir whose name ends in ext.
func placeIn(dir, code, ext string) (file string, err error) {
	file = filepath.Join(dir, "code"+ext)
	if filepath.Dir(file) != dir {
		return "", fmt.Errorf("file extension %q leads out of the directory: correct the definition in tools/", ext)
	}
	if err := writeNew(file, code); err != nil {
		return "", fmt.Errorf("cannot write the code: %w", err)
	}
	return file, nil
}

// newDir makes a directory for a run. If the workspace is gone, because a cleaner
// of temporary files has removed it, it is made again.
func (w *workspace) newDir() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for recreated := false; ; {
		w.next++
		dir := filepath.Join(w.dir, strconv.Itoa(w.next))
		err := os.Mkdir(dir, 0o700)
		switch {
		case err == nil:
			return dir, nil
		case errors.Is(err, fs.ErrExist): // try the next number
		case errors.Is(err, fs.ErrNotExist) && !recreated:
			recreated = true
			if err := w.create(); err != nil {
				return "", err
			}
		default:
			return "", err
		}
	}
}

// writeNew writes a new file that only this user can read.
func writeNew(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// path is the workspace without symbolic links.
func (w *workspace) path() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if real, err := filepath.EvalSymlinks(w.dir); err == nil {
		return real
	}
	return w.dir
}

// remove removes a directory with all that code has put there.
func (w *workspace) remove(dir string) {
	if err := run.RemoveAll(dir); err != nil {
		w.log.Warn("cannot remove the directory of a run: remove it by hand", "error", err)
	}
}

// close removes the workspace.
func (w *workspace) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(w.dir)
	closeAll(w.lock)
}

// closeAll closes files that need no flush. Files that are nil or closed already
// do no harm.
func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
