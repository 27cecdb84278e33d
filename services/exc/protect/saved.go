package protect

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// savedMax and savedBytes bound what a set keeps of files that no mount protects.
const (
	savedMax   = 10_000
	savedBytes = 64 << 20
)

// unwatched are directories of a repository that choose no program. They may be
// large, and a repository's history does not change with them.
var unwatched = map[string]bool{"objects": true, "logs": true, "lfs": true}

// saved is a file as it was before the run.
type saved struct {
	info fs.FileInfo // nil: it was not kept
	sum  [32]byte
	data []byte
	link string
}

// budget is what may still be kept.
type budget struct{ files, bytes int }

// keep remembers what is in a place: its identity, and the content of files that
// code could change: those without a mount, and those with further names.
func (s *Set) keep(p *place, b *budget) (err error) {
	if p.info == nil || !p.End {
		return nil
	}
	if p.mount = s.o.Mounts && p.fixed(); p.fixed() {
		if p.file, err = openAt(unix.AT_FDCWD, p.Path, unix.O_PATH); err != nil {
			return err
		}
	}
	if p.live {
		return nil
	}
	p.saved = map[string]saved{}
	if p.info.Mode().IsRegular() {
		was, err := save(p.Path, p.info, b)
		if err == nil {
			p.saved[""] = was
			if filepath.Base(p.Path) == agentsName {
				s.known[was.sum] = true
			}
		}
		return nil // what cannot be read is compared by its times
	}
	return s.walk(p, p.Path, func(rel string, info fs.FileInfo) {
		if p.mount && info.Sys().(*syscall.Stat_t).Nlink < 2 {
			return
		}
		if was, err := save(filepath.Join(p.Path, rel), info, b); err == nil {
			p.saved[rel] = was
		}
	})
}

// save keeps a regular file or a symbolic link.
func save(path string, info fs.FileInfo, b *budget) (was saved, err error) {
	if b.files--; b.files < 0 || b.bytes < 0 {
		return was, unix.ENOBUFS
	}
	was.info = info
	if info.Mode()&fs.ModeSymlink != 0 {
		was.link, err = os.Readlink(path)
		return was, err
	}
	if was.data, err = readRegular(path); err == nil {
		b.bytes -= len(was.data)
		was.sum = sha256.Sum256(was.data)
	}
	return was, err
}

// walk calls do with the files in a place that is a directory, by their paths
// below it. at is where the directory is now. What Zino writes to is left out.
func (s *Set) walk(p *place, at string, do func(rel string, info fs.FileInfo)) error {
	return filepath.WalkDir(at, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		rel, err := filepath.Rel(at, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p.Git && (unwatched[d.Name()] || p.mount && d.Name() == "refs") || slices.Contains(s.o.Live, filepath.Join(p.Path, rel)) {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err == nil && (info.Mode().IsRegular() || info.Mode()&fs.ModeSymlink != 0) {
			do(rel, info)
		}
		return nil
	})
}

// untouched reports whether nobody can have changed a file since it was kept:
// the kernel sets the time of the last change.
func (was saved) untouched(now fs.FileInfo) bool {
	if was.info == nil {
		return false
	}
	a, b := was.info.Sys().(*syscall.Stat_t), now.Sys().(*syscall.Stat_t)
	return a.Dev == b.Dev && a.Ino == b.Ino && a.Size == b.Size && a.Mtim == b.Mtim && a.Ctim == b.Ctim
}

// equal reports whether a file at path says what the kept one did.
func (was saved) equal(path string, now fs.FileInfo) bool {
	switch {
	case was.info == nil || was.info.Mode().Type() != now.Mode().Type():
		return false
	case was.untouched(now):
		return true
	case was.link != "":
		to, err := os.Readlink(path)
		return err == nil && to == was.link
	}
	data, err := readRegular(path)
	return err == nil && sha256.Sum256(data) == was.sum
}
