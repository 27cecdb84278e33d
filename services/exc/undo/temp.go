package undo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"zino/pkg/durable"
	"zino/services/exc/files"
)

// keepPresent makes images of what the plan replaces or removes, for redo.
func (u *undo) keepPresent(p *plan) error {
	sums := map[string]bool{}
	for i, t := range p.Steps {
		if t.From == nil || t.From.Kind != kindFile {
			continue
		}
		root, path, err := u.open(t.Root, t.Path)
		if err != nil {
			return err
		}
		f, err := root.openRegular(path)
		if err != nil {
			return err
		}
		sum, err := u.s.objects.put(f, nil, nil)
		closeAll(f)
		if err != nil {
			return err
		}
		if sum != t.From.SHA256 {
			return fmt.Errorf("%s: %w", t.Path, errChanging)
		}
		from := *t.From
		from.Blob, from.Git = "", ""
		p.Steps[i].From, sums[sum] = &from, true
	}
	return u.s.objects.sync(sums)
}

// inPlace reports whether a step changes only permissions and owner.
func (t step) inPlace() bool {
	return t.From != nil && t.To != nil && t.From.sameContent(t.To) && t.To.Kind != kindSymlink && (t.To.Kind == kindDir || t.From.UID == t.To.UID && t.From.GID == t.To.GID)
}

// nameTemp chooses the temporary file of a step: in the directory of its path, or in
// the nearest one above that exists.
func (u *undo) nameTemp(t *step) error {
	if t.To == nil || t.inPlace() {
		return nil
	}
	root, path, err := u.open(t.Root, t.Path)
	if err != nil {
		return err
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		parent, err := root.open(dir, unix.O_PATH|unix.O_DIRECTORY)
		if err == nil {
			closeAll(parent)
			t.Temp = filepath.Join(dir, tempPrefix+randomName())
			return nil
		}
		if dir == "." || !errorIs(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP) {
			return err
		}
	}
}

// makeTemp makes the temporary file of a step and returns when it is on disk.
func (u *undo) makeTemp(t step) (err error) {
	if t.Temp == "" {
		return nil
	}
	root, path, err := u.open(t.Root, t.Path)
	if err != nil {
		return err
	}
	dir, err := root.parent(t.Temp)
	if err != nil {
		return err
	}
	defer dir.Close()
	name := filepath.Base(t.Temp)
	switch t.To.Kind {
	case kindSymlink:
		if err := unix.Symlinkat(t.To.Text, int(dir.Fd()), name); err != nil {
			return &os.PathError{Op: "symlink", Path: t.Path, Err: err}
		}
		if err := unix.Fchownat(int(dir.Fd()), name, int(t.To.UID), int(t.To.GID), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return &os.PathError{Op: "chown", Path: t.Path, Err: err}
		}
		return syncDir(dir)
	case kindDir:
		if err := unix.Mkdirat(int(dir.Fd()), name, 0o700); err != nil {
			return &os.PathError{Op: "mkdir", Path: t.Path, Err: err}
		}
		f, err := root.open(t.Temp, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer f.Close()
		return errors.Join(t.To.give(f), syncDir(dir))
	}
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "create a file beside", Path: t.Path, Err: err}
	}
	f := os.NewFile(uintptr(fd), t.Path)
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := u.content(f, t.To); err != nil {
		return err
	}
	if t.From != nil && t.From.Kind == kindFile { // keep the attributes that users set
		old, err := root.openRegular(path)
		if err != nil {
			return err
		}
		err = files.CopyAttributes(through(old), through(f))
		closeAll(old)
		if err != nil {
			return err
		}
	}
	if err := t.To.give(f); err != nil {
		return err
	}
	return errors.Join(f.Sync(), syncDir(dir))
}

// content writes the content of a state from its image.
func (u *undo) content(f *os.File, state *State) error {
	if state.Blob == "" || u.s.objects.has(state.SHA256) {
		return u.s.objects.restore(f, state.SHA256)
	}
	err := blobs(u.ctx, state.Git, []string{state.Blob}, func(_ int, content io.Reader) error {
		if content == nil {
			return fmt.Errorf("git does not have the object %s any more", state.Blob)
		}
		_, err := io.Copy(f, content)
		return err
	})
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if sum, err := sumOf(f); err != nil || sum != state.SHA256 {
		return errors.Join(fmt.Errorf("the git object %s has another content than the file had", state.Blob), err)
	}
	return nil
}

// give gives a file its owner and permissions.
func (s *State) give(f *os.File) error {
	st, err := fstat(f)
	if err != nil {
		return err
	}
	if st.Uid != s.UID || st.Gid != s.GID {
		if err := f.Chown(int(s.UID), int(s.GID)); err != nil {
			return err
		}
	}
	return unix.Fchmod(int(f.Fd()), s.Mode)
}

// drop removes a plan that has changed nothing, with its temporary files.
func (u *undo) drop(p *plan) error {
	var failed error
	for _, t := range p.Steps {
		failed = errors.Join(failed, u.dropTemp(t))
	}
	if failed != nil {
		return failed // the next start tries again
	}
	if err := u.dir.Remove(planName(p.n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.SyncDir(u.dir)
}

// dropTemp removes the temporary file of a step, if it is there.
func (u *undo) dropTemp(t step) error {
	if t.Temp == "" {
		return nil
	}
	root, _, err := u.open(t.Root, t.Path)
	if err == nil {
		var dir *os.File
		if dir, err = root.parent(t.Temp); err == nil {
			defer dir.Close()
			flags := 0
			if t.To.Kind == kindDir {
				flags = unix.AT_REMOVEDIR
			}
			err = unix.Unlinkat(int(dir.Fd()), filepath.Base(t.Temp), flags)
		}
	}
	if errorIs(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP) {
		return nil
	}
	return err
}
