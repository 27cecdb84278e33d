package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// systemDirs contain the programs and settings of the host, readable by all users.
var systemDirs = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store", "/gnu/store",
	"/sys/devices/system/cpu", // how many processors there are
}

// secrets lie in system directories and are always hidden.
var secrets = []string{
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssl/private", "/etc/ssh",
	"/etc/sudoers", "/etc/sudoers.d", "/etc/zino", "/etc/credstore", "/etc/credstore.encrypted",
}

// System lists the directories that every confined run may read: those of the
// host's programs, and those that path, a list as in $PATH, names elsewhere, with
// their Companions. home and the directories above it are not among them.
func System(path, home string) (dirs []string) {
	for _, dir := range systemDirs {
		if real, err := filepath.EvalSymlinks(dir); err == nil && real == dir {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range filepath.SplitList(path) {
		dirs = append(dirs, Companions(dir, home)...)
	}
	return Outermost(dirs)
}

// Companions are a directory of programs and those beside it that the programs
// need: libraries, and the versions that shims choose from.
func Companions(dir, home string) (list []string) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || !filepath.IsAbs(dir) || contains(real, home) || real == "/" {
		return nil
	}
	list = append(list, real)
	above := filepath.Dir(real)
	if contains(above, home) {
		return list
	}
	beside := []string{"lib", "lib64", "libexec", "include", "pyvenv.cfg"}
	switch {
	case filepath.Base(real) == "shims":
		return append(list, above)
	case above != filepath.Join(home, ".local"): // whose share/ holds keys
		beside = append(beside, "share")
	}
	for _, name := range beside {
		if found, err := filepath.EvalSymlinks(filepath.Join(above, name)); err == nil && !contains(found, home) {
			list = append(list, found)
		}
	}
	return list
}

// contains reports whether dir is home or a directory above it.
func contains(dir, home string) bool {
	return home != "" && Within(home, dir)
}

// Within reports whether path is dir or lies below it. Both are clean.
func Within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// Outermost sorts list and drops what lies below other entries.
func Outermost(list []string) []string {
	sorted := slices.Sorted(slices.Values(list))
	var outer []string
	for _, path := range sorted {
		if !slices.ContainsFunc(outer, func(dir string) bool { return Within(path, dir) }) {
			outer = append(outer, path)
		}
	}
	return outer
}

// Secrets are the files and directories within dirs that code must not read although
// this user can: those of the host, and more, all real paths.
func Secrets(dirs []string, more ...string) (list []string) {
	for _, path := range append(more, secrets...) {
		if slices.ContainsFunc(dirs, func(dir string) bool { return Within(path, dir) }) && unix.Access(path, unix.R_OK) == nil {
			if real, err := filepath.EvalSymlinks(path); err == nil && real == path {
				list = append(list, path)
			}
		}
	}
	return list
}

// SecretOver returns the secret that contains path; empty: path is in none.
func SecretOver(path string, more ...string) string {
	for _, secret := range append(more, secrets...) {
		if Within(path, secret) {
			return secret
		}
	}
	return ""
}

// without lists the contents of dirs except for what is hidden: Landlock can permit
// paths but not exclude others below them.
func without(dirs, hidden []string) (list []string) {
	for _, dir := range dirs {
		list = append(list, spared(dir, hidden)...)
	}
	return list
}

// spared is dir if nothing in it is hidden, else its entries that are not.
func spared(dir string, hidden []string) (list []string) {
	if slices.Contains(hidden, dir) {
		return nil
	}
	if !slices.ContainsFunc(hidden, func(path string) bool { return Within(path, dir) }) {
		return []string{dir}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // a directory that cannot be listed is not permitted
	}
	for _, e := range entries {
		if e.Type() == os.ModeSymlink {
			continue // following it needs no right; its target needs one
		}
		list = append(list, spared(filepath.Join(dir, e.Name()), hidden)...)
	}
	return list
}

// notRoots are directories of kernel interfaces.
var notRoots = []string{"/proc", "/sys", "/dev"}

// linksMax limits the symbolic links in a path, as Linux does.
const linksMax = 40

// Root checks that confined code can work in a directory, and returns its path
// without symbolic links. home, the user's home directory or empty, and the
// directories above it are refused: they contain the user's keys.
func Root(dir, home string) (string, error) {
	real, err := firm(filepath.Clean(dir))
	if err != nil {
		return "", err
	}
	switch {
	case real == "/":
		return "", errors.New("the whole file system cannot be given to confined code: work in a directory of the project's own")
	case contains(real, home):
		return "", fmt.Errorf("%s contains your home directory, whose keys confined code must not see: work in a directory of the project's own", real)
	}
	for _, no := range notRoots {
		if Within(real, no) {
			return "", fmt.Errorf("%s cannot be given to confined code: its files belong to the system", real)
		}
	}
	return real, nil
}

// firm resolves the symbolic links in a path. A link in a directory that this user
// can write to is an error: code that was run before can change where it leads.
func firm(path string) (string, error) {
	at, rest := "/", strings.TrimPrefix(path, "/")
	for links := 0; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		next := filepath.Join(at, name) // also for ".." and "."
		to, err := os.Readlink(next)
		switch {
		case errors.Is(err, unix.EINVAL): // not a link
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
