package protect

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Violation is a protected place that differed after a run.
type Violation struct {
	Name       string // of the place, relative to the root
	Quarantine string // where what stood there is now; empty: it was removed, or there was nothing
	Err        error  // why the place is not what it was

	removed, restored, git bool
}

// String reports it in a line.
func (v Violation) String() string {
	line := "The sandbox protects " + v.Name + "."
	if v.Quarantine != "" {
		line += " What was made or changed there during the run is now " + v.Quarantine + ": only the user can put it in force."
	}
	if v.removed {
		line += " What was made there during the run was removed."
	}
	if v.restored {
		line += " " + v.Name + " has its earlier content again."
	}
	if v.git {
		line += " Git commands that write .git need --sandbox off, or the user."
	}
	if v.Err != nil {
		line += fmt.Sprintf(" It could not be made what it was: %v: look at it before you use it.", v.Err)
	}
	return line
}

// Where is the name under which it is to be found, empty if it is gone.
func (v Violation) Where() string {
	if v.Quarantine == "" && v.Err != nil {
		return v.Name
	}
	return v.Quarantine
}

// linesMax is the number of violations that are reported one by one.
const linesMax = 20

// Lines reports violations in a line each, the last ones together.
func Lines(list []Violation) (lines []string) {
	for _, v := range list[:min(len(list), linesMax)] {
		lines = append(lines, v.String())
	}
	if n := len(list) - linesMax; n > 0 {
		lines = append(lines, fmt.Sprintf("The same became of %d more: see names that hold %q.", n, mark))
	}
	return lines
}

// mark stands in the names of what was quarantined.
const mark = ".refused-"

// Check compares the places with what was there, and looks for repositories and
// AGENTS.md that were made meanwhile. What differs is quarantined.
func (s *Set) Check() (list []Violation) {
	for _, p := range s.places {
		if p.loose && !p.End && p.Link == "" {
			continue // a directory, free to be moved
		}
		v := Violation{git: filepath.Base(p.Path) == ".git"}
		list = v.report(list, s.visit(p.Path, &v, func(dir *os.File) error { return s.settle(dir, p, &v) }))
	}
	after := scan(s.root, scanMax)
	s.cut = s.cut || after.cut
	for _, path := range after.git {
		if !slices.Contains(s.before.git, path) && !s.protects(path) && s.at(path) == nil {
			list = s.refuse(path, list)
		}
	}
	for _, dir := range after.layouts {
		if head := filepath.Join(dir, "HEAD"); !slices.Contains(s.before.layouts, dir) && !s.protects(head) {
			list = s.refuse(head, list)
		}
	}
	for _, path := range after.agents {
		if text, err := readRegular(path); err == nil && s.known[sha256.Sum256(text)] && !isLink(path) {
			continue // a copy, or one that was moved
		}
		if !slices.Contains(s.before.agents, path) && s.at(path) == nil {
			list = s.refuse(path, list)
		}
	}
	return list
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// refuse quarantines what a run has made.
func (s *Set) refuse(path string, list []Violation) []Violation {
	v := Violation{git: filepath.Base(path) != agentsName}
	return v.report(list, s.visit(path, &v, func(dir *os.File) error { return v.quarantine(dir, filepath.Base(path)) }))
}

// visit calls do with the open directory of a path below the root.
func (s *Set) visit(path string, v *Violation, do func(dir *os.File) error) error {
	name, err := filepath.Rel(s.o.Root, path)
	if err != nil {
		return err
	}
	v.Name = name
	err = within(s.root, filepath.Dir(name), do)
	if errors.Is(err, fs.ErrExist) { // the check of another run came first
		err = within(s.root, filepath.Dir(name), do)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil // nothing leads there any more
	}
	return err
}

// report adds v to a list, if it is a violation.
func (v *Violation) report(list []Violation, err error) []Violation {
	if v.Err = err; err == nil && v.Quarantine == "" && !v.removed && !v.restored {
		return list
	}
	return append(list, *v)
}

// settle compares one place, in its open directory, with what it was.
func (s *Set) settle(dir *os.File, p *place, v *Violation) error {
	base := filepath.Base(p.Path)
	now, err := look(filepath.Join(throughFD(dir), base))
	if err != nil {
		return err
	}
	if now.info != nil {
		if s.unchanged(p, &now) {
			if p.End && now.info.IsDir() && !p.live {
				return s.settleFiles(dir, p, v)
			}
			return nil
		}
		if err := v.quarantine(dir, base); err != nil {
			return err
		}
	}
	switch {
	case p.Link != "":
		v.restored = true
		return unix.Symlinkat(p.Link, int(dir.Fd()), base)
	case !p.End || p.info == nil || p.loose && now.info == nil: // to remove an AGENTS.md below the root is allowed
		return nil
	case p.mount && !(p.info.Mode().IsRegular() && linkCount(p.info) > 1):
		return nil // only the user can have changed it
	}
	return s.putBack(dir, p, v)
}

func linkCount(info fs.FileInfo) uint64 { return uint64(info.Sys().(*syscall.Stat_t).Nlink) }

// unchanged reports whether a place is what it was. The content of directories
// is compared by settleFiles.
func (s *Set) unchanged(p, now *place) bool {
	switch {
	case p.Link != "":
		return now.Link == p.Link
	case !p.End:
		return now.Link == "" && (now.info.IsDir() || p.info == nil || !p.info.IsDir())
	case p.info == nil:
		return false
	}
	was := p.saved[""]
	if !os.SameFile(p.info, now.info) {
		return was.info != nil && was.equal(now.Path, now.info)
	}
	if p.live || !p.info.Mode().IsRegular() || p.mount && linkCount(p.info) < 2 && linkCount(now.info) < 2 {
		return true
	}
	if was.info == nil {
		return saved{info: p.info}.untouched(now.info)
	}
	return was.equal(now.Path, now.info)
}

// quarantine gives what is at a place a name that nothing obeys and that code
// cannot foresee. What cannot be renamed is removed.
func (v *Violation) quarantine(dir *os.File, base string) error {
	suffix := mark + strings.ToLower(rand.Text()[:8])
	err := unix.Renameat(int(dir.Fd()), base, int(dir.Fd()), base+suffix)
	switch {
	case err == nil:
		v.Quarantine = v.Name + suffix
		return disarm(filepath.Join(throughFD(dir), base+suffix), suffix)
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist):
		return err
	}
	err = os.RemoveAll(throughFD(dir) + "/" + base)
	v.removed = err == nil
	return err
}

