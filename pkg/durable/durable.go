// Package durable keeps files that survive crashes, full disks and other
// writers. It has one way to replace a file (Replace), one to lock a file, a
// directory or a name (Lock, LockFile), and one to append to a file of JSON
// objects (File), with two framings:
//
//	[                                             {"type":"meta","schema_version":1}
//	{"role":"user","content":"hello"},            {"type":"message","role":"user","text":"hello"}
//	{"role":"assistant","content":"good day"}
//	]
//
// Array is a real JSON array with one element per line: an append overwrites
// the closing bracket. Lines is one object per line. Either way an append is
// one write at the end and one fdatasync, however long the file is, and an
// error leaves the file unchanged. A write that a crash interrupted is repaired
// before the next one, and no acknowledged append is lost.
//
// Several processes may use one file: every append locks it with flock(2) and
// first reads what other processes have appended. The file may be edited, replaced
// and removed by other programs at any time.
package durable

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"
)

// FileMode and DirMode are the permissions of the files and directories that
// this package and its users create: only the owner has access.
const (
	FileMode fs.FileMode = 0o600
	DirMode  fs.FileMode = 0o700
)

// Replace atomically replaces or creates the named file, with FileMode: after a
// crash the file contains either its old content or all of data. The name has no
// directory part.
func Replace(root *os.Root, name string, data []byte) error {
	return ReplaceWith(root, name, FileMode, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// ReplaceWith is Replace with the given permissions and the content that write
// produces; after an error of write the old file is unchanged. Writes are
// buffered. A process that is killed meanwhile leaves a file "." + name + digits.
func ReplaceWith(root *os.Root, name string, mode fs.FileMode, write func(io.Writer) error) error {
	f, err := renameio.NewPendingFile(name, renameio.WithRoot(root), renameio.WithStaticPermissions(mode))
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 64<<10)
	if err = write(w); err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.CloseAtomicallyReplace()
	}
	if err != nil {
		return errors.Join(err, f.Cleanup())
	}
	return SyncDir(root)
}

// ReplacePath is ReplaceWith for a file in any directory.
func ReplacePath(path string, mode fs.FileMode, write func(io.Writer) error) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer root.Close()
	return ReplaceWith(root, filepath.Base(path), mode, write)
}

// SyncDir makes the names in a directory durable: without it a new file may be
// missing after a power failure, though its content was synced. It succeeds on
// file systems that cannot sync a directory.
func SyncDir(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// IsFull reports whether err says that the disk, or the user's quota, is full.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// Remedy returns what a person can do about an error of a file or directory, to
// append to a message that names it; empty for other errors.
func Remedy(err error) string {
	switch {
	case IsFull(err):
		return "; nothing of this was stored and what was there is intact: free some disk space and try again"
	case errors.Is(err, fs.ErrPermission):
		return "; check its owner and permissions"
	case errors.Is(err, syscall.EROFS):
		return "; it can be read only: mount its file system writable, or choose another directory"
	}
	return ""
}

// damaged separates the original name from a number in the names of quarantined
// files.
const damaged = ".damaged-"

// quarantine calls create with NAME.damaged-1, -2 and so on until a name does not
// exist yet, and returns that name.
func quarantine(name string, create func(free string) error) (string, error) {
	for n := 1; ; n++ {
		kept := fmt.Sprintf("%s%s%d", name, damaged, n)
		if err := create(kept); !errors.Is(err, fs.ErrExist) {
			return kept, err
		}
	}
}

// Quarantined returns the names of the quarantined parts of the named file.
func Quarantined(root *os.Root, name string) ([]string, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	names = slices.DeleteFunc(names, func(other string) bool { return !strings.HasPrefix(other, name+damaged) })
	return names, errors.Join(err, dir.Close())
}

// removeQuarantined removes the quarantined parts of the named file.
func removeQuarantined(root *os.Root, name string) error {
	names, err := Quarantined(root, name)
	for _, other := range names {
		if err == nil {
			err = root.Remove(other)
		}
	}
	return err
}

// writeNew creates a file; it fails with fs.ErrExist if the file exists.
func writeNew(root *os.Root, name string, data []byte, sync bool) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, FileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
