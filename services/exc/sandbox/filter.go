package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in the kernel's seccomp_data.
const (
	offsetCall = 0
	offsetArch = 4
	offsetArgs = 16 // eight bytes each, the lower half first
)

// namespaceFlags are those of clone that make namespaces.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// newestCall is the last system call that the list below considers. Later ones do
// not exist for the code (ENOSYS).
const newestCall = unix.SYS_LISTNS

// denied are system calls that confined code does not need: mounts, namespaces,
// modules, keys, tracing of the kernel, clocks, and rings that bypass the filter.
var denied = append([]uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_OPEN_TREE_ATTR, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL,
	unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
}, deniedHere...)

// shared are the calls by which processes of one user reach each other's memory
// and queues. They are denied where namespaces do not separate the processes.
var shared = []uint32{unix.SYS_SHMGET, unix.SYS_SEMGET, unix.SYS_MSGGET, unix.SYS_MQ_OPEN}

// filter is a BPF program for seccomp.
type filter []unix.SockFilter

// filterCalls restricts the system calls of this thread and its children.
func (p *Plan) filterCalls() error { return install(p.filter()) }

// install applies a filter to this thread and its children.
func install(f filter) error {
	if arch == 0 {
		return fmt.Errorf("no filter of system calls for this kind of processor")
	}
	program := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return wrap("seccomp", errno)
	}
	return nil
}

// header is the beginning of each filter: it checks the architecture and loads the
// call's number.
func header() filter {
	return filter{
		load(offsetArch),
		jump(unix.BPF_JEQ, arch, 1, 0), ret(unix.SECCOMP_RET_KILL_PROCESS), // numbers of another architecture mean other calls
		load(offsetCall),
		jump(unix.BPF_JGT, newestCall, 0, 1), fail(unix.ENOSYS),
	}
}

// filter is the plan's filter.
func (p *Plan) filter() filter {
	f := header().ownLimits()
	calls := denied
	if !p.Namespaces {
		calls = append(calls[:len(calls):len(calls)], shared...)
		f = f.ownSchedule()
	}
	for _, call := range calls {
		f = f.on(call, fail(unix.EPERM))
	}
	// Its flags lie in memory, where a filter cannot read them: with ENOSYS programs
	// use clone.
	f = f.on(unix.SYS_CLONE3, fail(unix.ENOSYS))
	f = f.on(unix.SYS_CLONE, argument(0), jump(unix.BPF_JSET, namespaceFlags, 0, 1), fail(unix.EPERM), allow())
	f = f.on(unix.SYS_IOCTL, argument(1), jump(unix.BPF_JEQ, unix.TIOCSTI, 1, 0), jump(unix.BPF_JEQ, tiocLinux, 0, 1), fail(unix.EPERM), allow())
	f = f.on(unix.SYS_SOCKET, p.sockets()...)
	// Programs talk to their children over pairs. A datagram socket of a pair could
	// send to other sockets.
	const kind = 0xf // without SOCK_CLOEXEC and SOCK_NONBLOCK
	f = f.on(unix.SYS_SOCKETPAIR,
		argument(0), jump(unix.BPF_JEQ, unix.AF_UNIX, 1, 0), fail(unix.EPERM),
		argument(1), unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: kind},
		jump(unix.BPF_JEQ, unix.SOCK_STREAM, 2, 0), jump(unix.BPF_JEQ, unix.SOCK_SEQPACKET, 1, 0), fail(unix.EPERM), allow())
	return append(f, allow())
}

// sockets are the instructions for the call socket: network sockets are permitted
// if the plan has a network of its own or the host's, Unix sockets never.
func (p *Plan) sockets() filter {
	if !p.Network && !p.Namespaces {
		return filter{fail(unix.EPERM)}
	}
	return filter{
		argument(0),
		jump(unix.BPF_JEQ, unix.AF_INET, 4, 0), jump(unix.BPF_JEQ, unix.AF_INET6, 3, 0), jump(unix.BPF_JEQ, unix.AF_NETLINK, 0, 3),
		argument(2), jump(unix.BPF_JEQ, unix.NETLINK_ROUTE, 0, 1), // by which programs list interfaces
		allow(),
		fail(unix.EPERM),
	}
}

// on appends body, whose last instruction returns, for a system call.
func (f filter) on(call uint32, body ...unix.SockFilter) filter {
	f = append(f, jump(unix.BPF_JEQ, call, 0, uint8(len(body))))
	return append(f, body...)
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// argument loads the lower half of an argument. The filtered calls do not use the
// upper half.
func argument(n uint32) unix.SockFilter { return load(offsetArgs + 8*n) }

// jump skips yes instructions if the comparison with k is true, else no.
func jump(comparison uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | comparison | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

func ret(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }

func allow() unix.SockFilter { return ret(unix.SECCOMP_RET_ALLOW) }

func fail(errno unix.Errno) unix.SockFilter { return ret(unix.SECCOMP_RET_ERRNO | uint32(errno)) }

// tiocLinux pastes into a terminal, as TIOCSTI types into it.
const tiocLinux = 0x541c

// The calls below change a process that they name by its number. The kernel asks
// only for the same user there: neither Landlock nor namespaces within the run
// apply. Without a rule, code could lower the limits of exc or of its supervisor
// until they can do nothing more. Only 0, the caller itself, is permitted: a program
// that names itself by its own number is refused, too.

// ownLimits denies reading and changing the limits of other processes.
func (f filter) ownLimits() filter {
	return f.on(unix.SYS_PRLIMIT64, onlyOneself(0)...)
}

// Kinds of what ioprio_set names.
const (
	ioprioProcess = 1
	ioprioGroup   = 2
)

// ownSchedule denies changing the scheduling of other processes. In namespaces they
// are out of reach of these calls.
func (f filter) ownSchedule() filter {
	for _, call := range []uint32{
		unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETAFFINITY,
	} {
		f = f.on(call, onlyOneself(0)...)
	}
	// These name a process, a process group, or a user.
	f = f.on(unix.SYS_SETPRIORITY, ofKind(unix.PRIO_PROCESS, unix.PRIO_PGRP)...)
	return f.on(unix.SYS_IOPRIO_SET, ofKind(ioprioProcess, ioprioGroup)...)
}

// onlyOneself permits a call whose argument n, a process number, is 0.
func onlyOneself(n uint32) filter {
	return filter{argument(n), jump(unix.BPF_JEQ, 0, 1, 0), fail(unix.EPERM), allow()}
}

// ofKind permits a call for the caller itself whose first argument is one of two
// kinds.
func ofKind(process, group uint32) filter {
	return append(filter{
		argument(0),
		jump(unix.BPF_JEQ, process, 2, 0), jump(unix.BPF_JEQ, group, 1, 0), fail(unix.EPERM),
	}, onlyOneself(1)...)
}
