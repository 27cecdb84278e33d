package protect

import (
	"path/filepath"
	"slices"
	"strings"

	"zino/services/exc/confine"
)

// refusals are what programs print, in lower case, when a read-only mount refuses
// a write, or a mount point is to be moved.
var refusals = []string{"read-only file system", "erofs", "errno 30", "device or resource busy", "ebusy"}

// explainMax is the number of explanations of one run.
const explainMax = 3

// Explain is why writes of a run to protected places were refused, in a line for
// each reason. A line of the run's outputs counts only if it has the kernel's
// reason and names a place that is mounted read-only; standard output only if
// the run failed.
func (s *Set) Explain(stdout, stderr string, failed bool) (lines []string) {
	if failed {
		stderr += "\n" + stdout
	}
	for line := range strings.Lines(stderr) {
		lower := strings.ToLower(line)
		if !slices.ContainsFunc(refusals, func(r string) bool { return strings.Contains(lower, r) }) {
			continue
		}
		for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\r\n'\"`:,()[]‘’«»", r) }) {
			if why := s.explain(word); why != "" && !slices.Contains(lines, why) && len(lines) < explainMax {
				lines = append(lines, why)
			}
		}
	}
	return lines
}

// explain is why a write to the path that a word may be was refused.
func (s *Set) explain(word string) string {
	for _, p := range s.places {
		base := filepath.Base(p.Path)
		switch {
		case !p.mount:
			continue
		case filepath.IsAbs(word) && !confine.Within(filepath.Clean(word), p.Path):
			continue
		case !filepath.IsAbs(word) && !strings.Contains("/"+word+"/", "/"+base+"/"):
			continue
		}
		rel, err := filepath.Rel(s.o.Root, p.Path)
		switch {
		case err != nil:
			return ""
		case p.repl:
			return replMessage
		case base == ".git":
			return gitMessage
		case p.Git:
			return rel + " is read-only in this sandbox, since git obeys it: only the user can change it, or a run with --sandbox off."
		}
		return rel + " is protected: the sandbox does not let it be changed."
	}
	return ""
}
