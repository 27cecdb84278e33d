package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"zino/pkg/replfile"
)

// scanMax bounds a scan: that many names are read, those of upper directories
// first.
const scanMax = 250_000

// agentsName is the file whose text becomes part of prompts.
const agentsName = "AGENTS.md"

// packages contain what package managers unpack, including AGENTS.md of others,
// which is not protected there.
const packages = "node_modules"

// findings are the paths that a scan of a root has found.
type findings struct {
	git     []string // named .git, of any type
	layouts []string // directories that git takes for a repository without a work tree
	agents  []string // AGENTS.md below the root, regular files and symbolic links
	repls   []string // REPL directories
	linked  []string // names of the files that scanFor looks for
	cut     bool     // scanMax was reached
}

// scanChunk is the number of directories for each worker.
const scanChunk = 64

// scanner looks through a part of the directories of one level. Two scans are
// most of the cost of a small command in a large root: directories are read
// without package os, which makes a third more system calls.
type scanner struct {
	findings
	root   *os.File
	left   *atomic.Int64 // names that may still be read
	wanted map[File]bool // files to look for; nil: none
	below  []string      // directories of the next level
	locked []string      // directories that cannot be opened
	buf    []byte
}

// scan looks through the directories below root, breadth first, and reads about
// max names. It neither follows symbolic links nor descends into repositories.
func scan(root *os.File, max int64) findings { return scanFor(root, max, nil) }

// scanFor scans and looks for the names of certain files, too.
func scanFor(root *os.File, max int64, wanted map[File]bool) (f findings) {
	var left atomic.Int64
	left.Store(max)
	for level := []string{"."}; len(level) > 0 && left.Load() > 0; {
		parts := make([]*scanner, min(runtime.GOMAXPROCS(0), len(level)/scanChunk+1))
		var all sync.WaitGroup
		for i := range parts {
			s := &scanner{root: root, left: &left, wanted: wanted, buf: make([]byte, 32<<10)}
			parts[i] = s
			own := level[i*len(level)/len(parts) : (i+1)*len(level)/len(parts)]
			all.Go(func() {
				for _, rel := range own {
					s.visit(rel)
				}
			})
		}
		all.Wait()
		level = nil
		for _, s := range parts {
			s.unlock()
			level = append(level, s.below...)
			f.git, f.layouts = append(f.git, s.git...), append(f.layouts, s.layouts...)
			f.agents, f.repls = append(f.agents, s.agents...), append(f.repls, s.repls...)
			f.linked = append(f.linked, s.linked...)
			f.cut = f.cut || s.cut
		}
	}
	f.cut = f.cut || left.Load() <= 0
	return f
}

// visit reads one directory.
func (s *scanner) visit(rel string) {
	if err := s.read(int(s.root.Fd()), rel, rel); errors.Is(err, fs.ErrPermission) {
		s.locked = append(s.locked, rel)
	} else {
		s.miss(err)
	}
}

// unlock reads the directories whose permissions code may have removed. No other
// worker may run: it would see permissions that are granted for a moment.
func (s *scanner) unlock() {
	for _, rel := range s.locked {
		s.miss(within(s.root, rel, func(dir *os.File) error { return s.read(int(dir.Fd()), ".", rel) }))
	}
}

// miss notes a directory that could not be read although it may contain something.
// After other errors this user cannot look there, or it is gone.
func (s *scanner) miss(err error) {
	s.cut = s.cut || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENAMETOOLONG)
}

// read notes the entries of a directory, whose path below the root is rel.
func (s *scanner) read(at int, name, rel string) error {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	dir, err := unix.Openat2(at, name, &how)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	var l layout
	for s.left.Load() > 0 {
		n, err := unix.Getdents(dir, s.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			break
		}
		for entries := s.buf[:n]; len(entries) > 0; {
			// struct linux_dirent64: ino, off, reclen at 16, type at 18, name.
			size := int(binary.NativeEndian.Uint16(entries[16:]))
			name, _, _ := bytes.Cut(entries[19:size], []byte{0})
			s.note(dir, rel, string(name), entries[18], &l)
			entries = entries[size:]
		}
	}
	if l.complete() {
		s.layouts = append(s.layouts, filepath.Join(s.root.Name(), rel))
	}
	return nil
}

