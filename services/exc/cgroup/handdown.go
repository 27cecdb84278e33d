package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// leaf is where this process moves to if its group must hold none in order to
// hand controllers down.
const leaf = "zino-exc-self"

// handDown has home hand the controllers to dir, and dir to its groups, and
// reports for which limits that worked.
func handDown(home, dir string) map[string]bool {
	enforced := map[string]bool{}
	for limit, controller := range controllers {
		if !slices.Contains(words(home, "cgroup.controllers"), controller) {
			continue
		}
		enforced[limit] = pass(home, controller) && pass(dir, controller)
	}
	return enforced
}

// pass has a group hand a controller to those below it, which a group with
// processes cannot, except for the root: one that holds just this process is
// left for another before. The kernel does not refuse it for the controllers of
// tasks and CPU, but then the groups below take no process any more.
func pass(group, controller string) bool {
	if slices.Contains(words(group, "cgroup.subtree_control"), controller) {
		return true
	}
	if !root(group) && len(words(group, "cgroup.procs")) > 0 && !stepAside(group) {
		return false
	}
	return write(group, "cgroup.subtree_control", "+"+controller) == nil
}

// root reports whether a group is the whole hierarchy: no other lacks a type.
func root(group string) bool {
	_, err := os.Stat(filepath.Join(group, "cgroup.type"))
	return os.IsNotExist(err)
}

// stepAside moves this process into a group below its own, if it is alone
// there: other people's processes are not moved.
func stepAside(group string) bool {
	self := strconv.Itoa(os.Getpid())
	if !slices.Equal(words(group, "cgroup.procs"), []string{self}) {
		return false
	}
	dir := filepath.Join(group, leaf)
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return false
	}
	return write(dir, "cgroup.procs", self) == nil
}

// words are the words of a group's file, none if it cannot be read.
func words(group, file string) []string {
	text, err := os.ReadFile(filepath.Join(group, file))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

func write(group, file, text string) error {
	f, err := os.OpenFile(filepath.Join(group, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