// disarm keeps git from taking a directory for a repository when somebody goes
// there to look at it.
func disarm(dir, suffix string) error {
	if l := layoutOf(dir); !l.complete() || isLink(dir) {
		return nil
	}
	return os.Rename(filepath.Join(dir, "HEAD"), filepath.Join(dir, "HEAD"+suffix))
}

// putBack makes what was in a place anew.
func (s *Set) putBack(dir *os.File, p *place, v *Violation) error {
	path := filepath.Join(throughFD(dir), filepath.Base(p.Path))
	v.restored = true
	if was := p.saved[""]; p.info.Mode().IsRegular() {
		if was.info == nil {
			v.restored = false
			return errors.New("its earlier content was not kept")
		}
		return was.restore(path)
	}
	if !p.info.IsDir() {
		return nil
	}
	if moved, err := os.Readlink(throughFD(p.file)); err == nil && os.Rename(moved, path) == nil {
		return s.settleFiles(dir, p, v) // code has moved it elsewhere
	}
	if err := os.Mkdir(path, p.info.Mode().Perm()); err != nil {
		return err
	}
	return s.settleFiles(dir, p, v)
}

// restore writes a kept file.
func (was saved) restore(path string) error {
	if was.link != "" {
		return os.Symlink(was.link, path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, was.info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = f.Write(was.data)
	return errors.Join(err, f.Close())
}

// settleFiles compares the files in a place that is a directory. Those that
// differ go to a directory beside it, under the same names.
func (s *Set) settleFiles(dir *os.File, p *place, v *Violation) error {
	base := filepath.Base(p.Path)
	at := filepath.Join(throughFD(dir), base)
	var refused, missing []string
	found := map[string]bool{}
	err := s.walk(p, at+"/.", func(rel string, info fs.FileInfo) {
		found[rel] = true
		was, kept := p.saved[rel]
		if kept && !was.equal(filepath.Join(at, rel), info) || !kept && !p.mount {
			refused = append(refused, rel)
		}
	})
	for rel := range p.saved {
		if !found[rel] && !p.mount {
			missing = append(missing, rel)
		}
	}
	if err != nil || len(refused)+len(missing) == 0 || s.cut && !p.mount {
		return err
	}
	root, err := os.OpenRoot(throughFD(dir))
	if err != nil {
		return err
	}
	defer root.Close()
	box := ""
	for _, rel := range refused {
		if box == "" {
			box = base + mark + strings.ToLower(rand.Text()[:8])
			v.Quarantine = filepath.Join(filepath.Dir(v.Name), box)
		}
		to := filepath.Join(box, rel)
		if err := errors.Join(root.MkdirAll(filepath.Dir(to), 0o700), root.Rename(filepath.Join(base, rel), to)); err != nil {
			return err
		}
		if _, kept := p.saved[rel]; kept {
			missing = append(missing, rel)
		}
	}
	for _, rel := range missing {
		v.restored = true
		if err := root.MkdirAll(filepath.Join(base, filepath.Dir(rel)), 0o755); err != nil {
			return err
		}
		if err := p.saved[rel].restore(filepath.Join(at, rel)); err != nil {
			return err
		}
	}
	return nil
}
