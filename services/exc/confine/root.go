package confine

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// notRoots are directories whose files are no files.
var notRoots = []string{"/proc", "/sys", "/dev"}

// Root checks that confined code can be given a directory to work in, and
// returns its path without symbolic links. home is the caller's home directory,
// empty if there is none: neither it nor a directory above it can be given, for
// that would give the user's keys with it.
func Root(dir, home string) (string, error) {
	dir = filepath.Clean(dir)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	if link := loose(dir); link != "" {
		return "", fmt.Errorf("%s is a symbolic link that code can change: work in %s", link, real)
	}
	switch {
	case real == "/":
		return "", fmt.Errorf("the whole file system cannot be given to confined code: work in a directory of the project's own")
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

// loose is the first part of a path that is a symbolic link and that this user,
// and with it code that was run before, could make lead elsewhere.
func loose(path string) string {
	for at, rest := "/", strings.TrimPrefix(path, "/"); rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		dir := at
		at = filepath.Join(at, name)
		var st unix.Stat_t
		if unix.Lstat(at, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK && unix.Access(dir, unix.W_OK) == nil {
			return at
		}
	}
	return ""
}
