package sandbox

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// stage is where the new tree is put together: a directory that every host has.
const stage = "/proc"

// emptyDir and emptyFile are shown in the place of what is hidden.
const (
	emptyDir  = "/.none/dir"
	emptyFile = "/.none/file"
)

// shown is something of the host's that the run sees at the same path.
type shown struct {
	path       string
	attributes uint64
	mount      int
	dir        bool
}

// build makes a tree of files in which nothing is but what the plan gives, and
// makes it the root of this process and of all that it starts.
func (p *Plan) build() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return wrap("mount --make-rprivate /", err)
	}
	list, err := p.collect()
	if err != nil {
		return err
	}
	if err := p.assemble(list); err != nil {
		return err
	}
	if err := enterStage(); err != nil {
		return err
	}
	if err := p.cover(); err != nil {
		return err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &attr); err != nil {
		return wrap("mount_setattr /", err)
	}
	if err := reopenInput(); err != nil {
		return err
	}
	return os.Chdir(p.Dir)
}

// reopenInput has standard input, which is empty, come from the new tree. What
// it was until now is a file of the host's, whose mode and times could be changed
// by it.
func reopenInput() error {
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: "/dev/null", Err: err}
	}
	return errors.Join(wrap("dup3", unix.Dup3(null, 0, 0)), unix.Close(null))
}

// collect clones all that is shown while it can still be named.
func (p *Plan) collect() ([]shown, error) {
	list := p.shown()
	for i := range list {
		s := &list[i]
		var err error
		if s.mount, err = clone(s.path, s.attributes); err != nil {
			return nil, err
		}
		var st unix.Stat_t
		if err := unix.Fstat(s.mount, &st); err != nil {
			return nil, wrap("fstat", err)
		}
		s.dir = st.Mode&unix.S_IFMT == unix.S_IFDIR
	}
	return list, nil
}

// shown lists what the run sees, what holds others before them.
func (p *Plan) shown() (list []shown) {
	for _, path := range p.Read {
		list = append(list, shown{path: path, attributes: readOnly})
	}
	for _, path := range devices {
		list = append(list, shown{path: path, attributes: device})
	}
	if p.Root != "" {
		attributes := uint64(readOnly)
		if p.Writable {
			attributes = readable
		}
		list = append(list, shown{path: p.Root, attributes: attributes})
	}
	slices.SortStableFunc(list, func(a, b shown) int { return strings.Compare(a.path, b.path) })
	return list
}

// own are the file systems of the run's own, by the paths where it sees them.
func (p *Plan) own() (mounts map[string]int, err error) {
	mounts = map[string]int{}
	if mounts["/tmp"], err = clone(p.Tmp, readable); err != nil {
		return nil, err
	}
	// As the first of its processes this one has a view of them of its own.
	if mounts["/proc"], err = newFileSystem("proc", readOnly|unix.MOUNT_ATTR_NOEXEC); err != nil {
		return nil, err
	}
	mounts["/dev/shm"], err = newFileSystem("tmpfs", readable, [2]string{"size", "64m"}, [2]string{"mode", "1777"})
	return mounts, err
}

// assemble puts the tree together on the stage.
func (p *Plan) assemble(list []shown) error {
	own, err := p.own()
	if err != nil {
		return err
	}
	base, err := newFileSystem("tmpfs", readable, [2]string{"size", "1m"}, [2]string{"mode", "0755"})
	if err != nil {
		return err
	}
	links := topLinks()
	if err := errors.Join(attach(base, stage), furnish(links)); err != nil {
		return err
	}
	for path, mount := range own {
		if err := attach(mount, stage+path); err != nil {
			return err
		}
	}
	for _, s := range list {
		if err := errors.Join(place(stage+s.path, s.dir), attach(s.mount, stage+s.path)); err != nil {
			return err
		}
	}
	return nil
}

// topLinks are the symbolic links in the host's root that lead to system
// directories, such as /bin.
func topLinks() map[string]string {
	links := map[string]string{}
	for _, path := range systemDirs {
		if to, err := os.Readlink(path); err == nil {
			links[path] = to
		}
	}
	return links
}

// furnish makes what every program expects.
func furnish(links map[string]string) error {
	for _, dir := range []string{"/tmp", "/proc", "/dev/shm", emptyDir} {
		if err := os.MkdirAll(stage+dir, 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(stage+emptyFile, nil, 0o444); err != nil {
		return err
	}
	maps.Copy(links, map[string]string{"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2"})
	for path, to := range links {
		if err := os.Symlink(to, stage+path); err != nil {
			return err
		}
	}
	return nil
}

// enterStage makes the stage the root and lets go of the host's.
func enterStage() error {
	if err := os.Chdir(stage); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return wrap("pivot_root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return wrap("umount the former root", err)
	}
	return os.Chdir("/")
}
