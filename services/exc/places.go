package exc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"zino/services/exc/confine"
)

const (
	// linksMax is how many symbolic links lead to a file at most, as in Linux.
	linksMax = 40
	// placesMax is how many places are watched at most: each takes a descriptor
	// or a mount.
	placesMax = 3000
)

// place is a path below a root on which it depends what a protected path means:
// what it leads to, and the directories and symbolic links on the way. No
// directory above it is a link.
type place struct {
	Path string
	End  bool        // it is what a protected path leads to
	Link string      // where the symbolic link there leads; empty: there is none
	info fs.FileInfo // nil: there is nothing
}

// look is what is at a path now.
func look(path string) (p place, err error) {
	p.Path = path
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return p, nil
	}
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		p.Link, err = os.Readlink(path)
	}
	p.info = info
	return p, err
}

// readMax is the size of the longest file that is read to see what it says.
const readMax = 16 << 20

// readRegular reads a regular file. Code may put anything else in its place at
// any time: that is not waited for.
func readRegular(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > readMax) {
		err = fmt.Errorf("%s is no file to be read here", path)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, readMax))
}

// fixed reports whether the place can be made read-only.
func (p place) fixed() bool { return p.End && p.info != nil }

// held reports whether the place is a directory that must stay where it is.
func (p place) held() bool { return !p.End && p.info != nil && p.info.IsDir() }

// survey lists the places of paths below root, sorted: what holds others comes
// before them.
func survey(root string, paths []string) (list []place, err error) {
	found := map[string]place{}
	for _, path := range paths {
		if err := noteWay(path, root, found); err != nil {
			return nil, err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if !covered(path, root, found) {
			list = append(list, found[path])
		}
	}
	return list, nil
}

// covered reports whether a path lies in a directory that is read-only with all
// that is in it.
func covered(path, root string, found map[string]place) bool {
	for dir := filepath.Dir(path); len(dir) > len(root); dir = filepath.Dir(dir) {
		if found[dir].fixed() {
			return true
		}
	}
	return false
}

// noteWay notes the places of one path that lie below root.
func noteWay(path, root string, found map[string]place) error {
	at, rest := "/", strings.Trim(path, "/")
	for links := 0; rest != "" && links <= linksMax; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		p, err := look(filepath.Join(at, name))
		below := p.Path != root && confine.Within(p.Path, root)
		if err != nil && !below {
			return nil // whatever lies there, code does not reach it
		}
		if err != nil {
			return fmt.Errorf("a protected path cannot be looked at: %w", err)
		}
		p.End = rest == "" && p.Link == "" || found[p.Path].End
		if below {
			found[p.Path] = p
		}
		if len(found) > placesMax {
			return fmt.Errorf("%s has more than %d places to protect: work in a part of it", root, placesMax)
		}
		if p.Link == "" {
			at = p.Path
			continue
		}
		links++
		if filepath.IsAbs(p.Link) {
			at = "/"
		}
		rest = strings.Trim(p.Link+"/"+rest, "/")
	}
	return nil
}
