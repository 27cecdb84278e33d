// Package protect keeps confined code from changing what is obeyed outside of
// its confinement: the repository with its hooks and configuration, AGENTS.md,
// Zino's own files, the files of other agents, the logs of zino repl.
//
// New computes the list before a run. Where the host gives namespaces, what is
// there is mounted read-only (ReadOnly, Held). After the run Check compares with
// what was there, scans the root for new repositories, quarantines what differs
// under another name, and reports it.
//
// What code may write and the user may run later stays the user's decision, since
// these files are what a project consists of: Makefile, package.json with its
// scripts, configuration of build tools and of hook managers
// (.pre-commit-config.yaml, lefthook.yml), .envrc, settings of editors (.vscode,
// .idea, .vim), .gitattributes, and every program and test of the project.
package protect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"zino/pkg/config"
	"zino/pkg/replfile"
	"zino/services/exc/confine"
)

// projectNames are protected in a root, whether they are there or not.
var projectNames = []string{agentsName, config.FileName}

// agentNames are those of other agents, protected in projects that have them.
var agentNames = []string{".mcp.json", ".claude", ".agents"}

// Options say what is protected in a root.
type Options struct {
	Root   string   // real path of the directory that code works in
	Home   string   // the user's, for git's configuration; empty: none
	Own    []string // Zino's files and directories, there or not
	Live   []string // directories that Zino writes to, as soon as they are there
	Mounts bool     // the run sees what is there as read-only mounts
}

// Set is what is protected in a root for one run.
type Set struct {
	o      Options
	root   *os.File
	places []*place
	before findings
	known  map[[32]byte]bool // contents of the AGENTS.md that were there
	cut    bool              // not all that is protected could be kept
	record string            // file that describes the set while the run is open; empty: none
}

// New computes what is protected now. running are the sets of runs that have
// not ended: what those have made meanwhile is not taken for the user's.
func New(o Options, running []*Set) (*Set, error) {
	root, err := openAt(unix.AT_FDCWD, o.Root, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	s := &Set{o: o, root: root, known: map[[32]byte]bool{}, before: scan(root, scanMax)}
	for _, other := range running {
		s.before.forget(other)
	}
	if s.places, err = survey(o.Root, s.wants()); err != nil {
		s.Close()
		return nil, err
	}
	budget := budget{files: savedMax, bytes: savedBytes}
	for _, p := range s.places {
		if err := s.keep(p, &budget); err != nil {
			s.Close()
			return nil, err
		}
	}
	s.cut = s.before.cut || budget.files < 0 || budget.bytes < 0
	for _, other := range running {
		s.inherit(other)
	}
	return s, nil
}

// wants lists what is protected: by name, by the configuration of git, and what
// the scan has found.
func (s *Set) wants() (list []want) {
	root := s.o.Root
	for _, name := range projectNames {
		list = append(list, want{path: filepath.Join(root, name)})
	}
	for _, path := range s.o.Own {
		list = append(list, want{path: path})
	}
	for _, path := range s.o.Live {
		if exists(path) {
			list = append(list, want{path: path, live: true})
		}
	}
	for _, name := range agentNames {
		if path := filepath.Join(root, name); exists(path) {
			list = append(list, want{path: path})
		}
	}
	for _, dir := range s.before.repls {
		list = append(list, want{path: filepath.Join(dir, replfile.Name), repl: true, live: true})
		if logs := filepath.Join(dir, replfile.Logs); exists(logs) {
			list = append(list, want{path: logs, repl: true, live: true})
		}
	}
	for _, path := range s.before.agents {
		list = append(list, want{path: path, loose: true})
	}
	return append(list, s.gitWants()...)
}

// gitWants lists what git obeys in the root: the root's repository, which may lie
// above it, and those below it.
func (s *Set) gitWants() []want {
	root := s.o.Root
	r := &repositories{root: root, home: s.o.Home, seen: map[string]bool{}, parsed: map[string][]setting{}}
	r.workTree(filepath.Join(root, ".git"))
	for _, git := range s.before.git {
		if filepath.Dir(git) != root {
			r.workTree(git)
		}
	}
	for _, dir := range s.before.layouts {
		r.bare(dir)
	}
	for dir := root; dir != "/" && !exists(filepath.Join(dir, ".git")); {
		dir = filepath.Dir(dir)
		if git := filepath.Join(dir, ".git"); exists(git) {
			r.workTree(git)
		}
	}
	r.configs(root)
	return r.wants
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// forget drops from what the scan has found what was made during another set's
// run.
func (f *findings) forget(other *Set) {
	fresh := func(list []string) func(path string) bool {
		return func(path string) bool {
			return confine.Within(path, other.o.Root) && !other.cut && !slices.Contains(list, path)
		}
	}
	f.git = slices.DeleteFunc(f.git, fresh(other.before.git))
	f.layouts = slices.DeleteFunc(f.layouts, fresh(other.before.layouts))
	f.agents = slices.DeleteFunc(f.agents, fresh(other.before.agents))
}

// inherit takes over what another set knows of the places of both: what differs
// now was made during that set's run.
func (s *Set) inherit(other *Set) {
	for i, p := range s.places {
		if was := other.at(p.Path); was != nil && !was.same(p) {
			known := *was
			known.mount, known.End = p.mount, p.End
			if was.file != nil {
				known.file = duplicate(was.file)
			}
			closeAll(p.file)
			s.places[i] = &known
		}
	}
	for sum := range s.known {
		if confine.Within(s.o.Root, other.o.Root) && !other.cut && !other.known[sum] {
			delete(s.known, sum)
		}
	}
}

// same reports whether two sets have found the same in a place.
func (p *place) same(q *place) bool {
	if p.Link != q.Link || (p.info == nil) != (q.info == nil) {
		return false
	}
	return p.info == nil || os.SameFile(p.info, q.info) && p.saved[""].sum == q.saved[""].sum
}

// duplicate opens an O_PATH file once more; nil if there is no descriptor left.
func duplicate(f *os.File) *os.File {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), f.Name())
}

