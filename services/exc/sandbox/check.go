package sandbox

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

// Violation is a protected path that differed after a run.
type Violation struct {
	Name       string // relative to the root
	Quarantine string // where the changed file is now; empty: it was removed
	Err        error  // why the earlier state could not be restored

	removed, restored, git bool
}

// String reports the violation in one line.
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
		line += fmt.Sprintf(" Its earlier state could not be restored: %v: look at it before you use it.", v.Err)
	}
	return line
}

// Where returns the present name of the file; empty: it was removed.
func (v Violation) Where() string {
	if v.Quarantine == "" && v.Err != nil {
		return v.Name
	}
	return v.Quarantine
}

// linesMax is the number of violations that are reported one by one.
const linesMax = 20

// ViolationLines reports violations in a line each, those above linesMax in one.
func ViolationLines(list []Violation) (lines []string) {
	for _, v := range list[:min(len(list), linesMax)] {
		lines = append(lines, v.String())
	}
	if n := len(list) - linesMax; n > 0 {
		lines = append(lines, fmt.Sprintf("%d more were treated in the same way: see names that contain %q.", n, quarantineMark))
	}
	return lines
}

// quarantineMark stands in the names of quarantined files.
const quarantineMark = ".refused-"

// quarantineSuffix is a name's unpredictable end.
func quarantineSuffix() string { return quarantineMark + strings.ToLower(rand.Text()[:8]) }

// Check compares the entries with their earlier state, and scans the root for
// repositories and AGENTS.md that were made meanwhile. What differs is
// quarantined.
func (p *Protected) Check() (list []Violation) {
	check := func(e *entry) {
		name, err := filepath.Rel(p.o.Root, e.Path)
		base := filepath.Base(e.Path)
		v := Violation{Name: name, git: base == ".git" || base == "HEAD"}
		compare := func(dir *os.File) error { return p.compare(dir, e, &v) }
		if err == nil {
			err = within(p.root, filepath.Dir(name), compare)
		}
		if errors.Is(err, fs.ErrExist) { // the check of another run was faster
			err = within(p.root, filepath.Dir(name), compare)
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			err = nil // the directory is gone, and the path leads nowhere
		}
		if v.Err = err; err != nil || v.Quarantine != "" || v.removed || v.restored {
			list = append(list, v)
		}
	}
	for _, e := range p.entries {
		if e.loose && !e.End && e.Link == "" {
			continue // a directory that may be moved
		}
		check(e)
	}
	after := scan(p.root, scanMax)
	p.cut = p.cut || after.cut
	protected := func(path string) bool {
		if p.at(path) != nil {
			return true
		}
		for dir := path; len(dir) > len(p.o.Root); dir = filepath.Dir(dir) {
			if e := p.at(dir); e != nil && e.End {
				return true
			}
		}
		return false
	}
	for _, path := range after.git {
		if !slices.Contains(p.before.git, path) && !protected(path) {
			check(&entry{Path: path, End: true})
		}
	}
	for _, dir := range after.layouts {
		if head := filepath.Join(dir, "HEAD"); !slices.Contains(p.before.layouts, dir) && !protected(head) {
			check(&entry{Path: head, End: true})
		}
	}
	for _, path := range after.agents {
		if slices.Contains(p.before.agents, path) || p.at(path) != nil {
			continue
		}
		if text, err := readRegular(path); err != nil || !p.known[sha256.Sum256(text)] || isLink(path) { // else a copy, or one that was moved
			check(&entry{Path: path, End: true})
		}
	}
	return list
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// compare compares one entry, in its open directory, with its earlier state. What
// differs is quarantined. The earlier state is put back for symbolic links, where
// no mount has protected it, and for files with several names, which a mount does
// not protect. Elsewhere only the user can have changed it.
func (p *Protected) compare(dir *os.File, e *entry, v *Violation) error {
	base := filepath.Base(e.Path)
	now, err := stateOf(filepath.Join(throughFD(dir), base))
	if err != nil {
		return err
	}
	if now.info != nil {
		if e.unchanged(&now) {
			if e.End && now.info.IsDir() && !e.live {
				return p.compareFiles(dir, e, v)
			}
			return nil
		}
		if err := v.quarantine(dir, base); err != nil {
			return err
		}
	}
	switch {
	case e.Link != "":
		v.restored = true
		return unix.Symlinkat(e.Link, int(dir.Fd()), base)
	case !e.End || e.info == nil || e.loose && now.info == nil: // an AGENTS.md below the root may be removed
		return nil
	case e.mount && !(e.info.Mode().IsRegular() && links(e.info) > 1):
		return nil
	}
	path := filepath.Join(throughFD(dir), base)
	switch mode := e.info.Mode(); {
	case mode.IsRegular():
		was := e.kept[""]
		if was.info == nil {
			return errors.New("its earlier content was not kept")
		}
		v.restored = true
		return was.restore(path)
	case mode.IsDir():
		v.restored = true
		if moved, err := os.Readlink(throughFD(e.file)); err != nil || os.Rename(moved, path) != nil { // else code has moved it
			if err := os.Mkdir(path, mode.Perm()); err != nil {
				return err
			}
		}
		return p.compareFiles(dir, e, v)
	}
	v.restored = true // a pipe or a socket is not made again
	return nil
}

// unchanged reports whether an entry is what it was. Contents of directories are
// left to compareFiles.
func (e *entry) unchanged(now *entry) bool {
	switch {
	case e.Link != "":
		return now.Link == e.Link
	case !e.End:
		return now.Link == "" && (now.info.IsDir() || e.info == nil || !e.info.IsDir())
	case e.info == nil:
		return false
	}
	was := e.kept[""]
	if !os.SameFile(e.info, now.info) {
		return was.info != nil && was.equal(now.Path, now.info)
	}
	if e.live || !e.info.Mode().IsRegular() || e.mount && links(e.info) < 2 && links(now.info) < 2 {
		return true
	}
	if was.info == nil {
		return content{info: e.info}.untouched(now.info)
	}
	return was.equal(now.Path, now.info)
}

// quarantine renames a file to a name that no program looks for and that code
// cannot predict. What cannot be renamed is removed.
func (v *Violation) quarantine(dir *os.File, base string) error {
	suffix := quarantineSuffix()
	err := unix.Renameat(int(dir.Fd()), base, int(dir.Fd()), base+suffix)
	switch {
	case err == nil:
		v.Quarantine = v.Name + suffix
		path := filepath.Join(throughFD(dir), base+suffix)
		if l := layoutOf(path); l.complete() && !isLink(path) { // git must not find a repository there
			return os.Rename(filepath.Join(path, "HEAD"), filepath.Join(path, "HEAD"+suffix))
		}
		return nil
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist):
		return err
	}
	err = os.RemoveAll(throughFD(dir) + "/" + base)
	v.removed = err == nil
	return err
}

