package exc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"zino/services/exc/files"
)

// guard sees to files that code must not make: those that are protected and are
// not there, and symbolic links, neither of which can be made read-only.
// Whatever stands there after the run that was not there before is moved aside.
type guard struct {
	root  *os.Root
	links map[string]string // by the name below the root; empty: there was nothing
}

// newGuard takes down what is not there of paths below root. fixed are those
// that are and can be made read-only.
func newGuard(root string, paths []string) (g *guard, fixed []string, err error) {
	g = &guard{links: map[string]string{}}
	if g.root, err = files.OpenRoot(root); err != nil {
		return nil, nil, err
	}
	for _, path := range paths {
		name, err := filepath.Rel(root, path)
		if err != nil {
			continue // not below
		}
		real, err := filepath.EvalSymlinks(path)
		if err == nil && real == path {
			fixed = append(fixed, path)
			continue
		}
		g.links[name] = g.read(name)
		if err == nil && confinedTo(real, root) {
			fixed = append(fixed, real)
		}
	}
	return g, fixed, nil
}

// confinedTo reports whether a path that a link leads to lies below root.
func confinedTo(path, root string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel) && rel != "."
}

// read is where a symbolic link leads, empty if there is none.
func (g *guard) read(name string) string {
	to, err := g.root.Readlink(name)
	if err != nil {
		return ""
	}
	return to
}

// restore moves aside what was made. The errors say what could not be moved.
func (g *guard) restore() (errs []error) {
	for name, was := range g.links {
		if err := g.restoreOne(name, was); err != nil {
			errs = append(errs, err)
		}
	}
	if err := g.root.Close(); err != nil {
		errs = append(errs, err)
	}
	return errs
}

func (g *guard) restoreOne(name, was string) error {
	fi, err := g.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) && was == "" {
		return nil
	}
	if err == nil && fi.Mode()&fs.ModeSymlink != 0 && was != "" && g.read(name) == was {
		return nil
	}
	if err == nil {
		if err := g.moveAside(name); err != nil {
			return err
		}
	}
	if was != "" {
		return g.root.Symlink(was, name)
	}
	return nil
}

// moveAside gives a file a name that nobody obeys.
func (g *guard) moveAside(name string) error {
	for n := 1; n < 100; n++ {
		aside := name + ".refused-" + strconv.Itoa(n)
		if _, err := g.root.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			return g.root.Rename(name, aside)
		}
	}
	return fmt.Errorf("%s: too many of its kind were moved aside: remove them", name)
}
