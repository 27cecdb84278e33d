package files

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// temporaryPrefix begins the names of files that are being written.
const temporaryPrefix = ".zino-"

// put makes data the content of the file. At every moment, also after a crash,
// the file has its earlier content or all of data, unless it can only be
// overwritten: then its earlier content is in a second file until that is done.
func (t *target) put(data []byte) error {
	if t.info != nil && t.info.Sys().(*syscall.Stat_t).Nlink > 1 {
		return t.overwrite(data) // its other hard links must have the same content
	}
	err := t.swap(data)
	// There are no rights to the directory, the new file cannot get the owner or
	// the attributes of the old one, or that is a mount point.
	if t.info != nil && isAny(err, syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.EXDEV, syscall.EBUSY, syscall.ENOTSUP, syscall.ENAMETOOLONG) {
		return t.overwrite(data)
	}
	return err
}

// isAny reports whether err is one of those errors of the system.
func isAny(err error, errnos ...syscall.Errno) bool {
	return slices.ContainsFunc(errnos, func(e syscall.Errno) bool { return errors.Is(err, e) })
}

// swap writes data to a file beside the target and renames it to the target.
func (t *target) swap(data []byte) error {
	dir := throughFD(t.dir)
	perm := fs.FileMode(0o666) // less the umask
	if t.info != nil {
		perm = 0o600 // until it gets the mode of the old one
	}
	f, err := temporary(dir, perm)
	if t.info != nil && errors.Is(err, fs.ErrNotExist) {
		return fail(WriteError, "%s cannot be replaced: no file can be made beside it", t.path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && t.info != nil {
		err = t.imitate(f)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = t.rename(f.Name())
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(dir)
}

// rename renames the file at path to the target. A new file does not replace one
// that another process has made meanwhile.
func (t *target) rename(path string) error {
	if t.info != nil {
		if !t.unchanged() {
			return errReplaced
		}
		return os.Rename(path, t.at())
	}
	switch err := unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, t.at(), unix.RENAME_NOREPLACE); {
	case errors.Is(err, fs.ErrExist):
		return errReplaced
	case isAny(err, syscall.EINVAL, syscall.ENOSYS): // not on this file system
		return os.Rename(path, t.at())
	default:
		return err
	}
}

// temporary makes a new file.
func temporary(dir string, perm fs.FileMode) (*os.File, error) {
	for {
		f, err := os.OpenFile(filepath.Join(dir, temporaryPrefix+rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// syncDir makes the names in a directory durable. Some file systems cannot, and a
// directory that cannot be listed cannot be synced: a change that has been made
// does not fail for that.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	if err = d.Sync(); isAny(err, syscall.EIO, syscall.ENOSPC, syscall.EDQUOT) {
		return err
	}
	return nil
}

// accessList is the extended attribute that holds a POSIX access control list.
const accessList = "system.posix_acl_access"

// overflowID is shown in a user namespace in place of all other users and groups.
const overflowID = 65534

// imitate gives f the owner, the permissions and the extended attributes of the
// target.
func (t *target) imitate(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	is, was := info.Sys().(*syscall.Stat_t), t.info.Sys().(*syscall.Stat_t)
	if t.sandbox && (was.Uid == overflowID || was.Gid == overflowID) {
		return syscall.EPERM // other users all have this number, and files cannot be given to them
	}
	if is.Uid != was.Uid || is.Gid != was.Gid {
		if err := f.Chown(int(was.Uid), int(was.Gid)); err != nil {
			return err
		}
	}
	if err := CopyAttributes(t.at(), throughFD(f)); err != nil {
		return err
	}
	const all = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	return f.Chmod(t.info.Mode() & all)
}

// CopyAttributes copies the extended attributes that users set, and the access
// control list. Those of the system come with the directory.
func CopyAttributes(from, to string) error {
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
		value, err := grown(func(buf []byte) (int, error) { return syscall.Getxattr(from, name, buf) })
		if err == nil {
			err = syscall.Setxattr(to, name, value, 0)
		}
		if name == accessList && isAny(err, syscall.EINVAL) {
			err = syscall.EPERM // it names users who do not exist in this namespace
		}
		if err != nil {
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

// overwrite writes data into the file itself. A copy of its content is kept
// beside it meanwhile, and put back should that fail.
func (t *target) overwrite(data []byte) error {
	f, err := os.OpenFile(t.at(), os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !os.SameFile(info, t.info) || !t.unchanged():
		err = errReplaced
	default:
		err = overwrite(f, throughFD(t.dir), info.Size(), data)
	}
	return errors.Join(err, f.Close())
}

// overwrite writes data to f, a file in dir.
func overwrite(f *os.File, dir string, size int64, data []byte) error {
	if length := int64(len(data)); length > size { // notice a full disk while the file is unchanged
		const keepSize = 1
		err := syscall.Fallocate(int(f.Fd()), keepSize, 0, length)
		if isAny(err, syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG) { // after other errors: not supported here
			return errors.Join(err, f.Truncate(size))
		}
	}
	kept, err := keep(f, dir)
	if err != nil {
		return fmt.Errorf("its former content cannot be kept while it is overwritten: %w", errors.Join(err, f.Truncate(size)))
	}
	if err = rewrite(f, data); err != nil {
		if failed := putBack(f, kept); failed != nil {
			if real, err := filepath.EvalSymlinks(kept); err == nil {
				kept = real
			}
			return fmt.Errorf("%w; its former content is in %s: %w", err, kept, failed)
		}
	}
	return errors.Join(err, os.Remove(kept))
}

func rewrite(f *os.File, data []byte) error {
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(data))); err != nil {
		return err
	}
	return f.Sync()
}

// keep copies the content of f to a new file in dir, or in the directory for
// temporary files where that is impossible, and returns its path.
func keep(f *os.File, dir string) (string, error) {
	path, err := copyTo(dir, f)
	if err != nil {
		path, err = copyTo(os.TempDir(), f)
	}
	return path, err
}

func copyTo(dir string, f *os.File) (string, error) {
	kept, err := temporary(dir, 0o600)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(kept, io.NewSectionReader(f, 0, 1<<62))
	if err == nil {
		err = kept.Sync()
	}
	if err = errors.Join(err, kept.Close()); err != nil {
		return "", errors.Join(err, os.Remove(kept.Name()))
	}
	return kept.Name(), nil
}

// putBack restores the content of f.
func putBack(f *os.File, kept string) error {
	k, err := os.Open(kept)
	if err != nil {
		return err
	}
	defer k.Close()
	n, err := io.Copy(io.NewOffsetWriter(f, 0), k)
	if err != nil {
		return err
	}
	if err := f.Truncate(n); err != nil {
		return err
	}
	return f.Sync()
}
