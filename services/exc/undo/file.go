package undo

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// File is a file that write or edit is about to change.
type File struct {
	s        *Store
	at       At
	root     string // empty: the path is absolute
	path     string
	before   *State
	dirs     []string // above it, to be made, relative to the root
	why      string
	mustHave string // the hash of the content at the plan; empty: unknown
	again    bool   // an earlier process may have recorded the change
}

// BeforeFile keeps the content of a file that write or edit is about to change. path
// is absolute, without symbolic links; sum is the SHA-256 of its content at the time
// of the plan, "" if the file does not exist. It returns nil where nothing is
// recorded.
func (s *Store) BeforeFile(at At, path, sum string) *File {
	if !s.covered(at) {
		return nil
	}
	f := s.fileAt(at, path)
	f.mustHave = sum
	err := f.keep()
	switch {
	case errors.Is(err, errTooLarge):
		f.why = TooLarge
	case err != nil:
		f.why = fmt.Sprintf("undo does not cover this change: %v", err)
		s.log.Warn("undo: the change of a file is not recorded", "path", path, "error", err)
	}
	return f
}

var errTooLarge = errors.New("the file is too large")

func (f *File) open() (*root, error) {
	if f.root == "" {
		return openRoot("/")
	}
	return openRoot(f.root)
}

func (f *File) keep() error {
	f.s.objects.exclude.RLock()
	defer f.s.objects.exclude.RUnlock()
	root, err := f.open()
	if err != nil {
		return err
	}
	defer root.close()
	for dir := filepath.Dir(f.path); dir != "."; dir = filepath.Dir(dir) {
		parent, err := root.open(dir, unix.O_PATH|unix.O_DIRECTORY)
		if err == nil {
			closeAll(parent)
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f.dirs = append(f.dirs, dir)
	}
	if len(f.dirs) > 0 {
		return nil
	}
	f.before, err = f.s.stateOf(root, f.path, FileMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && f.mustHave != "" && f.before.SHA256 != f.mustHave {
		err = errChanging
	}
	return err
}

// stateOf returns what is at a path, and makes an image of a file.
func (s *Store) stateOf(root *root, path string, limit int64) (*State, error) {
	dir, err := root.parent(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	st, err := lstat(dir, filepath.Base(path))
	if err != nil {
		return nil, err
	}
	e := entryOf(&st)
	switch {
	case e == nil:
		return nil, fmt.Errorf("not a file, directory or symbolic link")
	case e.kind == kindSymlink:
		e.text, err = readLink(dir, filepath.Base(path))
		return e.state(), err
	case e.kind == kindDir:
		return e.state(), nil
	case e.size > limit:
		return nil, errTooLarge
	}
	file, err := root.openRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if e.sum, err = s.objects.put(file, nil, nil); err != nil {
		return nil, err
	}
	return e.state(), nil
}

// After records the change of a file that was made. sum is the SHA-256 of the
// content that was written. It returns why nothing was recorded, "" if all is well.
func (f *File) After(by By, sum string) (why string) {
	if f == nil || f.why != "" {
		if f != nil {
			why = f.why
		}
		return why
	}
	err := f.record(by, sum)
	if errors.Is(err, errTooLarge) {
		return TooLarge
	}
	if err != nil {
		f.s.log.Warn("undo: the change of a file is not recorded", "path", filepath.Join("/", f.root, f.path), "error", err)
		return fmt.Sprintf("undo does not cover this change: %v", err)
	}
	return ""
}

func (f *File) record(by By, sum string) error {
	f.s.objects.exclude.RLock()
	defer f.s.objects.exclude.RUnlock()
	root, err := f.open()
	if err != nil {
		return err
	}
	defer root.close()
	var changes []Change
	add := func(path string, before, after *State) {
		if f.root == "" {
			path = "/" + path
		}
		changes = append(changes, newChange(f.root, path, before, after, by))
	}
	for _, dir := range slices.Backward(f.dirs) {
		if state, err := f.s.stateOf(root, dir, 0); err == nil && state.Kind == kindDir {
			add(dir, nil, state)
		}
	}
	after, err := f.s.stateOf(root, f.path, FileMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the call has failed
	}
	if err != nil {
		return err
	}
	if !f.before.same(after) {
		after.SHA256 = sum // if another program has changed it since, undo refuses
		add(f.path, f.before, after)
	}
	by.again = f.again
	return f.s.append(f.at, changes, by)
}
