package durable

import (
	"errors"
	"io/fs"
	"syscall"
)

// IsFull reports whether err says that the disk, or the user's part of it, is
// full.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// Remedy is what a person can do about an error of a file or directory, as the
// end of a message that names it; empty if nothing is known.
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
