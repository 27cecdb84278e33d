package exc

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attackEnv makes the test binary attack in the way that its value names. It
// prints "pwned" if that worked.
const attackEnv = "EXC_TEST_ATTACK"

// pwned is what an attack prints that sees itself that it worked.
const pwned = "pwned"

// attackWays are attacks that a shell cannot do.
var attackWays = map[string]func() error{
	"dial":       func() error { return dial("tcp", os.Getenv("TCP")) },
	"dial unix":  func() error { return dial("unix", os.Getenv("SOCK")) },
	"dial @":     func() error { return dial("unix", "@"+os.Getenv("ABSTRACT")) },
	"datagram":   func() error { return dial("unixgram", os.Getenv("DGRAM")) },
	"pair":       pointPair,
	"listen":     listenFor,
	"trace":      func() error { return trace(atoi(os.Getenv("VICTIM"))) },
	"trace up":   func() error { return trace(atoi(os.Getenv("UP"))) },
	"calls":      callForbidden,
	"limits":     func() error { return limit(atoi(os.Getenv("VICTIM"))) },
	"limits up":  func() error { return limit(atoi(os.Getenv("UP"))) },
	"schedule":   func() error { return schedule(atoi(os.Getenv("VICTIM"))) },
	"grandchild": func() error { return unix.Kill(atoi(os.Getenv("VICTIM")), unix.SIGKILL) },
}

// attackMain is the life of an attacker.
func attackMain(way string) {
	if err := attackWays[way](); err != nil {
		fmt.Println("stopped:", err)
		return
	}
	fmt.Println(pwned)
}

func atoi(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, 2*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = fmt.Fprintln(c, os.Getenv(attackEnv))
	return err
}

// pointPair makes a pair of sockets and sends to another process's with it.
func pointPair() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	return unix.Sendto(pair[0], []byte(os.Getenv(attackEnv)), 0, &unix.SockaddrUnix{Name: os.Getenv("DGRAM")})
}

// listenFor listens until the test connects, or a second has passed.
func listenFor() error {
	l, err := net.Listen("tcp", os.Getenv("LISTEN"))
	if err != nil {
		return err
	}
	if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	c, err := l.Accept()
	if err != nil {
		return err
	}
	return c.Close()
}

func trace(pid int) error {
	if err := unix.PtraceAttach(pid); err != nil {
		return err
	}
	var ws unix.WaitStatus
	_, err := unix.Wait4(pid, &ws, unix.WALL, nil)
	if err == nil {
		err = unix.PtraceDetach(pid)
	}
	return err
}

// limit sets a limit of a process to what it is.
func limit(pid int) error {
	var now unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &now); err != nil {
		return err
	}
	return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &now, nil)
}

// schedule changes how a process runs, in each way that there is. It prints the
// first that works.
func schedule(pid int) error {
	var all unix.CPUSet
	for cpu := range 1024 {
		all.Set(cpu)
	}
	var batch struct{ priority int32 }
	who := uintptr(pid)
	calls := map[string]error{
		"sched_setaffinity": unix.SchedSetaffinity(pid, &all),
		"sched_setattr":     unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_BATCH}, 0),
		"setpriority":       unix.Setpriority(unix.PRIO_PROCESS, pid, 1),
	}
	_, _, calls["sched_setscheduler"] = unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, who, unix.SCHED_BATCH, uintptr(unsafe.Pointer(&batch)))
	_, _, calls["sched_setparam"] = unix.Syscall(unix.SYS_SCHED_SETPARAM, who, uintptr(unsafe.Pointer(&batch)), 0)
	const lowest = 3 << 13 // idle
	_, _, calls["ioprio_set"] = unix.Syscall(unix.SYS_IOPRIO_SET, 1, who, lowest)
	for name, err := range calls {
		if err == nil || err == unix.Errno(0) {
			fmt.Println(name, "got through")
			return nil
		}
	}
	return unix.EPERM
}

// callForbidden makes system calls in ways that do no harm. What the filter
// denies fails with EPERM for all arguments: it prints the first that fails in
// another way.
func callForbidden() error {
	bad := ^uintptr(0)
	calls := map[string]uintptr{
		"mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2, "pivot_root": unix.SYS_PIVOT_ROOT, "chroot": unix.SYS_CHROOT,
		"open_tree": unix.SYS_OPEN_TREE, "move_mount": unix.SYS_MOVE_MOUNT, "fsopen": unix.SYS_FSOPEN, "setns": unix.SYS_SETNS,
		"keyctl": unix.SYS_KEYCTL, "add_key": unix.SYS_ADD_KEY, "request_key": unix.SYS_REQUEST_KEY, "bpf": unix.SYS_BPF,
		"perf_event_open": unix.SYS_PERF_EVENT_OPEN, "io_uring_setup": unix.SYS_IO_URING_SETUP, "userfaultfd": unix.SYS_USERFAULTFD,
		"open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "init_module": unix.SYS_INIT_MODULE, "kexec_load": unix.SYS_KEXEC_LOAD,
		"syslog": unix.SYS_SYSLOG, "quotactl": unix.SYS_QUOTACTL, "swapoff": unix.SYS_SWAPOFF, "unshare": unix.SYS_UNSHARE,
	}
	for name, number := range calls {
		if _, _, errno := unix.Syscall6(number, bad, bad, bad, bad, bad, bad); errno != unix.EPERM {
			fmt.Println(name, "got through:", errno)
			return nil
		}
	}
	var b byte
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&b))); errno != unix.EPERM {
		fmt.Println("TIOCSTI got through:", errno)
		return nil
	}
	return unix.EPERM
}
