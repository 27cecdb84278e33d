package web

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// static serves a directory of files to every user of the host: nothing outside
// of it, no dotfile, no log of the REPL, no configuration, no key.
type static struct {
	root *os.Root
	dir  string // without symbolic links
	logs string // debug/ of the REPL, without symbolic links; debug.md is beside
}

func openStatic(dir, repl string) (*static, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	s := &static{root: root}
	if s.dir, err = realPath(dir); err == nil {
		s.logs, err = realPath(repl)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	s.logs = filepath.Join(s.logs, "debug")
	return s, nil
}

func (s *static) close() error { return s.root.Close() }

func realPath(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(name)
}

// errSlash is the error of a directory whose address does not end with a slash:
// what its page refers to would be searched beside it.
var errSlash = errors.New("a directory")

// errSecret and errLinked are the errors of files that are never served. A hard
// link may be a file from outside of the directory: nothing tells which of its
// names was first.
var (
	errSecret = errors.New("configuration files and keys are not served")
	errLinked = errors.New("a file with several names (hard links) is not served: copy it")
)

// find opens the file that an address stands for: for a directory's, its
// index.html.
func (s *static) find(address string) (*os.File, fs.FileInfo, error) {
	if strings.Contains(address, "//") { // a redirect to it would lead to another host
		return nil, nil, fs.ErrNotExist
	}
	name, isDir := strings.CutSuffix(address, "/")
	name = strings.TrimPrefix(name, "/")
	if isDir {
		name = path.Join(name, "index.html")
	}
	f, info, err := s.open(name)
	switch {
	case err != nil:
		return nil, nil, err
	case info.Mode().IsRegular():
		return f, info, nil
	case info.IsDir() && !isDir:
		return nil, nil, errors.Join(errSlash, f.Close())
	}
	return nil, nil, errors.Join(fs.ErrNotExist, f.Close())
}

// open opens whatever has that name in the directory.
func (s *static) open(name string) (*os.File, fs.FileInfo, error) {
	switch {
	case isSecret(name):
		return nil, nil, errSecret
	case !isPublic(name) || !s.isInside(name):
		return nil, nil, fs.ErrNotExist
	}
	f, err := s.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe would block
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && isLinked(info) {
		err = errLinked
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// isInside reports whether what a name leads to may be sent. Symbolic links are
// followed as long as they stay inside, so the name alone does not tell.
func (s *static) isInside(name string) bool {
	target, err := filepath.EvalSymlinks(filepath.Join(s.dir, filepath.FromSlash(name)))
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(s.dir, target)
	return err == nil && (rel == "." || isPublic(filepath.ToSlash(rel)) && !isSecret(rel)) && !s.isLog(target)
}

// isPublic reports whether a path may be asked for: a plain one, without
// dotfiles, and no logs of a REPL.
func isPublic(name string) bool {
	if !fs.ValidPath(name) || strings.ContainsAny(name, "\\\x00") {
		return false
	}
	for segment := range strings.SplitSeq(name, "/") {
		if segment[0] == '.' {
			return false
		}
	}
	first, _, _ := strings.Cut(strings.ToLower(name), "/")
	return first != "debug" && first != "debug.md"
}

// isSecret reports whether a path is that of a configuration of ours, or of what
// commonly holds a key.
func isSecret(name string) bool {
	switch base := strings.ToLower(path.Base(name)); path.Ext(base) {
	case ".key", ".pem", ".p12", ".pfx", ".env":
		return true
	default:
		return base == "zino.toml" || base == "config.toml"
	}
}

// isLinked reports whether a file has further names.
func isLinked(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return info.Mode().IsRegular() && (!ok || stat.Nlink > 1)
}

// isLog reports whether a file is one of the REPL's own.
func (s *static) isLog(target string) bool {
	return target == s.logs || target == s.logs+".md" || strings.HasPrefix(target, s.logs+string(filepath.Separator))
}
