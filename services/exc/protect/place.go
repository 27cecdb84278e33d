package protect

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
	// linksMax is the number of symbolic links that are followed, as in Linux.
	linksMax = 40
	// placesMax bounds the places of a set that are mounted: each takes a
	// descriptor, and room in the argument that hands the plan of a run to its
	// supervisor.
	placesMax = 1000
	// readMax is the size in bytes of the largest file that is read.
	readMax = 16 << 20
)

// want is a path to protect.
type want struct {
	path  string
	git   bool // git obeys it
	repl  bool // it belongs to a REPL directory
	live  bool // Zino writes to it meanwhile: its content is not compared
	loose bool // no mount: it may be moved and removed, its content is put back
}

// place is a path below the root on which the meaning of a protected path
// depends: what the path leads to (End), or a directory or symbolic link on the
// way there. No directory above it is a symbolic link.
type place struct {
	Path string
	End  bool
	Link string // target of the symbolic link at Path; empty: there is none
	Git  bool   `json:",omitzero"`

	repl, live, loose bool
	info              fs.FileInfo // before the run; nil: there was nothing
	mount             bool        // it is mounted read-only for this run
	file              *os.File    // O_PATH: keeps the inode number from being used again
	saved             map[string]saved
}

// look returns what is at a path now.
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

// readRegular reads a regular file. Anything else, which code can put there at
// any time, is an error at once: opening it could block.
func readRegular(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > readMax) {
		err = fmt.Errorf("%s: not a regular file of up to %d MiB", path, readMax>>20)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, readMax))
}

// fixed reports whether a read-only mount can protect the place.
func (p *place) fixed() bool { return p.End && p.info != nil && !p.loose }

// held reports whether the place is a directory that must stay where it is.
func (p *place) held() bool { return !p.End && p.info != nil && p.info.IsDir() && !p.loose }

// survey lists the places of paths below root, sorted: directories before what
// is in them. What lies in a read-only directory is left out.
func survey(root string, wants []want) (list []*place, err error) {
	found := map[string]*place{}
	for _, w := range wants {
		if err := noteWay(w, root, found); err != nil {
			return nil, err
		}
	}
	mounts := 0
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if p := found[path]; covering(path, root, found) == nil {
			list = append(list, p)
			if p.fixed() || p.held() {
				mounts++
			}
		}
	}
	if mounts > placesMax {
		return nil, fmt.Errorf("%s has more than %d places to protect: work in a part of it", root, placesMax)
	}
	return list, nil
}

// covering returns the place of a directory that protects a path with all that
// is in it, nil if there is none.
func covering(path, root string, found map[string]*place) *place {
	for dir := filepath.Dir(path); len(dir) > len(root); dir = filepath.Dir(dir) {
		if p := found[dir]; p != nil && p.fixed() {
			return p
		}
	}
	return nil
}

// noteWay adds the places of one path that lie below root.
func noteWay(w want, root string, found map[string]*place) error {
	at, rest := "/", strings.Trim(w.path, "/")
	for links := 0; rest != "" && links <= linksMax; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		path := filepath.Join(at, name)
		below := path != root && confine.Within(path, root)
		now, err := look(path)
		if err != nil && !below {
			return nil // code does not reach it either
		}
		if err != nil {
			return fmt.Errorf("a protected path cannot be inspected: %w", err)
		}
		if below {
			p := found[path]
			if p == nil {
				p = &place{Path: path, Link: now.Link, info: now.info, loose: true}
				found[path] = p
			}
			p.End = p.End || rest == "" && now.Link == ""
			p.Git, p.repl, p.live = p.Git || w.git, p.repl || w.repl, p.live || w.live
			p.loose = p.loose && w.loose
		}
		if now.Link == "" {
			at = path
			continue
		}
		links++
		if filepath.IsAbs(now.Link) {
			at = "/"
		}
		rest = strings.Trim(now.Link+"/"+rest, "/")
	}
	return nil
}

// openAt opens a path on which there must be no symbolic links.
func openAt(dir int, path string, flags uint64) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_NOFOLLOW | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(dir, path, &how)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
