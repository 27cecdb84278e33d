package exc

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// walk is one way through /proc in order of process numbers. It uses bare
// system calls: what forks all the time must not outrun it.
type walk struct {
	proc    int // the directory, open
	sig     syscall.Signal
	seen    map[int]bool
	related func(pid int, p parentage) bool
}

// parentage is what the kernel knows of a process's origin.
type parentage struct{ parent, session int }

// openProc opens /proc to walk through, before somebody can see to it that this
// process opens nothing more. Without it a walk finds nobody.
func openProc() (fd int) {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1 // the host is out of files
	}
	return fd
}

// signalDescendants sends sig to every process below this one, those that
// changed their session or lost their parent included: the kernel hands orphans
// to this process, which is a child subreaper. It reports whether it found any.
//
// Each is signalled on sight. One walk may miss a process whose parent dies
// meanwhile: whoever wants all gone repeats until no child is left.
func signalDescendants(proc int, sig syscall.Signal) (found bool) {
	family := map[int]bool{os.Getpid(): true}
	return signalRelated(proc, sig, func(pid int, p parentage) bool {
		if family[p.parent] {
			family[pid] = true
		}
		return family[p.parent]
	})
}

// signalRelated sends sig to all processes that are related, and reports
// whether there were any.
func signalRelated(proc int, sig syscall.Signal, related func(int, parentage) bool) (found bool) {
	if _, err := unix.Seek(proc, 0, io.SeekStart); err != nil {
		return false
	}
	w := &walk{proc: proc, sig: sig, seen: map[int]bool{}, related: related}
	return w.through()
}

// pidsEnd is the first number that no process has: the kernel's own limit.
const pidsEnd = 1 << 22

// eachChild finds the children of this process without /proc, where they may be
// hidden, and which may be closed to a process that may open nothing more: it
// asks about each number. That takes up to half a second.
func eachChild(do func(pid int)) {
	end := pidsEnd
	if text, err := os.ReadFile("/proc/sys/kernel/pid_max"); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			end = n
		}
	}
	for pid := 1; pid < end; pid++ {
		if isChild(pid) {
			do(pid)
		}
	}
}

// isChild reports whether a process is a child of this one, alive or dead.
func isChild(pid int) bool {
	const look = unix.WEXITED | unix.WNOHANG | unix.WNOWAIT | unix.WALL
	return unix.Waitid(unix.P_PID, pid, nil, look, nil) == nil
}

// through visits all processes. When it kills and reaches the end it goes back
// a few steps, as long as that shows relatives born since: new processes have
// the highest numbers, and one that only forks and exits lives for less time
// than a walk takes. Other signals are given once: they may be answered by
// forking.
func (w *walk) through() (found bool) {
	var batch [512]byte // some twenty names: short, because it ages
	var last int64
	for news := false; ; {
		here, err := unix.Seek(w.proc, 0, io.SeekCurrent)
		if err != nil {
			return found
		}
		n, err := unix.ReadDirent(w.proc, batch[:])
		switch {
		case err != nil:
			return found
		case n > 0:
			last = here
			news = w.visit(batch[:n]) || news
			found = found || news
		case !news || w.sig != syscall.SIGKILL:
			return found
		default:
			news = false
			if _, err := unix.Seek(w.proc, last, io.SeekStart); err != nil {
				return found
			}
		}
	}
}

// visit signals the relatives in a batch of directory entries and reports
// whether there were any.
func (w *walk) visit(batch []byte) (found bool) {
	_, _, names := unix.ParseDirent(batch, -1, nil)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || w.seen[pid] {
			continue // not a process, or visited
		}
		w.seen[pid] = true
		if p, ok := parentageOf(w.proc, name); ok && w.related(pid, p) {
			// It may be gone, or beyond our rights. That its number belongs to
			// another by now is only theory: numbers go round in a circle.
			_ = syscall.Kill(pid, w.sig)
			found = true
		}
	}
	return found
}

// parentageOf asks the kernel about the process of that number.
func parentageOf(proc int, pid string) (parentage, bool) {
	fd, err := unix.Openat(proc, pid+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ownChild(pid) // gone, or nothing can be opened
	}
	defer unix.Close(fd)
	var stat [256]byte // what is of interest stands at the beginning
	n, err := unix.Read(fd, stat[:])
	if err != nil {
		return parentage{}, false
	}
	return parseStat(stat[:n])
}

// ownChild is the parentage of a child of this process, found out without a file.
func ownChild(pid string) (parentage, bool) {
	n, err := strconv.Atoi(pid)
	if err != nil || !isChild(n) {
		return parentage{}, false
	}
	session, err := unix.Getsid(n)
	return parentage{os.Getpid(), session}, err == nil
}

// parseStat takes the parent and the session from the text of /proc/N/stat:
// "N (name) state parent group session …". The name may itself hold brackets
// and blanks.
func parseStat(stat []byte) (parentage, bool) {
	end := bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[end+1:])
	if end < 0 || len(fields) < 4 {
		return parentage{}, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return parentage{}, false
	}
	session, err := strconv.Atoi(string(fields[3]))
	if err != nil {
		return parentage{}, false
	}
	return parentage{parent, session}, true
}
