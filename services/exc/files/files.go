// Package files carries out the tools read, write and edit. They work on the
// file system as it is, with the rights of the process: the directory that
// relative paths start from is a convenience and no boundary, unless there are
// Bounds.
//
// A change replaces a file atomically where that is possible, and nothing that
// was in a file is lost if a change fails. Changes of one file follow each
// other, whatever name they reach it by and whatever process makes them.
package files

import (
	"path/filepath"
	"strings"
)

// ReadMax is how many bytes of a file read returns at most.
const ReadMax = 51200

// EditMax is the size in bytes of the largest file that edit reads, and writes.
const EditMax = 64 << 20

// Files carries out the tools. It is safe for concurrent use.
type Files struct {
	locks  *locks
	bounds *Bounds // nil: none
}

// New makes a Files.
func New() *Files { return &Files{locks: &locks{held: map[identity]*queue{}}} }

// Within is f with bounds.
func (f *Files) Within(b Bounds) *Files { return &Files{locks: f.locks, bounds: &b} }

// Reply is what a call that succeeded came to. Calls that failed bring an
// *Error.
type Reply struct {
	// Data is a Content, a Written or an Edited.
	Data any
	// Diff is what changed, as a unified diff: empty if nothing did, or if it
	// cannot be shown.
	Diff string
}

// locate is the path that a call means. It is not cleaned: behind a symbolic
// link ".." leads elsewhere than the text suggests.
func locate(root, path string) (string, error) {
	switch {
	case path == "":
		return "", fail(InvalidInput, "The path is empty.")
	case strings.ContainsRune(path, 0):
		return "", fail(InvalidInput, "The path holds a NUL character.")
	case filepath.IsAbs(path):
		return path, nil
	}
	return strings.TrimSuffix(root, "/") + "/" + path, nil
}
