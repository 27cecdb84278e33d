package exc

import (
	"slices"

	"zino/pkg/environ"
	"zino/services/exc/confine"
	"zino/services/exc/files"
)

// bounded are the file tools of a level.
func (s *Service) bounded(level string, c client) (*files.Files, error) {
	if level == levelOff {
		return s.tools, nil
	}
	real, err := s.workRoot(c.root)
	if err != nil {
		return nil, &refusal{level, err}
	}
	bounds := files.Bounds{Root: real, Write: level != levelReadOnly, Readable: s.mayRead(real, environ.Get(c.env, "PATH"))}
	if real != "" {
		if bounds.Protected, err = s.sandbox.protectedBelow(real); err != nil {
			return nil, &refusal{level, err}
		}
	}
	return s.tools.Within(bounds), nil
}

// mayRead reports what confined code could read, by a file's real path.
func (s *Service) mayRead(root, path string) func(path string) bool {
	given := append(s.sandbox.system("", path), s.outputs.places()...)
	if root != "" {
		given = append(given, root)
	}
	hidden := s.sandbox.hidden(given)
	return func(path string) bool {
		within := func(dir string) bool { return confine.Within(path, dir) }
		return slices.ContainsFunc(given, within) && !slices.ContainsFunc(hidden, within)
	}
}
