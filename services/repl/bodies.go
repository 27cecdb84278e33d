package repl

import (
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"zino/services/repl/page"
)

// lastBody returns the highest number of the overflow files in a directory.
func (s *Service) lastBody(dir string) (highest int) {
	names, err := s.dir.Names(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("cannot list long results", "dir", dir, "error", err)
	}
	for _, name := range names {
		number, ok := strings.CutSuffix(name, ".txt")
		if n, err := strconv.Atoi(number); ok && err == nil {
			highest = max(highest, n)
		}
	}
	return highest
}

// keep stores the long bodies of a transition before the edit that refers to them. mu
// is locked.
func (l *pageLog) keep(actions []page.Action) error {
	for _, action := range actions {
		a, ok := action.(page.Keep)
		if !ok {
			continue
		}
		if body, ok := l.kept[a.File]; ok {
			if body == a.Body {
				continue // by an earlier try of this transition
			}
			if err := l.s.dir.Remove(a.File); err != nil {
				return err
			}
			delete(l.kept, a.File)
		}
		if err := errors.Join(l.s.dir.Make(logDir), l.s.dir.Make(path.Dir(a.File))); err != nil {
			return err
		}
		// A file that exists is another program's and is never overwritten.
		if err := l.s.dir.Create(a.File, a.Body); err != nil {
			return err
		}
		if l.kept == nil {
			l.kept = map[string]string{}
		}
		l.kept[a.File] = a.Body
	}
	return nil
}

// dropKept removes the bodies of a transition that was not made. mu is locked.
func (l *pageLog) dropKept() {
	for file := range l.kept {
		if err := l.s.dir.Remove(file); err != nil {
			l.s.log.Warn("cannot remove a long result that nothing refers to", "file", file, "error", err)
		}
	}
	l.kept = nil
}
