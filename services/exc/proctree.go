package exc

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// signalDescendants sends sig to every process below root, those that changed
// their session or lost their parent included: the kernel hands orphans to
// root, which is a child subreaper.
//
// It walks /proc in order of process numbers and signals on sight, so that a
// crowd of forking processes does not outrun it. One pass may miss a process
// whose parent dies meanwhile: whoever wants all gone repeats until no child is
// left, which also covers a /proc that cannot be opened just now because the
// host is out of file descriptors.
func signalDescendants(root int, sig syscall.Signal) {
	proc, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer proc.Close()
	family := map[int]bool{root: true}
	for {
		names, err := proc.Readdirnames(64)
		if err != nil {
			return // the end of the directory
		}
		for _, name := range names {
			signalRelative(family, name, sig)
		}
	}
}

// signalRelative signals the process called name if its parent is in family,
// and adds it. Between the two it may end and, in theory, its number be given
// anew: numbers are handed out in a circle of at least 32768, so it is not.
func signalRelative(family map[int]bool, name string, sig syscall.Signal) {
	pid, err := strconv.Atoi(name)
	if err != nil {
		return // not a process
	}
	stat, err := os.ReadFile("/proc/" + name + "/stat")
	if err != nil {
		return // gone
	}
	if parent, ok := parentOf(stat); ok && family[parent] {
		family[pid] = true
		_ = syscall.Kill(pid, sig) // it may be gone, or beyond our rights
	}
}

// parentOf takes the parent's number from the text of /proc/N/stat. The
// command's name, in brackets, may itself hold brackets and blanks.
func parentOf(stat []byte) (int, bool) {
	end := bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[end+1:])
	if end < 0 || len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
