package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Attributes of mounts.
const (
	readOnly = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	readable = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV // and writable
	// A device takes what is written to it although it cannot be changed itself.
	device = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID
)

// look opens a path that must be free of symbolic links, so that nobody can
// have another file be meant by it.
func look(path string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// clone makes a mount of what is at path, and of all that is mounted below it.
// It is not seen anywhere until it is attached.
func clone(path string, attributes uint64) (int, error) {
	at, err := look(path)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	return cloneAt(at, path, attributes)
}

// cloneAt is clone for what was opened already.
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

// newFileSystem makes a mount of a new file system of that kind.
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

// attach shows a mount at a path and closes it. The path must be free of
// symbolic links.
func attach(mount int, path string) error {
	at, err := look(path)
	if err != nil {
		return errors.Join(err, unix.Close(mount))
	}
	return errors.Join(attachAt(mount, at, path), unix.Close(at))
}

// attachAt is attach for a place that was opened already.
func attachAt(mount, at int, path string) error {
	err := unix.MoveMount(mount, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err != nil {
		err = &os.PathError{Op: "move_mount", Path: path, Err: err}
	}
	return errors.Join(err, unix.Close(mount))
}

// place makes the directory or file at path on which something can be mounted,
// unless there is one.
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

// raiseLoopback has the addresses of this host's own work in a new network, so
// that programs can speak to themselves.
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