// compareFiles compares the files in a directory. Those that differ go to a
// directory beside it, under the same names.
func (p *Protected) compareFiles(dir *os.File, e *entry, v *Violation) error {
	base := filepath.Base(e.Path)
	at := filepath.Join(throughFD(dir), base)
	var differing, missing []string
	found := map[string]bool{}
	err := p.walk(e, at+"/.", func(rel string, info fs.FileInfo) {
		found[rel] = true
		was, kept := e.kept[rel]
		if kept && !was.equal(filepath.Join(at, rel), info) || !kept && !e.mount {
			differing = append(differing, rel)
		}
	})
	for rel := range e.kept {
		if !found[rel] && !e.mount {
			missing = append(missing, rel)
		}
	}
	if err != nil || len(differing)+len(missing) == 0 || p.cut && !e.mount {
		return err
	}
	root, err := os.OpenRoot(throughFD(dir))
	if err != nil {
		return err
	}
	defer root.Close()
	box := base + quarantineSuffix()
	for _, rel := range differing {
		v.Quarantine = filepath.Join(filepath.Dir(v.Name), box)
		to := filepath.Join(box, rel)
		if err := errors.Join(root.MkdirAll(filepath.Dir(to), 0o700), root.Rename(filepath.Join(base, rel), to)); err != nil {
			return err
		}
		if _, kept := e.kept[rel]; kept {
			missing = append(missing, rel)
		}
	}
	for _, rel := range missing {
		v.restored = true
		if err := root.MkdirAll(filepath.Join(base, filepath.Dir(rel)), 0o755); err != nil {
			return err
		}
		if err := e.kept[rel].restore(filepath.Join(at, rel)); err != nil {
			return err
		}
	}
	return nil
}

// walk calls do with the files in an entry that is a directory, by their paths
// below it. at is where the directory is now. What Zino writes to is left out.
func (p *Protected) walk(e *entry, at string, do func(rel string, info fs.FileInfo)) error {
	return filepath.WalkDir(at, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		rel, err := filepath.Rel(at, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if e.Git && (historyDirs[d.Name()] || e.mount && d.Name() == "refs") || slices.Contains(p.o.Live, filepath.Join(e.Path, rel)) {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err == nil && (info.Mode().IsRegular() || info.Mode()&fs.ModeSymlink != 0) {
			do(rel, info)
		}
		return nil
	})
}

// read keeps a regular file or a symbolic link.
func (p *Protected) read(path string, info fs.FileInfo) (was content, err error) {
	if p.filesLeft--; p.filesLeft < 0 || p.bytesLeft < 0 {
		return was, unix.ENOBUFS
	}
	was.info = info
	if info.Mode()&fs.ModeSymlink != 0 {
		was.link, err = os.Readlink(path)
		return was, err
	}
	if was.data, err = readRegular(path); err == nil {
		p.bytesLeft -= len(was.data)
		was.sum = sha256.Sum256(was.data)
	}
	return was, err
}

// untouched reports whether a file cannot have changed since it was kept: the
// kernel sets the time of its last change.
func (was content) untouched(now fs.FileInfo) bool {
	if was.info == nil {
		return false
	}
	a, b := was.info.Sys().(*syscall.Stat_t), now.Sys().(*syscall.Stat_t)
	return a.Dev == b.Dev && a.Ino == b.Ino && a.Size == b.Size && a.Mtim == b.Mtim && a.Ctim == b.Ctim
}

// equal reports whether the file at path has the kept content.
func (was content) equal(path string, now fs.FileInfo) bool {
	switch {
	case was.info == nil || was.info.Mode().Type() != now.Mode().Type():
		return false
	case was.untouched(now):
		return true
	case was.link != "":
		to, err := os.Readlink(path)
		return err == nil && to == was.link
	}
	data, err := readRegular(path)
	return err == nil && sha256.Sum256(data) == was.sum
}

// restore writes the kept content to a new file.
func (was content) restore(path string) error {
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
