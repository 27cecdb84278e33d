package exc

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// intruder is what stood in a protected place after a run.
type intruder struct {
	name  string // of the place, below the root
	found bool
	aside string // where it is now; empty: it was removed
	err   error  // why the place is not what it was
}

// moveAside gives what is at a place a name that nobody obeys and that nobody
// could have foreseen. What cannot be given one is removed.
func (i *intruder) moveAside(dir *os.File, base string) error {
	suffix := ".refused-" + strings.ToLower(rand.Text()[:8])
	err := unix.Renameat(int(dir.Fd()), base, int(dir.Fd()), base+suffix)
	switch {
	case err == nil:
		i.found, i.aside = true, i.name+suffix
		return nil
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist):
		return err
	}
	err = os.RemoveAll(throughFD(dir) + "/" + base)
	i.found = err == nil
	return err
}

// String says in a line what became of it.
func (i intruder) String() string {
	line := "The sandbox protects " + i.name
	switch {
	case i.aside != "":
		line += ", and what was made or changed there during the run is now " + i.aside + ": only the user can put it in force."
	case i.found:
		line += ", and what was made there during the run was removed."
	}
	if i.err != nil {
		line += fmt.Sprintf(" It could not be made what it was: %v: look at it before you use it.", i.err)
	}
	return line
}

// where is the name under which it is to be found, empty if it was removed.
func (i intruder) where() string {
	if i.aside == "" && i.err != nil {
		return i.name
	}
	return i.aside
}

// within does something in a directory below an open one. path has no symbolic
// links.
func within(dir *os.File, path string, do func(dir *os.File) error) error {
	if path == "." {
		return permitted(dir, func() error { return do(dir) })
	}
	first, rest, _ := strings.Cut(path, "/")
	if rest == "" {
		rest = "."
	}
	return permitted(dir, func() error {
		next, err := openAt(int(dir.Fd()), first, unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer next.Close()
		return within(next, rest, do)
	})
}

// permitted does something in a directory. If this user lacks the rights to it,
// which code may have taken away, they are given meanwhile.
func permitted(dir *os.File, do func() error) error {
	err := do()
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	const all = 0o700
	info, failed := dir.Stat()
	if failed != nil || info.Mode().Perm()&all == all {
		return err
	}
	if err := os.Chmod(throughFD(dir), info.Mode()|all); err != nil {
		return err
	}
	return errors.Join(do(), os.Chmod(throughFD(dir), info.Mode()))
}

// throughFD is a path that leads to an open file, wherever that is by now.
func throughFD(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }
