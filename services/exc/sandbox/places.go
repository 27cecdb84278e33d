package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// systemDirs hold the programs and settings of the host, for everybody to read.
var systemDirs = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store", "/gnu/store",
	"/sys/devices/system/cpu", // how many processors there are
}

// secrets lie in system directories and are nobody's business.
var secrets = []string{
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssl/private", "/etc/ssh",
	"/etc/sudoers", "/etc/sudoers.d", "/etc/zino", "/etc/credstore", "/etc/credstore.encrypted",
}

// System lists the directories that every confined run may read: those of the
// host's programs, and those of programs that path, a list as in $PATH, has
// elsewhere, with the files that such programs come with. home and what holds it
// are not among them.
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

// Companions are a directory of programs and those beside it that belong to
// them: libraries, and the versions that shims choose from.
func Companions(dir, home string) (list []string) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || !filepath.IsAbs(dir) || holds(real, home) || real == "/" {
		return nil
	}
	list = append(list, real)
	above := filepath.Dir(real)
	if holds(above, home) {
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
		if found, err := filepath.EvalSymlinks(filepath.Join(above, name)); err == nil && !holds(found, home) {
			list = append(list, found)
		}
	}
	return list
}

// holds reports whether dir is home or a directory above it.
func holds(dir, home string) bool {
	return home != "" && Within(home, dir)
}

// Within reports whether path is dir or lies below it. Both are clean.
func Within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// Outermost is list without what lies below others of it, sorted.
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

// Secrets are the files and directories within dirs that nobody is to read,
// although this user could: those of the host, and of more, all real paths.
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

// SecretOver is the secret that a path is, or lies in, empty if there is none.
func SecretOver(path string, more ...string) string {
	for _, secret := range append(more, secrets...) {
		if Within(path, secret) {
			return secret
		}
	}
	return ""
}

// without lists what dirs hold except for what is hidden, for means that can
// permit but not forbid.
func without(dirs, hidden []string) (list []string) {
	for _, dir := range dirs {
		list = append(list, spared(dir, hidden)...)
	}
	return list
}

// spared is dir if nothing in it is hidden, and else what is left of it.
func spared(dir string, hidden []string) (list []string) {
	if slices.Contains(hidden, dir) {
		return nil
	}
	if !slices.ContainsFunc(hidden, func(path string) bool { return Within(path, dir) }) {
		return []string{dir}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // what cannot be listed is not given
	}
	for _, e := range entries {
		if e.Type() == os.ModeSymlink {
			continue // it may be followed to what is given, and to nothing else
		}
		list = append(list, spared(filepath.Join(dir, e.Name()), hidden)...)
	}
	return list
}
