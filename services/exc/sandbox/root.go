package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// notRoots are directories whose files are no files.
var notRoots = []string{"/proc", "/sys", "/dev"}

// linksMax is how many symbolic links lead to a directory at most, as in Linux.
const linksMax = 40

// Root checks that confined code can be given a directory to work in, and
// returns its path without symbolic links. home is the caller's home directory,
// empty if there is none: neither it nor a directory above it can be given, for
// that would give the user's keys with it.
func Root(dir, home string) (string, error) {
	real, err := firm(filepath.Clean(dir))
	if err != nil {
		return "", err
	}
	switch {
	case real == "/":
		return "", errors.New("the whole file system cannot be given to confined code: work in a directory of the project's own")
	case holds(real, home):
		return "", fmt.Errorf("%s holds your home directory, whose keys confined code must not see: work in a directory of the project's own", real)
	}
	for _, no := range notRoots {
		if Within(real, no) {
			return "", fmt.Errorf("%s cannot be given to confined code: its files belong to the system", real)
		}
	}
	return real, nil
}

// firm is a path without symbolic links. Links that this user, and with it code
// that was run before, could make lead elsewhere are not followed.
func firm(path string) (string, error) {
	at, rest := "/", strings.TrimPrefix(path, "/")
	for links := 0; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		next := filepath.Join(at, name) // also for ".." and "."
		to, err := os.Readlink(next)
		switch {
		case errors.Is(err, unix.EINVAL): // no link
			at = next
			continue
		case err != nil:
			return "", err
		case unix.Access(at, unix.W_OK) == nil:
			return "", fmt.Errorf("%s is a symbolic link that code could change: work in %s", next, to)
		}
		if links++; links > linksMax {
			return "", &os.PathError{Op: "open", Path: path, Err: unix.ELOOP}
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = strings.Trim(to+"/"+rest, "/")
	}
	return at, nil
}
