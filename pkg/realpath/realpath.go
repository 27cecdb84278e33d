// Package realpath resolves the symbolic links of paths that need not exist.
package realpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// linksMax is how many symbolic links lead to a file at most, as in Linux.
const linksMax = 40

// DirError is an error of a directory on the way to a file.
type DirError struct{ Err error }

func (e DirError) Error() string { return e.Err.Error() }

func (e DirError) Unwrap() error { return e.Err }

// Follow returns the absolute path without symbolic links that an absolute path stands
// for, as the kernel finds it. What does not exist yet is taken as it is written; missing
// is the number of such components at its end.
func Follow(path string) (real string, missing int, err error) {
	at, rest := "/", path
	for links := 0; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		switch name {
		case "", ".":
			continue
		case "..":
			at, missing = filepath.Dir(at), max(0, missing-1)
			continue
		}
		next := filepath.Join(at, name)
		to, err := os.Readlink(next)
		switch {
		case err == nil && links == linksMax:
			err = syscall.ELOOP
		case err == nil:
			links++
			if rest = strings.TrimRight(to+"/"+rest, "/"); filepath.IsAbs(to) {
				at = "/"
			}
			continue
		case errors.Is(err, syscall.EINVAL): // not a link
			at = next
			continue
		case errors.Is(err, fs.ErrNotExist):
			at = next
			missing++
			continue
		}
		if strings.Trim(rest, "/") != "" || errors.Is(err, syscall.ENOTDIR) {
			err = DirError{err}
		}
		return "", 0, err
	}
	return at, missing, nil
}
