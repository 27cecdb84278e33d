package repl

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"zino/proto"
	"zino/services/repl/page"
	"zino/services/repl/tail"
)

// splitLogName splits the file name of a log into the page's name and id.
func splitLogName(file string) (name, id string, ok bool) {
	base, ok := strings.CutSuffix(file, ".md")
	i := strings.LastIndexByte(base, '-')
	if !ok || i < 1 || !page.IsShortID(base[i+1:]) || page.Sanitize(base[:i]) != base[:i] {
		return "", "", false
	}
	return base[:i], base[i+1:], true
}

// logNames returns the name of the log on disk of each id. Of several logs of an id,
// which earlier versions wrote, it is the one that was written last.
func (s *Service) logNames() (map[string]string, error) {
	files, err := s.dir.Names(logDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return s.namesOf(files), nil
}

// namesOf returns the names of logNames for a list of files.
func (s *Service) namesOf(files []string) map[string]string {
	names, stamps := make(map[string]string, len(files)), map[string]tail.Stamp{}
	stampOf := func(name, id string) tail.Stamp {
		stamp, err := s.dir.Stat(logDir + "/" + name + "-" + id + ".md")
		if err != nil {
			return tail.Stamp{} // removed meanwhile, or not a regular file
		}
		return stamp
	}
	files = slices.Sorted(slices.Values(files))
	for _, file := range files {
		name, id, ok := splitLogName(file)
		if !ok {
			continue
		}
		other, double := names[id]
		if double {
			if _, ok := stamps[id]; !ok {
				stamps[id] = stampOf(other, id)
			}
			stamp := stampOf(name, id)
			if stamp.Before(stamps[id]) {
				continue
			}
			stamps[id] = stamp
		}
		names[id] = name
	}
	return names
}

// newID returns an id that no page and no log has, of four digits if there is one.
// names are those of logNames.
func (s *Service) newID(names map[string]string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for length := 4; ; length = min(length+1, 8) {
		id := random(4)[:length]
		if s.live[id] == nil && s.logs[id] == nil && names[id] == "" {
			return id
		}
	}
}

// connectedLog returns the log of a connected page: by its id, by its name or title
// with its id, or by a name or title that it alone has.
func (s *Service) connectedLog(name string) (*pageLog, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.live[name]; p != nil && p.ready {
		return p.log, nil
	}
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		if p := s.live[name[i+1:]]; p != nil && p.ready && p.isCalled(name[:i]) {
			return p.log, nil
		}
	}
	var found []string
	var one *pageLog
	for _, p := range s.live {
		if p.ready && p.isCalled(name) {
			one, found = p.log, append(found, p.log.base)
		}
	}
	switch len(found) {
	case 0:
		return nil, notConnected(name)
	case 1:
		return one, nil
	}
	slices.Sort(found)
	return nil, &proto.Error{Code: proto.CodeInvalid, Message: fmt.Sprintf("%d pages are called %q. Say which one: %s", len(found), name, strings.Join(found, ", "))}
}

// isCalled reports whether a page has a name: that of its file, or its present title.
func (p *Page) isCalled(name string) bool {
	return name == p.attached.Name || p.title != "" && (name == p.title || name == page.Sanitize(p.title))
}

// knownLog returns the log of a connected page, or of a page that is gone.
func (s *Service) knownLog(name string) (*pageLog, error) {
	l, err := s.connectedLog(name)
	if !errors.Is(err, proto.ErrNotFound) {
		return l, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.logs {
		if l.base == name || l.id == name {
			return l, nil
		}
	}
	return nil, err
}

func notConnected(name string) *proto.Error {
	return &proto.Error{Code: proto.CodeNotFound, Message: fmt.Sprintf("No page %.100q is connected. debug.md lists those that are.", name)}
}
