// Package durable keeps files that must survive crashes, full disks and other
// writers. It replaces a file atomically (Replace), and it appends to a JSON
// array in a file (Array) and to a file of JSON lines (Lines) at a cost that
// does not depend on their length.
//
// An array lies in its file as a real JSON array with one element per line:
//
//	[
//	{"role":"user","content":"hello"},
//	{"role":"assistant","content":"good day"}
//	]
//
// An append overwrites the closing bracket with one write and is acknowledged
// after one fdatasync. Whatever a crash leaves of that write is mended when
// the file is next used, and nothing that was acknowledged is lost. Several
// processes may use one directory: every access holds a lock on the file and
// first picks up what others have appended. A Hold is a lock for work that takes
// longer than that.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"
)

// FileMode and DirMode are the permissions of everything that this package and
// its users make: what is kept is private.
const (
	FileMode fs.FileMode = 0o600
	DirMode  fs.FileMode = 0o700
)

// Replace puts data in the place of the named file, or makes it. The file
// holds its former content or all of data at every moment, also after a crash.
// The name has no directory part.
func Replace(root *os.Root, name string, data []byte) error {
	f, err := renameio.NewPendingFile(name, renameio.WithRoot(root), renameio.WithStaticPermissions(FileMode))
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.CloseAtomicallyReplace()
	}
	if err != nil {
		return errors.Join(err, f.Cleanup())
	}
	return SyncDir(root)
}

// SyncDir makes the names in a directory durable: a new file is only there
// after a power failure if its directory has been synced too.
func SyncDir(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// keepAside gives the named file the further name NAME.damaged-N with the
// first free N, and returns that. Where the file system has no links the
// file's data is copied.
func keepAside(root *os.Root, name string, data []byte) (string, error) {
	for n := 1; ; n++ {
		kept := fmt.Sprintf("%s%s%d", name, damaged, n)
		err := root.Link(name, kept)
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EPERM) {
			err = copyAside(root, kept, data, true)
		}
		if !errors.Is(err, fs.ErrExist) {
			return kept, err
		}
	}
}

// IsKept reports whether name is that of a damaged file that was kept aside.
func IsKept(name string) bool { return strings.Contains(name, damaged) }

// damaged comes behind a file's name, and before a number, in the names of what
// is kept of it.
const damaged = ".damaged-"

// copyAside writes a file that must not be there, and has it on disk if sync is
// set.
func copyAside(root *os.Root, name string, data []byte, sync bool) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, FileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if sync {
		err = errors.Join(err, f.Sync())
	}
	return errors.Join(err, f.Close())
}
