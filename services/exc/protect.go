package exc

import (
	"bytes"
	"os"
	"path/filepath"

	"zino/pkg/config"
)

// Protect names files and directories of Zino's own, such as its configuration
// and its tools: confined code may neither change nor make them where they lie
// below the directory that it works in. It must be called before the first
// request.
func (s *Service) Protect(paths ...string) {
	s.sandbox.protected = append(s.sandbox.protected, absolutes(paths)...)
}

// ProtectConfig is Protect for all that a configuration names: itself, what
// makes the prompt, and what Zino remembers. Directories that Zino writes to are
// left alone while they are not there: it makes them when it needs them. A file
// that holds a key is not even shown.
func (s *Service) ProtectConfig(c *config.Config) {
	s.Protect(c.File, c.Tools.Dir, c.Skills.Dir, c.Sys.Template, c.Sys.SessionTemplate, c.SystemPromptFile, c.API.KeyFile)
	s.sandbox.secrets = append(s.sandbox.secrets, absolutes([]string{c.API.KeyFile})...)
	s.sandbox.data = append(s.sandbox.data, absolutes([]string{c.Mem.DataDir, c.Mem.SessionsDir, c.Rtr.DataDir})...)
}

// absolutes are the absolute paths of those that are not empty.
func absolutes(paths []string) (list []string) {
	for _, path := range paths {
		if abs, err := filepath.Abs(path); err == nil && path != "" {
			list = append(list, abs)
		}
	}
	return list
}

// protectedNames are files below a root that code is not to change, because
// what they say is obeyed outside of its confinement.
var protectedNames = []string{"AGENTS.md", config.FileName}

// protectedGit are those of a repository, below its directory.
var protectedGit = []string{"hooks", "config", "config.worktree", "commondir"}

// placesBelow are the places that confined code may not change below a root:
// the one list for commands and for the tools that work on files.
func (b *sandbox) placesBelow(root string) ([]place, error) {
	paths := append(b.hidden([]string{root}), b.protected...) // moved elsewhere, a secret would be none
	for _, name := range protectedNames {
		paths = append(paths, filepath.Join(root, name))
	}
	for _, dir := range b.data {
		if _, err := os.Stat(dir); err == nil {
			paths = append(paths, dir)
		}
	}
	return survey(root, append(paths, repository(filepath.Join(root, ".git"))...))
}

// protectedBelow are the paths below a root that nothing may be written to: all
// of its places but the directories on the way.
func (b *sandbox) protectedBelow(root string) (paths []string, err error) {
	places, err := b.placesBelow(root)
	for _, p := range places {
		if p.End || p.Link != "" {
			paths = append(paths, p.Path)
		}
	}
	return paths, err
}

// repository are the protected paths of a repository. Where there is none, code
// makes none either: what it would set there is obeyed by the user's next
// command.
func repository(git string) []string {
	fi, err := os.Stat(git)
	switch {
	case err != nil:
		return []string{git}
	case !fi.IsDir():
		return append(gitDirectory(elsewhere(git)), git)
	}
	return gitDirectory(git)
}

// elsewhere is the directory that the .git of a work tree leads to, as a file.
func elsewhere(git string) string {
	text, _ := readRegular(git) // what cannot be read leads nowhere
	dir, ok := bytes.CutPrefix(text, []byte("gitdir:"))
	if !ok {
		return ""
	}
	to := string(bytes.TrimSpace(dir))
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(git), to)
	}
	return to
}

// gitDirectory are the protected paths of a repository's directory, and of those
// of its submodules and work trees.
func gitDirectory(dir string) (paths []string) {
	if dir == "" {
		return nil
	}
	for _, name := range protectedGit {
		paths = append(paths, filepath.Join(dir, name))
	}
	for _, name := range []string{"modules", "worktrees"} {
		paths = append(paths, gitDirectories(filepath.Join(dir, name))...)
	}
	return paths
}

// gitDirectories are the protected paths of the repositories in a directory,
// whose names may have several parts. Links are not followed: they could lead
// in circles.
func gitDirectories(dir string) (paths []string) {
	if fi, err := os.Lstat(dir); err != nil || !fi.IsDir() {
		return nil
	}
	entries, _ := os.ReadDir(dir) // what cannot be listed is not obeyed either
	for _, e := range entries {
		sub := filepath.Join(dir, e.Name())
		if _, err := os.Lstat(filepath.Join(sub, "HEAD")); err == nil && e.IsDir() {
			paths = append(paths, gitDirectory(sub)...)
		} else if e.IsDir() {
			paths = append(paths, gitDirectories(sub)...)
		}
	}
	return paths
}
