package gate

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"zino/pkg/realpath"
	"zino/proto"
)

// DeniedPaths are the paths that rules deny to the tools of files, for the confinement of
// commands. They have no symbolic links.
type DeniedPaths struct {
	Read  []string // existing ones that may not be read
	Write []string // below the root, existing or not, that may not be changed
	Root  string   // why commands cannot work in the root, "" if they can
	Gaps  []string // what could not be resolved, for people
}

const (
	// scanMax limits the files that are looked at to resolve the patterns of a call.
	scanMax = 50000
	// deniedMax limits the paths that are found.
	deniedMax = 500
)

// DeniedPaths returns what rules deny to the tools of files within dirs: the directories
// that commands of the turn see at a level of confinement. dirs and root have no symbolic
// links.
func (g *Guard) DeniedPaths(t Turn, root string, level proto.Level, dirs []string) DeniedPaths {
	who := g.person(t.By)
	return g.policy.deniedPaths(&Call{Root: root, Sandbox: level, UID: t.By, User: who.name, Home: who.home}, dirs)
}

func (p *Policy) deniedPaths(c *Call, dirs []string) (d DeniedPaths) {
	s := &denial{call: c, dirs: dirs, left: scanMax}
	builtin, host, user := p.Files()
	for _, s.file = range []*File{builtin, host, user} {
		for i := range s.file.Rules {
			if s.rule = &s.file.Rules[i]; s.rule.Action != Deny || len(s.rule.Paths) == 0 {
				continue
			}
			s.read, s.write = s.denies("read"), s.denies("write") || s.denies("edit")
			for _, pattern := range s.rule.Paths {
				s.resolve(pattern)
			}
		}
	}
	return s.found
}

// denial is the search for the paths of rules.
type denial struct {
	call  *Call
	dirs  []string
	left  int // files that may still be looked at
	found DeniedPaths

	file        *File
	rule        *Rule
	read, write bool // what it denies
}

// denies reports whether the rule is for a tool of files.
func (s *denial) denies(tool string) bool {
	anywhere := *s.rule
	anywhere.Paths = nil
	return anywhere.match(s.call, &part{tool: tool}, location{})
}

// resolve adds the paths of a pattern.
func (s *denial) resolve(pattern pathPattern) {
	if !s.read && !s.write {
		return
	}
	absolute := pattern.absolute(location{root: s.call.Root, home: s.call.Home})
	if absolute == "" {
		if strings.HasPrefix(string(pattern.text), "~") {
			s.gap(pattern, "the home directory is unknown")
		}
		return
	}
	base, rest := doublestar.SplitPattern(absolute)
	if !hasMeta(rest) {
		base, rest = path.Join(base, rest), ""
	}
	real, _, err := realpath.Follow(base)
	if err != nil {
		return // not reached by commands either
	}
	switch {
	case rest == "" || rest == "**":
		s.add(pattern, base, real)
	case s.leads(real):
		s.scan(pattern, real, rest)
	}
}

func hasMeta(pattern string) bool { return strings.ContainsAny(pattern, `*?[{\`) }

// below reports whether a path is a directory or lies below it.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// sees reports whether commands see a path.
func (s *denial) sees(path string) bool {
	return slices.ContainsFunc(s.dirs, func(dir string) bool { return below(path, dir) })
}

// leads reports whether commands see a path, or something below it.
func (s *denial) leads(path string) bool {
	return s.sees(path) || slices.ContainsFunc(s.dirs, func(dir string) bool { return below(dir, path) })
}

// scan adds what matches a pattern below a directory, the nearest first. What matches is
// not searched itself.
func (s *denial) scan(pattern pathPattern, base, rest string) {
	// Up to the first ** or brace each part of the pattern is one of a path.
	parts := strings.Split(rest, "/")
	fixed := slices.IndexFunc(parts, func(part string) bool { return strings.Contains(part, "**") || strings.Contains(part, "{") })
	open := fixed >= 0
	if !open {
		fixed = len(parts) - 1
	}
	for queue := []string{""}; len(queue) > 0; queue = queue[1:] {
		dir := queue[0] // below base
		entries, err := os.ReadDir(filepath.Join(base, dir))
		if err != nil {
			continue // nor can commands read it
		}
		if s.left -= len(entries); s.left < 0 {
			s.gap(pattern, fmt.Sprintf("more than %d files to look at", scanMax))
			return
		}
		depth := 0
		if dir != "" {
			depth = strings.Count(dir, "/") + 1
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			if doublestar.MatchUnvalidated(rest, name) {
				file := filepath.Join(base, name)
				if real, err := filepath.EvalSymlinks(file); err == nil {
					s.add(pattern, file, real)
				}
				continue
			}
			if e.IsDir() && (open || depth < fixed) && (depth >= fixed || doublestar.MatchUnvalidated(parts[depth], e.Name())) &&
				s.leads(filepath.Join(base, name)) {
				queue = append(queue, name)
			}
		}
	}
}

// add adds a path that matches the pattern, as far as the rule decides about it.
func (s *denial) add(pattern pathPattern, name, real string) {
	root := s.call.Root
	decides := func(name, real string, tools ...string) bool {
		at := location{path: name, real: real, root: root, home: s.call.Home}
		return slices.ContainsFunc(tools, func(tool string) bool {
			rule, _ := s.file.first(s.call, &part{tool: tool, path: name}, at)
			return rule == s.rule
		})
	}
	read := s.read && decides(name, real, "read")
	write := s.write && decides(name, real, "write", "edit")
	_, err := os.Lstat(real)
	exists, above := err == nil, root != "" && below(root, real) // or the root itself
	switch {
	case !s.leads(real) || !read && !write:
	case len(s.found.Read)+len(s.found.Write) >= deniedMax:
		s.gap(pattern, fmt.Sprintf("more than %d paths match rules", deniedMax))
	case read && above && decides(root, root, "read"):
		s.found.Root = fmt.Sprintf("%s:%d denies %s", s.file.Path, s.rule.Line, pattern)
	case read && (above || !s.sees(real)):
		s.gap(pattern, "commands need directories below "+real)
	case read && exists:
		s.found.Read = append(s.found.Read, real)
	case write && above:
		s.gap(pattern, "except at the level read-only commands can write below "+root)
	case write && root != "" && below(real, root):
		s.found.Write = append(s.found.Write, real)
	}
}

// gap adds why not all of a pattern is found, once.
func (s *denial) gap(pattern pathPattern, why string) {
	text := fmt.Sprintf("%s:%d: %s: %s", s.file.Path, s.rule.Line, pattern, why)
	if !slices.Contains(s.found.Gaps, text) {
		s.found.Gaps = append(s.found.Gaps, text)
	}
}
