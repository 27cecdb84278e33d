package exc

import (
	"math"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zino/services/exc/cgroup"
)

const (
	// superviseArg is the hidden first argument of a supervisor.
	superviseArg = "--zino-exc-supervise"
	// restrictArg is the hidden first argument of the process that becomes a
	// confined command.
	restrictArg = "--zino-exc-restrict"
	// superviseName is what a supervisor is called in lists of processes.
	superviseName = "zino-exc-run"
	// envMark stands before each variable meant for the command, which keeps
	// the supervisor's own Go runtime from obeying it (GODEBUG, GOGC).
	envMark = "+"

	lifelineFD = 3 // its end of file means: stop the command
	statusFD   = 4 // takes the report
	groupFD    = 5 // the command's control group, if it has one

	restrictFD = 3 // the report's in the process that becomes a confined command
)

// supervisor runs one command and leaves nothing of it behind. One goroutine
// reaps, the other kills.
type supervisor struct {
	grace   time.Duration // between SIGTERM and SIGKILL
	grouped bool          // the command has a control group
	plan    string        // that the command is confined by; empty: none; scopeOnly: by signals
	proc    int           // the directory /proc
	ending  int           // the file that ends the control group
	stop    chan struct{} // closed when exc wants an end, or is gone
	ended   chan struct{} // closed when the command has ended
}

// fruitlessMax is how often a walk may find nobody before children are looked
// for in a slower way. Once or twice is usual: this process is about to end.
const fruitlessMax = 4

// superviseArgs is how many arguments stand before the command's: the grace in
// milliseconds, "group" if there is one, the plan, the umask, and the command's
// path.
const superviseArgs = 5

// supervise is a supervisor's life.
func supervise(args []string) {
	runtime.LockOSThread() // the death signal of the command is tied to this thread
	s := &supervisor{stop: make(chan struct{}), ended: make(chan struct{})}
	s.settle(args)
	go s.watch()
	if err := s.enter(); err != nil {
		tell(statusFD, refusalLine(err))
		return
	}
	s.arm()
	pid, err := s.start(args[3], args[4], args[superviseArgs:])
	if err != nil {
		tell(statusFD, endLine(unstarted, errno(err)))
		return
	}
	silence()
	go s.guard()
	go s.kill()
	tell(statusFD, endOf(s.reap(pid)))
}

// settle makes this process fit for its work.
func (s *supervisor) settle(args []string) {
	closeOnExec()
	if grace, err := strconv.Atoi(args[0]); err == nil {
		s.grace = time.Duration(grace) * time.Millisecond
	}
	s.grouped, s.plan = args[1] != "", args[2]
	// It cannot fail on a kernel that has it (Linux 3.4).
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// arm opens what it takes to end the command. Code that is not confined can
// change the limits of this process until it opens nothing more.
func (s *supervisor) arm() {
	s.proc, s.ending = openProc(), -1
	if !s.grouped {
		return
	}
	if file, err := cgroup.OpenKill(groupFD); err == nil {
		s.ending = file
	}
}

// closeOnExec keeps all files but the standard ones from the command: those of
// the supervisor, and those that exc itself was started with.
func closeOnExec() {
	if unix.CloseRange(lifelineFD, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) != nil {
		closeEachOnExec(lifelineFD) // before Linux 5.11
	}
}

// closeEachOnExec marks the open files from that number on one by one.
func closeEachOnExec(from int) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		unix.CloseOnExec(lifelineFD)
		unix.CloseOnExec(statusFD)
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= from {
			unix.CloseOnExec(fd)
		}
	}
}

// guard makes this process outlive all signals but SIGKILL: only the lifeline
// ends it. It comes after the command's start, which must not wait for it.
func (s *supervisor) guard() {
	// Caught, not ignored: what is ignored stays so in children.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	_ = os.WriteFile("/proc/self/comm", []byte(superviseName), 0) // for people; nothing depends on it
}

// watch waits for exc to want an end, or to die.
func (s *supervisor) watch() {
	var b [1]byte
	for {
		if _, err := syscall.Read(lifelineFD, b[:]); err != syscall.EINTR {
			close(s.stop)
			return
		}
	}
}

// reap collects every process that ends below this one until none is left, and
// returns the command's status. While the command lives it waits; then it
// first looks whether anything is left that the killer must be woken for.
func (s *supervisor) reap(command int) syscall.WaitStatus {
	var end, ws syscall.WaitStatus
	options := unix.WALL
	for over := false; ; {
		pid, err := syscall.Wait4(-1, &ws, options, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return end // ECHILD: no child, and so no descendant either
		case pid == command:
			end, over = ws, true
			options |= unix.WNOHANG
		case pid == 0 && over:
			over = false
			options &^= unix.WNOHANG
			close(s.ended)
		}
	}
}

// kill ends all descendants, once the command has ended by itself or must. It
// goes on until reap finds none left and the process exits: a pass can miss
// one that is just being born.
func (s *supervisor) kill() {
	select {
	case <-s.ended:
	case <-s.stop:
		signalDescendants(s.proc, syscall.SIGTERM)
		time.Sleep(s.grace)
	}
	if s.grouped {
		_ = cgroup.KillWith(s.ending) // at once, however many they are; the rest is for what left the group
	}
	fruitless := 0
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if !signalDescendants(s.proc, syscall.SIGKILL) {
			fruitless++
		}
		if fruitless > fruitlessMax { // somebody is left, whom /proc does not show
			eachChild(func(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) })
		}
		time.Sleep(pause)
	}
}

// start starts the command in a group of its own, in the session that exc made
// for this process, and with its three standard files. It dies should this
// process be killed. A confined one is started by a process that lays down its
// rights first. Of what this process makes for the confinement before, the modes
// are its own: umask, where there is one, holds from here.
func (s *supervisor) start(umask, path string, argv []string) (int, error) {
	if mask, err := strconv.Atoi(umask); err == nil {
		unix.Umask(mask)
	}
	attr := &syscall.ProcAttr{
		Env:   commandEnv(os.Environ()),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, UseCgroupFD: s.grouped, CgroupFD: groupFD},
	}
	if s.plan != "" {
		argv = append([]string{superviseName, restrictArg, s.plan, path}, argv...)
		attr.Env, attr.Files = os.Environ(), append(attr.Files, statusFD)
		path = ownProgram
	}
	return syscall.ForkExec(path, argv, attr)
}

// commandEnv is the part of env that is meant for the command.
func commandEnv(env []string) []string {
	var own []string
	for _, entry := range env {
		if rest, ok := strings.CutPrefix(entry, envMark); ok {
			own = append(own, rest)
		}
	}
	return own
}

// supervisorEnv is the environment of a supervisor whose command gets env.
func supervisorEnv(env []string) []string {
	marked := []string{"GOMAXPROCS=1", "GOGC=off"}
	for _, entry := range env {
		marked = append(marked, envMark+entry)
	}
	return marked
}

// silence points standard output and error, which are the command's, away from
// here: exc sees their end when the command's last process is gone.
func silence() {
	for fd := 1; fd <= 2; fd++ {
		_ = unix.Dup3(0, fd, 0) // fails only for numbers that are not open
	}
}

// tell writes a line of the report to fd. If it cannot be written, exc is gone
// and nobody is left to tell.
func tell(fd int, line string) {
	_, _ = syscall.Write(fd, []byte(line))
}

// errno is the system's number of an error, 0 if it has none.
func errno(err error) int {
	if n, ok := err.(syscall.Errno); ok {
		return int(n)
	}
	return 0
}
