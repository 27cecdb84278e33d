package exc

import (
	"bytes"
	"io"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// walk is one way through /proc in order of process numbers. It uses bare
// system calls: what forks all the time must not outrun it.
type walk struct {
	sig     syscall.Signal
	seen    map[int]bool
	related func(pid int, p parentage) bool
}

// parentage is what the kernel knows of a process's origin.
type parentage struct{ parent, session int }

// signalDescendants sends sig to every process below root, those that changed
// their session or lost their parent included: the kernel hands orphans to
// root, which is a child subreaper.
//
// Each is signalled on sight. One walk may miss a process whose parent dies
// meanwhile: whoever wants all gone repeats until no child is left, which also
// covers a /proc that cannot be opened because the host is out of files.
func signalDescendants(root int, sig syscall.Signal) {
	family := map[int]bool{root: true}
	signalRelated(sig, func(pid int, p parentage) bool {
		if family[p.parent] {
			family[pid] = true
		}
		return family[p.parent]
	})
}

// killSession kills the processes of a session.
func killSession(session int) {
	related := func(_ int, p parentage) bool { return p.session == session }
	for range 20 { // usually two: it also meets the dead until their parent looks at them
		if !signalRelated(syscall.SIGKILL, related) {
			return
		}
	}
}

// signalRelated sends sig to all processes that are related, and reports
// whether there were any.
func signalRelated(sig syscall.Signal, related func(int, parentage) bool) (found bool) {
	proc, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(proc)
	w := &walk{sig: sig, seen: map[int]bool{}, related: related}
	return w.through(proc)
}

// through visits all processes. When it kills and reaches the end it goes back
// a few steps, as long as that shows relatives born since: new processes have
// the highest numbers, and one that only forks and exits lives for less time
// than a walk takes. Other signals are given once: they may be answered by
// forking.
func (w *walk) through(proc int) (found bool) {
	var batch [512]byte // some twenty names: short, because it ages
	var last int64
	for news := false; ; {
		here, err := unix.Seek(proc, 0, io.SeekCurrent)
		if err != nil {
			return found
		}
		n, err := unix.ReadDirent(proc, batch[:])
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
			if _, err := unix.Seek(proc, last, io.SeekStart); err != nil {
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
		if p, ok := parentageOf(name); ok && w.related(pid, p) {
			// It may be gone, or beyond our rights. That its number belongs to
			// another by now is only theory: numbers go round in a circle.
			_ = syscall.Kill(pid, w.sig)
			found = true
		}
	}
	return found
}

// parentageOf asks the kernel about the process of that number.
func parentageOf(pid string) (parentage, bool) {
	fd, err := unix.Open("/proc/"+pid+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return parentage{}, false // gone
	}
	defer unix.Close(fd)
	var stat [256]byte // what is of interest stands at the beginning
	n, err := unix.Read(fd, stat[:])
	if err != nil {
		return parentage{}, false
	}
	return parseStat(stat[:n])
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