// ReadOnly lists what is there and is to be mounted read-only.
func (s *Set) ReadOnly() (paths []string) {
	for _, p := range s.places {
		if p.mount {
			paths = append(paths, p.Path)
		}
	}
	return paths
}

// Held lists the directories on the way to protected places, upper ones first:
// they must stay where they are.
func (s *Set) Held() (paths []string) {
	for _, p := range s.places {
		if p.held() {
			paths = append(paths, p.Path)
		}
	}
	return paths
}

// Gap says what of the root is not protected, empty if all of it is.
func (s *Set) Gap() string {
	if !s.cut {
		return ""
	}
	return fmt.Sprintf("The sandbox has looked through the first %d files of %s only: a repository, an AGENTS.md or a debug/ of zino repl further down is not protected. Work in a part of it.", scanMax, s.o.Root)
}

// Unprotectable is the error for a root in which a log of zino repl lies while no
// mounts protect it: what code writes there runs at once.
func (s *Set) Unprotectable() error {
	if s.o.Mounts || len(s.before.repls) == 0 {
		return nil
	}
	return fmt.Errorf("%s belongs to zino repl, and without namespaces it cannot be protected: work in another directory, or remove its %s",
		filepath.Join(s.before.repls[0], replfile.Logs), replfile.Name)
}

// Messages for whoever was refused.
const (
	gitMessage  = ".git is read-only in this sandbox: run git commands that write it (add, commit, checkout) with --sandbox off, or ask the user to run them."
	replMessage = "debug/ belongs to zino repl: use the tool page_eval, or append to the file outside the sandbox"
)

// Refusal is why a tool must not write the file at path, a real path below the
// root; empty: it may. info is what is there, nil if that is nothing.
func (s *Set) Refusal(path string, info fs.FileInfo) string {
	rel, err := filepath.Rel(s.o.Root, path)
	if err != nil {
		return err.Error()
	}
	generic := path + " is protected: the sandbox does not let it be changed."
	for part := range strings.SplitSeq(rel, "/") {
		if strings.EqualFold(part, ".git") {
			return path + " is protected: " + gitMessage
		}
	}
	for dir := path; len(dir) > len(s.o.Root); dir = filepath.Dir(dir) {
		if p := s.at(dir); p != nil && (p.End || p.Link != "" && dir == path) {
			switch {
			case p.repl:
				return replMessage
			case p.Git:
				return path + " is protected: git obeys it. Only the user can change it, or a run with --sandbox off."
			}
			return generic
		}
		above, name := filepath.Split(dir)
		if name == replfile.Logs && slices.Contains(s.before.repls, filepath.Clean(above)) {
			return replMessage
		}
		l := layoutOf(above)
		if was := l.complete(); !was {
			if l.note(name); l.complete() {
				return path + " is protected: with it " + filepath.Clean(above) + " would be a git repository. Only the user can make one, or a run with --sandbox off."
			}
		}
	}
	if filepath.Base(path) == agentsName && !inPackages(rel) || s.linked(info) {
		return generic
	}
	return ""
}

// at returns the place at a path, nil if there is none.
func (s *Set) at(path string) *place {
	i, found := slices.BinarySearchFunc(s.places, path, func(p *place, path string) int { return strings.Compare(p.Path, path) })
	if !found {
		return nil
	}
	return s.places[i]
}

// linked reports whether a file is a protected one under another name.
func (s *Set) linked(info fs.FileInfo) bool {
	if info == nil || info.Sys().(*syscall.Stat_t).Nlink < 2 {
		return false
	}
	return slices.ContainsFunc(s.places, func(p *place) bool {
		for _, was := range p.saved {
			if was.info != nil && os.SameFile(was.info, info) {
				return true
			}
		}
		return p.info != nil && os.SameFile(p.info, info)
	})
}

// protects reports whether a path lies in a place of the set.
func (s *Set) protects(path string) bool {
	for dir := path; len(dir) > len(s.o.Root); dir = filepath.Dir(dir) {
		if p := s.at(dir); p != nil && p.End {
			return true
		}
	}
	return false
}

// Close releases what the set has open and removes its record.
func (s *Set) Close() error {
	closeAll(s.root)
	for _, p := range s.places {
		closeAll(p.file)
	}
	if s.record == "" {
		return nil
	}
	err := os.Remove(s.record)
	s.record = ""
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// closeAll closes files for which nothing was buffered; nil is skipped.
func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
