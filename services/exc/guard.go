package exc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// guard sees to it that the places which code must not change are after a run
// what they were before. What is there can be made read-only, but not what is
// not there, nor symbolic links; and a file that the user replaces meanwhile is
// no longer read-only for the run. So whatever else stands in such a place after
// the run is moved aside, whoever put it there: that cannot be told.
type guard struct {
	root   *os.File
	places []place
	open   map[string]*os.File // what is there: so it stays readable, and its number is not given to another file
	note   string              // a file that says what is guarded; empty: none
}

// newGuard guards places below root.
func newGuard(root string, places []place) (*guard, error) {
	dir, err := openAt(unix.AT_FDCWD, root, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	g := &guard{root: dir, places: places, open: map[string]*os.File{}}
	for _, p := range places {
		if !p.fixed() {
			continue
		}
		if g.open[p.Path], err = openAt(unix.AT_FDCWD, p.Path, 0); err != nil {
			g.close()
			return nil, err
		}
	}
	return g, nil
}

// protect has the run keep from changing what is protected below its root.
func (a *arrangement) protect(root string) error {
	places, err := a.s.sandbox.placesBelow(root)
	if err != nil {
		return err
	}
	for _, p := range places {
		switch {
		case p.fixed():
			a.plan.Protected = append(a.plan.Protected, p.Path)
		case p.held():
			a.plan.Held = append(a.plan.Held, p.Path)
		}
	}
	if a.guard, err = newGuard(root, places); err != nil {
		return err
	}
	return a.guard.writeDown(a.tmp + noteSuffix)
}

// inspect ends the guard, once, and keeps what it found.
func (a *arrangement) inspect() {
	if a.guard == nil {
		return
	}
	a.found = a.guard.restore()
	for _, i := range a.found {
		a.s.log.Warn(i.String(), "root", a.plan.Root)
	}
	a.guard = nil
}

// openAt opens a path, on which there must be no symbolic links, to know what it
// leads to.
func openAt(dir int, path string, flags uint64) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(dir, path, &how)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// close lets go of all that is open.
func (g *guard) close() {
	closeAll(g.root)
	for _, f := range g.open {
		closeAll(f)
	}
}

// restore makes the places what they were, says what was found in them, and ends
// the guard.
func (g *guard) restore() (list []intruder) {
	defer g.close()
	for _, p := range g.places {
		name, err := filepath.Rel(g.root.Name(), p.Path)
		if err != nil {
			continue // it was no place below the root
		}
		i := intruder{name: name}
		try := func() error {
			return within(g.root, filepath.Dir(name), func(dir *os.File) error { return g.settle(dir, p, &i) })
		}
		if i.err = try(); errors.Is(i.err, fs.ErrExist) {
			i.err = try() // the guard of another run was faster
		}
		if errors.Is(i.err, fs.ErrNotExist) || errors.Is(i.err, unix.ENOTDIR) {
			i.err = nil // nothing leads there any more
		}
		if i.found || i.err != nil {
			list = append(list, i)
		}
	}
	if g.note != "" {
		if err := os.Remove(g.note); err != nil {
			list = append(list, intruder{name: g.note, err: err})
		}
	}
	return list
}

// settle makes one place in an open directory what it was.
func (g *guard) settle(dir *os.File, p place, i *intruder) error {
	base := filepath.Base(p.Path)
	now, err := look(filepath.Join(throughFD(dir), base))
	if err != nil {
		return err
	}
	if now.info != nil {
		if g.unchanged(p, now) {
			return nil
		}
		if err := i.moveAside(dir, base); err != nil {
			return err
		}
	}
	switch {
	case p.Link != "":
		return unix.Symlinkat(p.Link, int(dir.Fd()), base)
	case now.info != nil:
		return g.putBack(p, now.Path)
	}
	return nil
}

// unchanged reports whether a place is what it was.
func (g *guard) unchanged(p, now place) bool {
	was := g.open[p.Path]
	switch {
	case p.Link != "":
		return now.Link == p.Link
	case !p.End:
		return now.Link == "" && (now.info.IsDir() || !p.held())
	case was == nil:
		return false
	}
	info, err := was.Stat()
	return err == nil && (os.SameFile(info, now.info) || sameContent(was, info, now))
}

// sameContent reports whether a file that was replaced says what it did before.
func sameContent(was *os.File, info fs.FileInfo, now place) bool {
	if !info.Mode().IsRegular() || info.Size() != now.info.Size() {
		return false
	}
	before, err := readRegular(throughFD(was))
	if err != nil {
		return false
	}
	after, err := readRegular(now.Path)
	return err == nil && bytes.Equal(before, after)
}

// putBack makes the file anew that was in a place, if it was one.
func (g *guard) putBack(p place, path string) error {
	was := g.open[p.Path]
	if was == nil {
		return nil
	}
	info, err := was.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	old, err := os.Open(throughFD(was))
	if err != nil {
		return fmt.Errorf("what was there before cannot be read: %w", err)
	}
	defer old.Close()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(f, old)
	return errors.Join(err, f.Close())
}
