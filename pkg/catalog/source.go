package catalog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	suffix  = ".json"
	maxFile = 1 << 20

	// settled is the age from which a time stamp is trusted: a younger file may be
	// written again without a change of the time stamp.
	settled = 2 * time.Second
)

// source is one of the two directories, and its state when it was last read.
type source struct {
	dir     string
	entries []entry
	failed  string // why the directory could not be listed
	fresh   bool   // a file was too young to trust its time stamp
}

// entry is a candidate in a directory.
type entry struct {
	name string
	info fs.FileInfo // of the target of a link; nil if stat failed
}

func (e entry) same(o entry) bool {
	if e.name != o.name || (e.info == nil) != (o.info == nil) {
		return false
	}
	return e.info == nil || os.SameFile(e.info, o.info) && e.info.Size() == o.info.Size() &&
		e.info.ModTime().Equal(o.info.ModTime()) && e.info.Mode() == o.info.Mode()
}

// list returns the files of a directory that may be definitions, in byte
// order of their names.
func list(dir string) ([]entry, error) {
	if dir == "" {
		return nil, nil
	}
	all, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var entries []entry
	for _, d := range all {
		if strings.HasPrefix(d.Name(), ".") || !strings.HasSuffix(d.Name(), suffix) {
			continue
		}
		info, statErr := os.Stat(filepath.Join(dir, d.Name()))
		if statErr != nil {
			info = nil
		} else if info.IsDir() {
			continue
		}
		entries = append(entries, entry{d.Name(), info})
	}
	return entries, err
}

// changed reports whether the directory must be read again.
func (s *source) changed() bool {
	entries, err := list(s.dir)
	return s.fresh || s.failed != text(err) || !slices.EqualFunc(entries, s.entries, entry.same)
}

// look lists the directory and records its state.
func (s *source) look() ([]entry, error) {
	entries, err := list(s.dir)
	s.entries, s.failed, s.fresh = entries, text(err), false
	for _, e := range entries {
		if e.info != nil {
			age := time.Since(e.info.ModTime())
			s.fresh = s.fresh || 0 <= age && age < settled
		}
	}
	return entries, err
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// collect parses the files of a source into out.
func collect[T any](s *source, out *[]T, parse func(string, []byte) (T, error), problems *[]problem) {
	entries, err := s.look()
	if err != nil {
		*problems = append(*problems, newProblem(s.dir, nil, err))
	}
	for _, e := range entries {
		path := filepath.Join(s.dir, e.name)
		data, err := read(path)
		if gone(path, err) {
			continue
		}
		var v T
		if err == nil {
			v, err = parse(e.name, data)
		}
		if err != nil {
			*problems = append(*problems, newProblem(path, data, err))
			continue
		}
		*out = append(*out, v)
	}
}

// gone reports whether a file was deleted since it was listed. It is false for a
// dangling link.
func gone(path string, err error) bool {
	if !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	_, err = os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// read reads a regular file of at most maxFile bytes. With O_NONBLOCK, opening a named
// pipe does not block.
func read(path string) (data []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	data, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		return nil, fmt.Errorf("is larger than %d bytes", maxFile)
	}
	return data, err
}
