package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stage is where the new tree is assembled: a directory that every host has.
const stage = "/proc"

// emptyDir and emptyFile are mounted over hidden paths.
const (
	emptyDir  = "/.none/dir"
	emptyFile = "/.none/file"
)

// shown is a file or directory of the host that the run sees at the same path.
type shown struct {
	path       string
	attributes uint64
	mount      int
	dir        bool
}

// build makes a tree of files that contains only what the plan gives, and makes it
// the root of this process and of all that it starts.
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
	if !p.Input {
		if err := reopenInput(); err != nil {
			return err
		}
	}
	return os.Chdir(p.Dir)
}

// reopenInput opens standard input, which is empty, from the new tree: through the
// host's device code could change its mode and times.
func reopenInput() error {
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: "/dev/null", Err: err}
	}
	return errors.Join(wrap("dup3", unix.Dup3(null, 0, 0)), unix.Close(null))
}

// collect clones the mounts of all that is shown, while their paths can be resolved.
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

// shown lists what the run sees, parents before children.
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

// own makes the file systems of the run, by the paths where it sees them.
func (p *Plan) own() (mounts map[string]int, err error) {
	mounts = map[string]int{}
	if mounts["/tmp"], err = clone(p.Tmp, readable); err != nil {
		return nil, err
	}
	if p.Home != "" {
		if mounts[HomeDir], err = clone(p.Home, readable); err != nil {
			return nil, err
		}
	}
	// This process is the first in its namespace of processes: proc shows only those.
	if mounts["/proc"], err = newFileSystem("proc", readOnly|unix.MOUNT_ATTR_NOEXEC); err != nil {
		return nil, err
	}
	mounts["/dev/shm"], err = newFileSystem("tmpfs", readable, [2]string{"size", "64m"}, [2]string{"mode", "1777"})
	return mounts, err
}

// assemble mounts the tree on the stage.
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

// topLinks are the symbolic links to system directories in the host's root, such
// as /bin.
func topLinks() map[string]string {
	links := map[string]string{}
	for _, path := range systemDirs {
		if to, err := os.Readlink(path); err == nil {
			links[path] = to
		}
	}
	return links
}

// furnish makes the directories and links that every program expects.
func furnish(links map[string]string) error {
	for _, dir := range []string{"/tmp", "/proc", "/dev/shm", emptyDir, HomeDir} {
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

// enterStage makes the stage the root, and detaches the host's.
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

// cover mounts over the hidden paths and makes the protected ones read-only.
func (p *Plan) cover() error {
	for _, path := range p.Hidden {
		if err := hide(path); err != nil {
			return err
		}
	}
	if !p.Writable {
		return nil
	}
	fixed := map[string]bool{p.Root: true}
	for _, dir := range p.Pinned {
		if err := p.fix(dir, readable, fixed); err != nil {
			return err
		}
	}
	for _, path := range p.Protected {
		if err := p.protect(path, fixed); err != nil {
			return err
		}
	}
	return nil
}

// hide mounts an empty file or directory at path.
func hide(path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	with := emptyFile
	if fi.IsDir() {
		with = emptyDir
	}
	mount, err := clone(with, readOnly)
	if err != nil {
		return err
	}
	return attach(mount, path)
}

// protect makes path read-only, and mounts the directories between it and the root on
// themselves: a mount cannot be renamed, so that no other file can take its place.
func (p *Plan) protect(path string, fixed map[string]bool) error {
	if dir := filepath.Dir(path); !fixed[dir] && strings.HasPrefix(dir, p.Root+"/") {
		if err := p.fix(dir, readable, fixed); err != nil {
			return err
		}
	}
	return onto(path, readOnly)
}

// fix mounts a directory on itself, and those above it, once.
func (p *Plan) fix(dir string, attributes uint64, fixed map[string]bool) error {
	if fixed[dir] {
		return nil
	}
	if above := filepath.Dir(dir); !fixed[above] && strings.HasPrefix(above, p.Root+"/") {
		if err := p.fix(above, attributes, fixed); err != nil {
			return err
		}
	}
	fixed[dir] = true
	return onto(dir, attributes)
}

// onto mounts path on itself.
func onto(path string, attributes uint64) error {
	at, err := look(path)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	mount, err := cloneAt(at, path, attributes)
	if err != nil {
		return err
	}
	return attachAt(mount, at, path)
}

// Attributes of mounts.
const (
	readOnly = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	readable = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV // and writable
	// A device on a read-only mount can be written to, and its mode cannot change.
	device = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID
)

// look opens a path that must be free of symbolic links: a link could lead to
// another file by now.
func look(path string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// clone makes a detached mount of path, with all mounts below it.
func clone(path string, attributes uint64) (int, error) {
	at, err := look(path)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	return cloneAt(at, path, attributes)
}

// cloneAt is clone for an open file.
func cloneAt(at int, path string, attributes uint64) (int, error) {
	fd, err := unix.OpenTree(at, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return -1, &os.PathError{Op: "open_tree", Path: path, Err: err}
	}
	attr := unix.MountAttr{Attr_set: attributes}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		unix.Close(fd)
		return -1, &os.PathError{Op: "mount_setattr", Path: path, Err: err}
	}
	return fd, nil
}

// newFileSystem makes a detached mount of a new file system of that kind.
func newFileSystem(kind string, attributes int, options ...[2]string) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, wrap("fsopen "+kind, err)
	}
	defer unix.Close(fs)
	for _, o := range options {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return -1, wrap("fsconfig "+kind+" "+o[0], err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, wrap("fsconfig "+kind, err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes)
	return fd, wrap("fsmount "+kind, err)
}

// attach attaches a mount at a path, free of symbolic links, and closes it.
func attach(mount int, path string) error {
	at, err := look(path)
	if err != nil {
		return errors.Join(err, unix.Close(mount))
	}
	return errors.Join(attachAt(mount, at, path), unix.Close(at))
}

// attachAt is attach for an open mount point.
func attachAt(mount, at int, path string) error {
	err := unix.MoveMount(mount, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err != nil {
		err = &os.PathError{Op: "move_mount", Path: path, Err: err}
	}
	return errors.Join(err, unix.Close(mount))
}

// place makes a mount point, unless there is one: a directory or a file.
func place(path string, dir bool) error {
	if dir {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY|unix.O_NOFOLLOW, 0o444)
	if err != nil {
		return err
	}
	return f.Close()
}

// raiseLoopback brings the interface lo up in a new network, so that programs can
// talk to themselves.
func raiseLoopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return wrap("socket", err)
	}
	defer unix.Close(s)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("the interface lo: %w", err)
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(request)))
	if errno != 0 {
		return wrap("ioctl(SIOCSIFFLAGS)", errno)
	}
	return nil
}
