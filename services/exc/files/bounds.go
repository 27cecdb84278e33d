package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Bounds are what the tools may touch. They hold whatever symbolic links are
// made and moved meanwhile: what is looked at is what was opened.
type Bounds struct {
	// Root is a directory, absolute and without symbolic links. Empty: there is
	// none in which anything could be written.
	Root string
	// Write is whether anything may be written, and then only below Root.
	Write bool
	// Refuse is why a file, or a directory above it, must not be written or made,
	// by its real path below Root and what is there now (nil: nothing, or not yet
	// known); empty: it may.
	Refuse func(path string, info fs.FileInfo) string
	// Readable reports whether a file, by its real path, may be read.
	Readable func(path string) bool
}

// find finds the file to change that path leads to. make has the directories
// above it made where they are missing.
func (f *Files) find(path string, make bool) (target, error) {
	switch b := f.bounds; {
	case b != nil && (!b.Write || b.Root == ""):
		return target{}, fail(Denied, "%s: the sandbox lets nothing be written.", path)
	case b != nil:
		return b.find(path, make)
	case make:
		return resolve(path, makeParents)
	}
	return resolve(path, asTheyAre)
}

// mayRead is the error for an open file that lies outside of the bounds.
func (f *Files) mayRead(file *os.File, path string) error {
	if f.bounds == nil {
		return nil
	}
	real, err := os.Readlink(link(file))
	if err != nil {
		return unreadable(err, path)
	}
	if !f.bounds.Readable(real) {
		return fail(Denied, "%s: the sandbox lets only files below the directory to work in and those of the system be read.", path)
	}
	return nil
}

// link is a path that leads to an open file, wherever that is by now.
func link(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

// find finds a file below the root.
func (b *Bounds) find(path string, make bool) (target, error) {
	root, err := OpenRoot(b.Root)
	if err != nil {
		return target{}, err
	}
	defer root.Close()
	name, ok := b.below(path)
	for range linksMax {
		if !ok {
			return target{}, b.outside(path)
		}
		t, to, err := b.step(root, name, make)
		if err != nil || to == "" {
			return t, b.judge(err, path)
		}
		t.close()
		if filepath.IsAbs(to) {
			name, ok = b.below(to)
		} else {
			dir, _ := filepath.Split(name)
			name = dir + to
		}
	}
	return target{}, syscall.ELOOP
}

// OpenRoot opens the directory at path, which is absolute and must be free of
// symbolic links, also now.
func OpenRoot(path string) (*os.Root, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	dir, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	defer dir.Close()
	if real, err := os.Readlink(link(dir)); err != nil || real != path {
		return nil, errors.Join(fail(Denied, "%s was moved: nothing is written there.", path), root.Close())
	}
	return root, nil
}

// below is the path from the root, which ".." and symbolic links may still lead
// out of.
func (b *Bounds) below(path string) (name string, ok bool) {
	if name, ok = strings.CutPrefix(path, b.Root+"/"); ok {
		return strings.TrimLeft(name, "/"), true
	}
	dir, base := filepath.Split(path)
	real, err := filepath.EvalSymlinks(dir) // the root by another name
	if err != nil {
		return "", false
	}
	name, err = filepath.Rel(b.Root, filepath.Join(real, base))
	return name, err == nil && filepath.IsLocal(name)
}

// step finds the file of that name, or where the symbolic link in its place
// leads. Its directory stays open in the target.
func (b *Bounds) step(root *os.Root, name string, make bool) (t target, to string, err error) {
	dir, base := filepath.Split(name)
	dir = filepath.Clean(dir) // "" is "."
	if base == "" || base == "." || base == ".." {
		return target{}, "", &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	}
	if make {
		if err := b.makeAll(root, dir); err != nil {
			return target{}, "", err
		}
	}
	if t.dir, err = root.Open(dir); err != nil {
		return target{}, "", err
	}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	real, err := os.Readlink(link(t.dir))
	if err != nil {
		return t, "", err
	}
	t.path, t.at = filepath.Join(real, base), link(t.dir)+"/"+base
	if err = b.allowed(t.path, nil); err != nil {
		return t, "", err
	}
	if to, err = os.Readlink(t.at); err == nil {
		return t, to, nil
	}
	if err = b.fill(&t); err == nil {
		err = b.allowed(t.path, t.info)
	}
	return t, "", err
}

// makeAll makes a directory and those above it where they are missing and may be
// made.
func (b *Bounds) makeAll(root *os.Root, dir string) error {
	fi, err := root.Stat(dir)
	if err == nil && !fi.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := b.makeAll(root, filepath.Dir(dir)); err != nil {
		return err
	}
	above, err := root.Open(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer above.Close()
	real, err := os.Readlink(link(above))
	if err == nil {
		err = b.allowed(filepath.Join(real, filepath.Base(dir)), nil)
	}
	if err == nil {
		err = root.Mkdir(dir, 0o777)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil // somebody else was faster
	}
	return err
}

// allowed is the error for a path, free of symbolic links, that is protected.
func (b *Bounds) allowed(path string, info fs.FileInfo) error {
	if why := b.Refuse(path, info); why != "" {
		return fail(Denied, "%s", why)
	}
	return nil
}

// fill looks at what a target is now.
func (b *Bounds) fill(t *target) error {
	fi, err := os.Lstat(t.at)
	if err == nil {
		t.info, t.id = fi, identityOf(fi)
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir, err := t.dir.Stat()
	if err == nil {
		t.id = identityOf(dir)
		t.id.name = filepath.Base(t.path)
	}
	return err
}

// judge makes the refusal of os.Root, which is no error of the system, one that
// says what is wrong.
func (b *Bounds) judge(err error, path string) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		if _, system := e.Err.(syscall.Errno); !system && !errors.Is(err, fs.ErrNotExist) {
			return b.outside(path)
		}
	}
	return err
}

// outside is the error of a path that leads out of the root.
func (b *Bounds) outside(path string) error {
	return fail(Denied, "%s lies outside of %s, and the sandbox lets nothing else be written.", path, b.Root)
}
