package run

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zino/services/exc/cgroup"
	"zino/services/exc/sandbox"
)

const (
	// superviseArg is the hidden first argument of a supervisor.
	superviseArg = "--zino-exc-supervise"
	// guardArg is the hidden first argument of a supervisor's guard, before those of the
	// supervisor.
	guardArg = "--zino-exc-guard"
	// restrictArg is the hidden first argument of the process that becomes a
	// confined command.
	restrictArg = "--zino-exc-restrict"
	// superviseName is the name of a supervisor in lists of processes.
	superviseName = "zino-exc-run"
	// envMark stands before each variable meant for the command, which keeps
	// the supervisor's own Go runtime from obeying it (GODEBUG, GOGC).
	envMark = "+"
	// ownProgram is this very program, even if its file was replaced or cannot be
	// seen.
	ownProgram = "/proc/self/exe"

	lifelineFD = 3 // a byte means: stop the command; its end of file: at once
	statusFD   = 4 // takes the report
	groupFD    = 5 // the command's control group, if it has one

	restrictFD = 3 // takes the report in the process that becomes a confined command

	// How many arguments stand before the command's: the grace in milliseconds,
	// "group" if there is one, the plan as JSON, the umask, "stay" if processes that
	// it leaves run on, and the program; and for restrict: plan, program.
	superviseArgs = 6
	restrictArgs  = 2
)

// hooked is set by Supervise.
var hooked atomic.Bool

// Hooked reports whether Supervise was called. Without it, runs would start
// ordinary copies of this program.
func Hooked() bool { return hooked.Load() }

// Supervise must be the first call of main in every program that runs commands,
// TestMain included. It returns at once, except in the copies of the program that
// Start makes: there it does their work and never returns.
func Supervise() {
	hooked.Store(true)
	if len(os.Args) < 2 {
		return
	}
	args := os.Args[2:]
	switch {
	case os.Args[1] == guardArg && len(args) > superviseArgs+1:
		guard(args)
	case os.Args[1] == superviseArg && len(args) > superviseArgs:
		supervise(args)
	case os.Args[1] == restrictArg && len(args) > restrictArgs:
		restrict(args)
	default:
		return
	}
	syscall.Exit(0) // at once: there is nothing to flush
}

// supervise runs one command, kills what it leaves, and reports how it ended. The
// command dies with this process (PDEATHSIG), and this process is the reaper of
// all descendants (child subreaper): when it has no child left, none is alive.
func supervise(args []string) {
	runtime.LockOSThread() // the death signal of the command is tied to this thread
	milliseconds, umask, path := args[0], args[3], args[5]
	grouped, plan, stay := args[1] != "", args[2], args[4] != ""
	grace := time.Duration(0)
	if n, err := strconv.Atoi(milliseconds); err == nil {
		grace = time.Duration(n) * time.Millisecond
	}
	closeOnExec()
	// It cannot fail on a kernel that has it (Linux 3.4).
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if plan != "" {
		if err := enter(plan); err != nil {
			report(statusFD, refusalLine(err))
			return
		}
	}
	// What was made for the confinement has its own modes: the umask holds from
	// here on.
	if mask, err := strconv.Atoi(umask); err == nil {
		unix.Umask(mask)
	}
	argv := args[superviseArgs:]
	attr := &syscall.ProcAttr{
		Env:   commandEnv(os.Environ()),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, UseCgroupFD: grouped, CgroupFD: groupFD},
	}
	if plan != "" {
		argv = append([]string{superviseName, restrictArg, plan, path}, argv...)
		attr.Env, attr.Files = os.Environ(), append(attr.Files, statusFD)
		path = ownProgram
	}
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		report(statusFD, endLine(NotStarted, errno(err)))
		return
	}
	closeStandard()
	// A host that ends a unit signals all of its processes: this one stays to
	// report. The command has been forked and inherits nothing of it.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	setName()
	var ending atomic.Bool // what is left is being ended
	kill := func() {
		if grouped {
			_ = cgroup.KillAt(groupFD) // at once; the rest is for what left the group
		}
		// A walk can miss a process that is just being forked. It is repeated until
		// reap finds no child and this process exits.
		for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
			signalDescendants(syscall.SIGKILL, nil)
			time.Sleep(pause)
		}
	}
	go func() { // after the fork: the thread that it takes would be one more to start before
		if exited := awaitStop(); exited {
			grace = min(grace, Grace)
		}
		if ending.Swap(true) {
			return
		}
		seen := map[int]bool{} // each process gets one, also one that is forked meanwhile
		for end := time.Now().Add(grace); ; time.Sleep(min(time.Until(end), termPause)) {
			signalDescendants(syscall.SIGTERM, seen)
			if !time.Now().Before(end) {
				break
			}
		}
		kill()
	}()
	left := func() {
		if !ending.Swap(true) {
			go kill()
		}
	}
	if stay {
		left = func() { report(statusFD, remainingLine) }
	}
	report(statusFD, endOf(reap(pid, left)))
}

// awaitStop waits until exc asks for the end of the command, or exits, which ends the
// lifeline.
func awaitStop() (exited bool) {
	var b [1]byte
	for {
		n, err := syscall.Read(lifelineFD, b[:])
		if err != syscall.EINTR {
			return n <= 0
		}
	}
}