// note notes one entry of an open directory.
func (s *scanner) note(dir int, rel, name string, kind byte, l *layout) {
	if name == "." || name == ".." {
		return
	}
	s.left.Add(-1)
	if kind == unix.DT_UNKNOWN { // the file system does not say
		kind = kindOf(dir, name)
	}
	l.note(name)
	if s.wanted != nil && kind == unix.DT_REG && s.wanted[fileAt(dir, name)] {
		s.linked = append(s.linked, filepath.Join(s.root.Name(), rel, name))
	}
	switch path := func() string { return filepath.Join(s.root.Name(), rel, name) }; {
	case strings.EqualFold(name, ".git"):
		s.git = append(s.git, path())
	case name == agentsName && rel != "." && kind != unix.DT_DIR && !inPackages(rel):
		s.agents = append(s.agents, path())
	case name == replfile.Name && kind != unix.DT_DIR && isREPL(dir):
		s.repls = append(s.repls, filepath.Dir(path()))
	case kind == unix.DT_DIR && rel == ".":
		s.below = append(s.below, name)
	case kind == unix.DT_DIR:
		s.below = append(s.below, rel+"/"+name)
	}
}

// kindOf is the type of an entry as in struct dirent.
func kindOf(dir int, name string) byte {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return unix.DT_UNKNOWN
	}
	return byte(st.Mode & unix.S_IFMT >> 12)
}

// fileAt is the identity of an entry that is a file, zero if it is gone.
func fileAt(dir int, name string) File {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return File{}
	}
	return File{st.Dev, st.Ino, uint64(st.Nlink)}
}

// inPackages reports whether a path has a component node_modules.
func inPackages(rel string) bool { return strings.Contains("/"+rel+"/", "/"+packages+"/") }

// layout says which of the entries exist by which git recognizes a repository.
type layout struct{ head, objects, refs, common bool }

func (l *layout) note(name string) {
	l.head = l.head || name == "HEAD"
	l.objects = l.objects || name == "objects"
	l.refs = l.refs || name == "refs"
	l.common = l.common || name == "commondir"
}

// complete reports whether git takes the directory for a repository.
func (l *layout) complete() bool { return l.head && (l.common || l.objects && l.refs) }

// layoutOf looks at a directory by its path.
func layoutOf(dir string) (l layout) {
	for _, name := range []string{"HEAD", "objects", "refs", "commondir"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			l.note(name)
		}
	}
	return l
}

// within calls do with a directory below an open one. path must not contain
// symbolic links.
func within(dir *os.File, path string, do func(dir *os.File) error) error {
	if path == "." {
		return permitted(dir, func() error { return do(dir) })
	}
	next, err := openAt(int(dir.Fd()), path, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		defer next.Close()
		return permitted(next, func() error { return do(next) })
	}
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	first, rest, deeper := strings.Cut(path, "/") // a directory on the way lacks permissions
	return permitted(dir, func() error {
		next, err := openAt(int(dir.Fd()), first, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer next.Close()
		if !deeper {
			rest = "."
		}
		return within(next, rest, do)
	})
}

// permitted calls do for a directory. If this user lacks the permissions for it,
// which code can remove, they are granted for the time of the call.
func permitted(dir *os.File, do func() error) error {
	err := do()
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	const all = 0o700
	info, failed := dir.Stat()
	if failed != nil || info.Mode().Perm()&all == all {
		return err
	}
	if os.Chmod(throughFD(dir), info.Mode()|all) != nil {
		return err
	}
	return errors.Join(do(), os.Chmod(throughFD(dir), info.Mode()))
}

// throughFD is a path to an open file, even if it was moved.
func throughFD(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }
