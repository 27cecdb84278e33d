package sandbox

// Protected files take effect outside of the sandbox: the repository with its
// hooks and configuration, AGENTS.md, Zino's own files, those of other agents, the
// logs of zino repl. Files that the user or a tool runs later stay writable, since
// a project consists of them: Makefile, package.json with its scripts,
// configuration of build tools and of hook managers (.pre-commit-config.yaml,
// lefthook.yml), .envrc, settings of editors (.vscode, .idea, .vim),
// .gitattributes, and every program and test of the project.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"zino/pkg/config"
	"zino/pkg/replfile"
)

const (
	// mountsMax bounds the mounts of a run: each takes a descriptor, and room in
	// the argument that hands the plan of a run to its supervisor.
	mountsMax = 1000
	// keptFilesMax and keptBytesMax bound the contents that are kept of files
	// which no mount protects, and readMax the size of one of them.
	keptFilesMax = 10_000
	keptBytesMax = 64 << 20
	readMax      = 16 << 20
)

// projectNames are protected in a root, whether they exist or not. What a project brings
// for agents is trusted by its content: see services/daemon/trust.
var projectNames = []string{agentsName, config.FileName, ".mcp.json", ".claude", ".agents"}

// ProtectOptions say what is protected in a root.
type ProtectOptions struct {
	Root   string   // directory that code works in, without symbolic links
	Home   string   // the user's, for git's configuration; empty: none
	Own    []string // Zino's files and directories, existing or not
	Live   []string // directories that Zino writes to, protected once they exist
	Mounts bool     // the run sees what exists as read-only mounts
}

// Protected is what code must not change in a root, as it was before a run. What
// exists is mounted read-only where there are namespaces (ReadOnly, Pinned). After
// the run Check compares it with its earlier state, scans the root for new
// repositories, quarantines what differs under another name, and reports it.
type Protected struct {
	o       ProtectOptions
	root    *os.File
	entries []*entry // by path: directories before what is in them
	before  findings
	known   map[[32]byte]bool // contents of each AGENTS.md
	cut     bool              // a bound was reached: not everything is protected
	record  string            // file that lists this run as open; empty: not listed

	filesLeft, bytesLeft int // what may still be kept
}

// entry is a path below the root on which a protected path depends: that path
// itself (End), or a directory or symbolic link on the way to it. None of the
// directories above Path is a symbolic link.
type entry struct {
	Path string
	End  bool
	Link string // target of the symbolic link at Path; empty: not a link
	Git  bool   `json:",omitzero"` // git obeys it

	repl  bool        // it belongs to a REPL directory
	live  bool        // Zino writes to it meanwhile: its content is not compared
	loose bool        // no mount: it may be moved and removed, its content is put back
	mount bool        // mounted read-only for this run
	info  fs.FileInfo // before the run; nil: absent
	file  *os.File    // O_PATH: keeps the inode number from being reused
	kept  map[string]content
}

// content is what a regular file or a symbolic link held before the run. In
// entry.kept a file has the key "", the files in a directory their paths below it.
type content struct {
	info fs.FileInfo // nil: not kept
	sum  [32]byte
	data []byte
	link string
}

// Protect computes what is protected now. running are those of runs that have not
// ended: what they have made meanwhile does not count as the user's.
func Protect(o ProtectOptions, running []*Protected) (*Protected, error) {
	root, err := openAt(unix.AT_FDCWD, o.Root, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	p := &Protected{
		o: o, root: root, known: map[[32]byte]bool{}, before: scan(root, scanMax),
		filesLeft: keptFilesMax, bytesLeft: keptBytesMax,
	}
	if REPLRefusal(o.Root, "/") != "" {
		p.Close()
		return nil, fmt.Errorf("%s: %s", o.Root, replMessage)
	}
	for _, other := range running {
		for _, dir := range other.before.repls { // code may have removed the registry
			if Within(dir, o.Root) && !slices.Contains(p.before.repls, dir) {
				p.before.repls = append(p.before.repls, dir)
			}
		}
		if other.cut {
			continue
		}
		made := func(before []string) func(path string) bool {
			return func(path string) bool {
				return Within(path, other.o.Root) && !slices.Contains(before, path)
			}
		}
		p.before.git = slices.DeleteFunc(p.before.git, made(other.before.git))
		p.before.layouts = slices.DeleteFunc(p.before.layouts, made(other.before.layouts))
		p.before.agents = slices.DeleteFunc(p.before.agents, made(other.before.agents))
	}
	for _, dir := range p.before.repls {
		if err := p.makeLogs(dir); err != nil {
			p.Close()
			return nil, err
		}
	}
	p.before.linked = p.linkedLogs()
	if err := p.survey(); err != nil {
		p.Close()
		return nil, err
	}
	for _, e := range p.entries {
		if err := p.keep(e); err != nil {
			p.Close()
			return nil, err
		}
	}
	p.cut = p.before.cut || p.filesLeft < 0 || p.bytesLeft < 0
	for _, other := range running {
		p.inherit(other)
	}
	return p, nil
}

// survey fills in the entries, without what lies in a read-only directory.
func (p *Protected) survey() error {
	found := map[string]*entry{}
	for _, e := range p.wanted() {
		if err := p.trace(e, found); err != nil {
			return err
		}
	}
	mounts := 0
	for _, path := range slices.Sorted(maps.Keys(found)) {
		covered := false
		for dir := filepath.Dir(path); len(dir) > len(p.o.Root) && !covered; dir = filepath.Dir(dir) {
			covered = found[dir] != nil && found[dir].mountable()
		}
		if covered {
			continue
		}
		p.entries = append(p.entries, found[path])
		if found[path].mountable() || found[path].pinned() {
			mounts++
		}
	}
	if mounts > mountsMax {
		return fmt.Errorf("%s has more than %d places to protect: work in a part of it", p.o.Root, mountsMax)
	}
	return nil
}

// wanted lists the paths to protect: by name, by the configuration of git, and by
// the scan.
func (p *Protected) wanted() (list []entry) {
	root := p.o.Root
	for _, name := range projectNames {
		list = append(list, entry{Path: filepath.Join(root, name)})
	}
	for _, path := range p.o.Own {
		list = append(list, entry{Path: path})
	}
	for _, path := range p.o.Live {
		if exists(path) {
			list = append(list, entry{Path: path, live: true})
		}
	}
	for _, dir := range p.before.repls {
		for _, name := range []string{replfile.Name, replfile.Logs} {
			if path := filepath.Join(dir, name); exists(path) {
				list = append(list, entry{Path: path, repl: true, live: true})
			}
		}
	}
	for _, path := range p.before.linked {
		list = append(list, entry{Path: path, repl: true, live: true})
	}
	for _, path := range p.before.agents {
		list = append(list, entry{Path: path, loose: true})
	}
	for _, path := range p.gitPaths() {
		list = append(list, entry{Path: path, Git: true})
	}
	return list
}

// trace follows a path to protect and adds its entries below the root to found.
func (p *Protected) trace(want entry, found map[string]*entry) error {
	at, rest := "/", strings.Trim(want.Path, "/")
	for links := 0; rest != "" && links <= linksMax; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		path := filepath.Join(at, name)
		below := path != p.o.Root && Within(path, p.o.Root)
		now, err := stateOf(path)
		if err != nil && !below {
			return nil // code cannot reach it either
		}
		if err != nil {
			return fmt.Errorf("a protected path cannot be inspected: %w", err)
		}
		if below {
			e := found[path]
			if e == nil {
				e = &entry{Path: path, Link: now.Link, info: now.info, loose: true}
				found[path] = e
			}
			e.End = e.End || rest == "" && now.Link == ""
			e.Git, e.repl, e.live = e.Git || want.Git, e.repl || want.repl, e.live || want.live
			e.loose = e.loose && want.loose
		}
		if now.Link == "" {
			at = path
			continue
		}
		links++
		if filepath.IsAbs(now.Link) {
			at = "/"
		}
		rest = strings.Trim(now.Link+"/"+rest, "/")
	}
	return nil
}

// stateOf returns the current state of a path.
func stateOf(path string) (e entry, err error) {
	e.Path = path
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return e, nil
	}
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		e.Link, err = os.Readlink(path)
	}
	e.info = info
	return e, err
}

// mountable reports whether a read-only mount can protect the entry.
func (e *entry) mountable() bool { return e.End && e.info != nil && !e.loose }

// pinned reports whether the entry is a directory that must stay where it is.
func (e *entry) pinned() bool { return !e.End && e.info != nil && e.info.IsDir() && !e.loose }

// keep stores the identity of an entry, and the content of files that code could
// change: those without a mount, and those with further hard links.
func (p *Protected) keep(e *entry) (err error) {
	if e.info == nil || !e.End {
		return nil
	}
	if e.mountable() {
		e.mount = p.o.Mounts
		if e.file, err = openAt(unix.AT_FDCWD, e.Path, unix.O_PATH); err != nil {
			return err
		}
	}
	if e.live {
		return nil
	}
	e.kept = map[string]content{}
	if e.info.Mode().IsRegular() {
		if was, err := p.read(e.Path, e.info); err == nil { // else its times are compared
			e.kept[""] = was
			if filepath.Base(e.Path) == agentsName {
				p.known[was.sum] = true
			}
		}
		return nil
	}
	return p.walk(e, e.Path, func(rel string, info fs.FileInfo) {
		if e.mount && links(info) < 2 {
			return
		}
		if was, err := p.read(filepath.Join(e.Path, rel), info); err == nil {
			e.kept[rel] = was
		}
	})
}

func links(info fs.FileInfo) uint64 { return uint64(info.Sys().(*syscall.Stat_t).Nlink) }

// inherit takes over the earlier state from another run in the same root: what
// differs now was changed by that run.
func (p *Protected) inherit(other *Protected) {
	for i, e := range p.entries {
		was := other.at(e.Path)
		if was == nil || was.Link == e.Link && (was.info == nil) == (e.info == nil) &&
			(e.info == nil || os.SameFile(was.info, e.info) && was.kept[""].sum == e.kept[""].sum) {
			continue
		}
		merged := *was
		merged.mount, merged.End, merged.file = e.mount, e.End, nil
		if was.file != nil {
			if fd, err := unix.FcntlInt(was.file.Fd(), unix.F_DUPFD_CLOEXEC, 0); err == nil {
				merged.file = os.NewFile(uintptr(fd), was.file.Name())
			}
		}
		closeAll(e.file)
		p.entries[i] = &merged
	}
	for sum := range p.known {
		if Within(p.o.Root, other.o.Root) && !other.cut && !other.known[sum] {
			delete(p.known, sum)
		}
	}
}

// ReadOnly lists the existing paths to mount read-only.
func (p *Protected) ReadOnly() (paths []string) {
	for _, e := range p.entries {
		if e.mount {
			paths = append(paths, e.Path)
		}
	}
	return paths
}

// Pinned lists the directories on the way to protected paths, upper ones first:
// they must stay where they are.
func (p *Protected) Pinned() (paths []string) {
	for _, e := range p.entries {
		if e.pinned() {
			paths = append(paths, e.Path)
		}
	}
	return paths
}

// Root is the directory that p belongs to.
func (p *Protected) Root() string { return p.o.Root }

// Gap reports what is not protected because of the scan's bound, empty if
// everything is.
func (p *Protected) Gap() string {
	if !p.cut {
		return ""
	}
	return fmt.Sprintf("The sandbox has looked through the first %d files of %s only: a repository, an AGENTS.md or a debug/ of zino repl further down is not protected. Work in a part of it.", scanMax, p.o.Root)
}

// Unprotectable is the error for a root with a REPL directory where there are no
// mounts: what code writes to a log of zino repl is evaluated at once.
func (p *Protected) Unprotectable() error {
	if p.o.Mounts || len(p.before.repls) == 0 {
		return nil
	}
	return fmt.Errorf("%s belongs to zino repl, and without namespaces it cannot be protected: work in another directory, or remove its %s",
		filepath.Join(p.before.repls[0], replfile.Logs), replfile.Name)
}

// gitMessage explains a refused write to .git.
const gitMessage = ".git is read-only in this sandbox: run git commands that write it (add, commit, checkout) with --sandbox off, or ask the user to run them."

// File identifies an existing file.
type File struct{ Dev, Ino, Links uint64 }

// FileOf is the identity of the file that info describes.
func FileOf(info fs.FileInfo) *File {
	st := info.Sys().(*syscall.Stat_t)
	return &File{st.Dev, st.Ino, uint64(st.Nlink)}
}

// Refusal is the reason why a tool must not write the file at path, a path below
// the root without symbolic links; empty: it may. file is nil for a new file.
func (p *Protected) Refusal(path string, file *File) string {
	rel, err := filepath.Rel(p.o.Root, path)
	if err != nil {
		return err.Error()
	}
	generic := path + " is protected: the sandbox does not let it be changed."
	for part := range strings.SplitSeq(rel, "/") {
		if strings.EqualFold(part, ".git") {
			return path + " is protected: " + gitMessage
		}
	}
	for dir := path; len(dir) > len(p.o.Root); dir = filepath.Dir(dir) {
		if e := p.at(dir); e != nil && (e.End || e.Link != "" && dir == path) {
			switch {
			case e.repl:
				return replMessage
			case e.Git:
				return path + " is protected: git obeys it. Only the user can change it, or a run with --sandbox off."
			}
			return generic
		}
		above, name := filepath.Split(dir)
		if name == replfile.Logs && slices.Contains(p.before.repls, filepath.Clean(above)) {
			return replMessage
		}
		if l := layoutOf(above); !l.complete() {
			if l.note(name); l.complete() {
				return path + " is protected: with it " + filepath.Clean(above) + " would be a git repository. Only the user can make one, or a run with --sandbox off."
			}
		}
	}
	if filepath.Base(path) == agentsName && !inPackages(rel) {
		return generic
	}
	if file == nil || file.Links < 2 {
		return ""
	}
	same := func(info fs.FileInfo) bool {
		return info != nil && FileOf(info).Dev == file.Dev && FileOf(info).Ino == file.Ino
	}
	for _, e := range p.entries {
		if same(e.info) {
			return generic
		}
		for _, was := range e.kept {
			if same(was.info) {
				return generic
			}
		}
	}
	return ""
}

// deniedTexts are what programs print, in lower case, when a read-only mount
// refuses a write, or a mount point is to be moved.
var deniedTexts = []string{"read-only file system", "erofs", "errno 30", "device or resource busy", "ebusy"}

// explainMax is the number of explanations of one run.
const explainMax = 3

// Explain returns why writes of a run to protected files were refused, a line for
// each reason. A line of the run's outputs counts only if it has the kernel's
// error and names something that is mounted read-only; standard output only if
// the run failed.
func (p *Protected) Explain(stdout, stderr string, failed bool) (lines []string) {
	for word := range deniedWords(stdout, stderr, failed, deniedTexts) {
		if why := p.explain(word); why != "" && !slices.Contains(lines, why) && len(lines) < explainMax {
			lines = append(lines, why)
		}
	}
	return lines
}

// explain is the reason why a write to word was refused, empty if word is not
// the path of something mounted read-only.
func (p *Protected) explain(word string) string {
	for _, e := range p.entries {
		base := filepath.Base(e.Path)
		if !e.mount || !names(word, e.Path) && !(e.repl && isEntry(word, e.Path)) {
			continue
		}
		rel, err := filepath.Rel(p.o.Root, e.Path)
		switch {
		case err != nil:
			return ""
		case e.repl:
			return replMessage
		case base == ".git":
			return gitMessage
		case e.Git:
			return rel + " is read-only in this sandbox, since git obeys it: only the user can change it, or a run with --sandbox off."
		}
		return rel + " is protected: the sandbox does not let it be changed."
	}
	return ""
}

// at returns the entry at a path, or nil.
func (p *Protected) at(path string) *entry {
	i, found := slices.BinarySearchFunc(p.entries, path, func(e *entry, path string) int { return strings.Compare(e.Path, path) })
	if !found {
		return nil
	}
	return p.entries[i]
}

// openRun is one item of the list of open runs, on disk: what was absent, links,
// and what the scan has found. Contents are not in it: they could not be put back.
type openRun struct {
	Root    string
	Entries []*entry `json:"Places"`
	Git     []string
	Layouts []string
	Agents  []string
}

// ListOpen writes p to a new file, from which ResumeRun reads it if this process is
// killed before the run ends. Close removes the file.
func (p *Protected) ListOpen(file string) error {
	r := openRun{Root: p.o.Root, Git: p.before.git, Layouts: p.before.layouts, Agents: p.before.agents}
	for _, e := range p.entries {
		if e.info == nil || e.Link != "" {
			r.Entries = append(r.Entries, e)
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	p.record = file
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// ResumeRun reads what was protected in a run whose exc was killed.
func ResumeRun(file string) (*Protected, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r openRun
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	root, err := openAt(unix.AT_FDCWD, r.Root, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return &Protected{
		o: ProtectOptions{Root: r.Root, Mounts: true}, root: root, entries: r.Entries, record: file,
		before: findings{git: r.Git, layouts: r.Layouts, agents: r.Agents},
	}, nil
}

// Close releases open files and takes the run off the list of open runs.
func (p *Protected) Close() error {
	closeAll(p.root)
	for _, e := range p.entries {
		closeAll(e.file)
	}
	if p.record == "" {
		return nil
	}
	err := os.Remove(p.record)
	p.record = ""
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// closeAll closes files without buffered data; nil is skipped.
func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// readRegular reads a regular file. Anything else, which code can put there at
// any time, is an error at once: opening it could block.
func readRegular(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > readMax) {
		err = fmt.Errorf("%s: not a regular file of up to %d MiB", path, readMax>>20)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, readMax))
}

// openAt opens a path that must not contain symbolic links.
func openAt(dir int, path string, flags uint64) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_NOFOLLOW | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(dir, path, &how)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