// guard starts a supervisor, and kills what is left if that is killed itself: this process
// is then the reaper of the command's descendants. If this process is killed, exc ends the
// lifeline of the supervisor.
func guard(args []string) {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	pid, err := syscall.ForkExec(ownProgram, append([]string{superviseName}, args...), &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2, lifelineFD, statusFD}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		report(statusFD, endLine(NotStarted, errno(err)))
		return
	}
	closeStandard()
	_ = unix.CloseRange(lifelineFD, math.MaxInt32, 0) // exc sees the end of the report
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	setName()
	status := reap(pid, func() {
		go func() {
			for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
				signalDescendants(syscall.SIGKILL, nil)
				time.Sleep(pause)
			}
		}()
	})
	if !status.Exited() {
		syscall.Exit(1)
	}
}

// closeStandard puts /dev/null in the place of the standard files: exc sees the end of the
// outputs when the command's last process is gone.
func closeStandard() {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		null = 0 // out of files
	}
	for fd := range 3 {
		if fd != null {
			_ = unix.Dup3(null, fd, 0)
		}
	}
}

// setName sets the name of this process in lists.
func setName() {
	if comm, err := unix.Open("/proc/self/comm", unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
		_, _ = unix.Write(comm, []byte(superviseName))
		_ = unix.Close(comm)
	}
}

// remainingLine reports that the command has ended and others have not.
const remainingLine = "remaining\n"

// reap waits for every process below this one until none is left, and returns the
// command's status. It calls left when the command has ended and others have not.
func reap(command int, left func()) (status syscall.WaitStatus) {
	var ws syscall.WaitStatus
	options := unix.WALL
	for over := false; ; {
		pid, err := syscall.Wait4(-1, &ws, options, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return status // ECHILD: no child, so no descendant
		case pid == command:
			status, over = ws, true
			options |= unix.WNOHANG
		case pid == 0 && over:
			over = false
			options &^= unix.WNOHANG
			left()
		}
	}
}

// signalDescendants sends sig to every process below this one, those that changed
// their session or lost their parent included. It signals on sight, in the order
// of process numbers. /proc may hide a process that is not dumpable (hidepid,
// ProtectProc=): the kernel's lists of this process's own children have it when the
// processes between them are gone. Those in seen are left out, and the others added to it,
// unless it is nil.
func signalDescendants(sig syscall.Signal, seen map[int]bool) {
	proc, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // out of files: the next walk may get one
	}
	defer unix.Close(proc)
	self := os.Getpid()
	below := map[int]bool{self: true}
	signal := func(pid int) {
		below[pid] = true
		if seen[pid] {
			return
		}
		if seen != nil {
			seen[pid] = true
		}
		_ = syscall.Kill(pid, sig) // it may be gone, or another user's
		if sig != syscall.SIGKILL {
			return
		}
		// All members of a process group die at once: a group that forks all the
		// time cannot outrun the walk. Only descendants are in these groups, because
		// the supervisor began in a session of its own.
		if group, err := unix.Getpgid(pid); err == nil && group > 1 && group != self {
			_ = syscall.Kill(-group, sig)
		}
	}
	lists, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is well-formed
	for _, list := range lists {
		children, _ := os.ReadFile(list) // of a thread that may be gone
		for child := range bytes.FieldsSeq(children) {
			if pid, err := strconv.Atoi(string(child)); err == nil {
				signal(pid)
			}
		}
	}
	var batch [512]byte // some twenty names: a list ages
	for {
		n, err := unix.ReadDirent(proc, batch[:])
		if err != nil || n <= 0 {
			return
		}
		_, _, names := unix.ParseDirent(batch[:n], -1, nil)
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil || below[pid] {
				continue
			}
			if parent, ok := parentOf(pid); ok && below[parent] {
				signal(pid)
			}
		}
	}
}

// parentOf reads the parent of a process from /proc/PID/stat.
func parentOf(pid int) (int, bool) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	var stat [128]byte
	n, err := unix.Read(fd, stat[:])
	if err != nil {
		return 0, false
	}
	return parseStat(stat[:n])
}

// parseStat returns the parent in the text of /proc/PID/stat: "PID (name) state
// parent …". The name may itself contain brackets and blanks.
func parseStat(stat []byte) (parent int, ok bool) {
	end := bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[end+1:])
	if end < 0 || len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return parent, err == nil
}

// restrict is the process that becomes a confined command: it gives up its rights
// and runs the program.
func restrict(args []string) {
	runtime.LockOSThread() // rights are those of a thread until exec makes it the only one
	closeOnExec()
	plan, path := args[0], args[1]
	p := new(sandbox.Plan)
	err := json.Unmarshal([]byte(plan), p)
	if err == nil {
		err = p.Restrict()
	}
	if err != nil {
		report(restrictFD, refusalLine(err))
		return
	}
	err = syscall.Exec(path, args[restrictArgs:], commandEnv(os.Environ()))
	report(restrictFD, endLine(NotStarted, errno(err)))
}

// enter builds what a confined command sees.
func enter(plan string) error {
	p := new(sandbox.Plan)
	if err := json.Unmarshal([]byte(plan), p); err != nil {
		return err
	}
	return p.Enter()
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

// endLine is a report as a line.
func endLine(end End, number int) string { return string(end) + " " + strconv.Itoa(number) + "\n" }

// refusalLine reports what could not be confined.
func refusalLine(err error) string {
	why := strings.ReplaceAll(err.Error(), "\n", "; ")
	return string(NotConfined) + " " + why[:min(len(why), reportMax/2)] + "\n"
}

// endOf is the report for a command's wait status.
func endOf(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return endLine(Signaled, int(ws.Signal()))
	}
	return endLine(Exited, ws.ExitStatus())
}

// report writes a line of the report to fd. If that fails, exc is gone.
func report(fd int, line string) { _, _ = syscall.Write(fd, []byte(line)) }

// errno returns the number of a system error, 0 for other errors.
func errno(err error) int {
	if n, ok := err.(syscall.Errno); ok {
		return int(n)
	}
	return 0
}
