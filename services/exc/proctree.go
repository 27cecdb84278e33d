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
	sig    syscall.Signal
	seen   map[int]bool
	family map[int]bool
}

// signalDescendants sends sig to every process below root, those that changed
// their session or lost their parent included: the kernel hands orphans to
// root, which is a child subreaper.
//
// Each is signalled on sight. One walk may miss a process whose parent dies
// meanwhile: whoever wants all gone repeats until no child is left, which also
// covers a /proc that cannot be opened because the host is out of files.
func signalDescendants(root int, sig syscall.Signal) {
	proc, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(proc)
	w := &walk{sig: sig, seen: map[int]bool{}, family: map[int]bool{root: true}}
	w.through(proc)
}

// through visits all processes. When it kills and reaches the end it goes back
// a few steps, as long as that shows relatives born since: new processes have
// the highest numbers, and one that only forks and exits lives for less time
// than a walk takes. Other signals are given once: they may be answered by
// forking.
func (w *walk) through(proc int) {
	var batch [512]byte // some twenty names: short, because it ages
	var last int64
	for news := false; ; {
		here, err := unix.Seek(proc, 0, io.SeekCurrent)
		if err != nil {
			return
		}
		n, err := unix.ReadDirent(proc, batch[:])
		switch {
		case err != nil:
			return
		case n > 0:
			last = here
			news = w.visit(batch[:n]) || news
		case !news || w.sig != syscall.SIGKILL:
			return
		default:
			news = false
			if _, err := unix.Seek(proc, last, io.SeekStart); err != nil {
				return
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
		if parent, ok := parentNow(name); ok && w.family[parent] {
			w.family[pid] = true
			// It may be gone, or beyond our rights. That its number belongs to
			// another by now is only theory: numbers go round in a circle.
			_ = syscall.Kill(pid, w.sig)
			found = true
		}
	}
	return found
}

// parentNow asks the kernel for the parent of the process of that number.
func parentNow(pid string) (int, bool) {
	fd, err := unix.Open("/proc/"+pid+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false // gone
	}
	defer unix.Close(fd)
	var stat [256]byte // what is of interest stands in the first 40
	n, err := unix.Read(fd, stat[:])
	if err != nil {
		return 0, false
	}
	return parentOf(stat[:n])
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
