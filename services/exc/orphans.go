package exc

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// orphans are the processes that a supervisor leaves when it is killed. They come
// to this process, which is a child subreaper, and must be told from its other
// children, whose end is none of our business.
//
// A supervisor begins in a session of its own, which is not this process's, and
// nobody ever enters a session that is there: what descends from a run is never
// in the session of this process. So a child of this process is an orphan of a
// run if it is in another session and is no supervisor. This program starts none
// but supervisors in sessions of their own.
type orphans struct {
	once        sync.Once
	proc        int          // the directory /proc
	mu          sync.RWMutex // held for reading while a supervisor is born, which nobody knows yet
	supervisors sync.Map     // the process numbers of those alive
}

// orphanage is that of this process.
var orphanage orphans

// start starts a supervisor.
func (o *orphans) start(supervisor *exec.Cmd) error {
	o.once.Do(o.adopt)
	o.mu.RLock()
	defer o.mu.RUnlock()
	err := supervisor.Start()
	if err == nil {
		o.supervisors.Store(supervisor.Process.Pid, true)
	}
	return err
}

// adopt has the kernel hand orphans to this process.
func (o *orphans) adopt() {
	o.proc = openProc()
	// It cannot fail on a kernel that has it (Linux 3.4).
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// forget says that a supervisor has been waited for.
func (o *orphans) forget(supervisor *exec.Cmd) { o.supervisors.Delete(supervisor.Process.Pid) }

// end ends all orphans. It goes on until none is left: when one dies, its
// children become orphans.
func (o *orphans) end(limit time.Duration) error {
	over := time.Now().Add(limit)
	for pause := time.Millisecond; o.pass(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(over) {
			return errUnkillable
		}
		time.Sleep(pause)
	}
	return nil
}

// pass kills all orphans that it finds, and reports whether there were any. Only
// here are they waited for, and by one pass at a time: one that was there when
// the pass began is found, alive or dead.
func (o *orphans) pass() (found bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, pid := range o.kill() {
		wait(pid)
		found = true
	}
	if found {
		return true
	}
	eachChild(func(pid int) { // those that /proc does not show
		if session, err := unix.Getsid(pid); err == nil && o.has(pid, session) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			wait(pid)
			found = true
		}
	})
	return found
}

// kill kills the orphans that /proc shows with all that descends from them, and
// returns the orphans.
func (o *orphans) kill() (list []int) {
	self, family := os.Getpid(), map[int]bool{}
	signalRelated(o.proc, syscall.SIGKILL, func(pid int, p parentage) bool {
		orphan := p.parent == self && o.has(pid, p.session)
		if orphan {
			list = append(list, pid)
		}
		family[pid] = orphan || family[p.parent]
		return family[pid]
	})
	return list
}

// has reports whether a child of this process is an orphan.
func (o *orphans) has(child, session int) bool {
	own, err := unix.Getsid(0)
	_, supervisor := o.supervisors.Load(child)
	return err == nil && session != own && !supervisor
}

// wait takes note of a child's death, if it is dead.
func wait(child int) { _, _ = syscall.Wait4(child, nil, syscall.WNOHANG|syscall.WALL, nil) }
