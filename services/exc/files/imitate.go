package files

import (
	"bytes"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// accessList is the extended attribute that holds a POSIX access control list.
const accessList = "system.posix_acl_access"

// imitate gives f the owner, the permissions and the extended attributes of the
// file at path, which old describes.
func imitate(f *os.File, path string, old fs.FileInfo) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	is, was := fi.Sys().(*syscall.Stat_t), old.Sys().(*syscall.Stat_t)
	if is.Uid != was.Uid || is.Gid != was.Gid {
		if err := f.Chown(int(was.Uid), int(was.Gid)); err != nil {
			return err
		}
	}
	if err := copyAttributes(path, "/proc/self/fd/"+strconv.Itoa(int(f.Fd()))); err != nil {
		return err
	}
	const all = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	return f.Chmod(old.Mode() & all)
}

// copyAttributes makes the extended attributes of the file to those of the file
// from: what users gave it and its access control list. The system's own come
// with the place.
func copyAttributes(from, to string) error {
	was, err := attributes(from)
	if err != nil {
		return err
	}
	if !was[accessList] { // one may have come from the directory
		if err := syscall.Removexattr(to, accessList); err != nil && !isAny(err, syscall.ENODATA, syscall.ENOTSUP) {
			return os.NewSyscallError("removexattr", err)
		}
	}
	for name := range was {
		if err := copyAttribute(from, to, name); err != nil {
			return os.NewSyscallError("setxattr "+name, err)
		}
	}
	return nil
}

// attributes are the names of the extended attributes that are copied.
func attributes(path string) (map[string]bool, error) {
	list, err := grown(func(buf []byte) (int, error) { return syscall.Listxattr(path, buf) })
	if isAny(err, syscall.ENOTSUP) {
		return nil, nil
	}
	names := map[string]bool{}
	for name := range bytes.SplitSeq(list, []byte{0}) {
		if text := string(name); strings.HasPrefix(text, "user.") || text == accessList {
			names[text] = true
		}
	}
	return names, os.NewSyscallError("listxattr", err)
}

func copyAttribute(from, to, name string) error {
	value, err := grown(func(buf []byte) (int, error) { return syscall.Getxattr(from, name, buf) })
	if err != nil {
		return err
	}
	return syscall.Setxattr(to, name, value, 0)
}

// grown calls get with a buffer that is large enough, as get says.
func grown(get func(buf []byte) (int, error)) ([]byte, error) {
	for size := 256; ; size *= 4 {
		buf := make([]byte, size)
		n, err := get(buf)
		if err != syscall.ERANGE || size > 1<<20 {
			return buf[:max(n, 0)], err
		}
	}
}
