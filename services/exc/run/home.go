package run

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"zino/pkg/durable"
	"zino/pkg/rpc"
	"zino/proto"
)

// IsHome reports whether name can be that of a home: a SHA-256 in lower-case hexadecimal
// digits.
func IsHome(name string) bool {
	b, err := hex.DecodeString(name)
	return err == nil && len(b) == 32 && name == hex.EncodeToString(b)
}

// homeIn is the path of a home in a unit's directory of homes, without symbolic links.
func homeIn(homes, name string) (string, error) {
	if homes == "" || !IsHome(name) {
		return "", proto.Errorf(proto.CodeInvalid, "no home %q in this unit", name)
	}
	real, err := filepath.EvalSymlinks(homes)
	return filepath.Join(real, name), err
}

// RemoveUnitHome has a unit, which the host starts for a connection to socket, remove a
// home.
func RemoveUnitHome(ctx context.Context, socket, home string) error {
	stdin, w, err := os.Pipe() // each unit there expects standard input
	if err != nil {
		return err
	}
	defer closeAll(stdin, w)
	client := &rpc.Client{Service: "run", Path: socket, Dialed: func(nc net.Conn) error { return passFile(nc, stdin) }}
	defer client.Close()
	_, err = rpc.Call(ctx, client, proto.UnitRemoveHome, proto.RemoveHome{Home: home})
	return err
}

// OpenHome makes a directory that is kept for the next start of a program, or finds it.
// The error is invalid if what is in it takes more than max bytes on disk.
func OpenHome(dir string, max int64) error {
	if err := os.MkdirAll(dir, durable.DirMode); err != nil {
		return err
	}
	fi, err := os.Lstat(dir)
	if err == nil && !fi.IsDir() {
		err = &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return err
	}
	if n := sizeOf(dir); n > max {
		return proto.Errorf(proto.CodeInvalid, "the home of this program, %s, takes %d MiB, more than %s: remove what it does not need, or all of it", dir, n>>20, ByteCount(max))
	}
	return nil
}

// sizeOf is how many bytes on disk the files below dir take. What cannot be read, or is
// being removed, does not count.
func sizeOf(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if fi, err := d.Info(); err == nil {
			if st, ok := fi.Sys().(*syscall.Stat_t); ok {
				n += st.Blocks * 512
			}
		}
		return nil
	})
	return n
}

// RemoveAll removes a directory with all that code has put there, also where code has
// taken permissions away.
func RemoveAll(dir string) error {
	err := os.RemoveAll(dir)
	if errors.Is(err, fs.ErrPermission) {
		err = errors.Join(grantAccess(dir), os.RemoveAll(dir))
	}
	return err
}

// grantAccess gives this user the permissions that code has taken away from a
// directory and from those below it. A symbolic link in its place is not followed.
func grantAccess(dir string) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	if err := errors.Join(os.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700), unix.Close(fd)); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = root.Chmod(path, 0o700) // before it is read
		}
		return err
	})
}
