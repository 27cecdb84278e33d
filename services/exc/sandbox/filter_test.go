package sandbox

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// The filter is a program that the kernel accepts: each jump stays inside, and each
// path ends in a return.
func TestFilterIsClosed(t *testing.T) {
	filters := map[string]filter{"limits alone": append(header().ownLimits(), allow())}
	for _, p := range []*Plan{{}, {Network: true}, {Namespaces: true}, {Namespaces: true, Network: true}} {
		filters[fmt.Sprintf("%+v", p)] = p.filter()
	}
	for p, f := range filters {
		for i, in := range f {
			if in.Code&7 == unix.BPF_JMP && i+1+int(max(in.Jt, in.Jf)) >= len(f) {
				t.Errorf("%s: instruction %d jumps out", p, i)
			}
		}
		if last := f[len(f)-1]; last.Code&7 != unix.BPF_RET {
			t.Errorf("%s: the last instruction is %+v", p, last)
		}
	}
}

// systemCall is what the filter sees of a system call.
type systemCall struct {
	number uint32
	args   [3]uint32
}

// evaluate runs a filter, as the kernel would.
func evaluate(f filter, arch uint32, c systemCall) uint32 {
	data := map[uint32]uint32{offsetArch: arch, offsetCall: c.number}
	for i, arg := range c.args {
		data[offsetArgs+8*uint32(i)] = arg
	}
	var a uint32
	for pc := 0; ; pc++ {
		in := f[pc]
		skip := func(yes bool) {
			if yes {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = data[in.K]
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= in.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			skip(a == in.K)
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			skip(a > in.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			skip(a&in.K != 0)
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			panic("an instruction that no filter has")
		}
	}
}

func TestFilter(t *testing.T) {
	const (
		ok     = uint32(unix.SECCOMP_RET_ALLOW)
		perm   = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM)
		nosys  = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOSYS)
		stream = unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	)
	alone, within, open := &Plan{}, &Plan{Namespaces: true}, &Plan{Network: true}
	tests := []struct {
		name string
		call systemCall
		want map[*Plan]uint32
	}{
		{"read", systemCall{unix.SYS_READ, [3]uint32{}}, map[*Plan]uint32{alone: ok, within: ok, open: ok}},
		{"mount", systemCall{unix.SYS_MOUNT, [3]uint32{}}, map[*Plan]uint32{alone: perm, within: perm, open: perm}},
		{"the newest", systemCall{newestCall, [3]uint32{}}, map[*Plan]uint32{alone: ok}},
		{"a newer one", systemCall{newestCall + 1, [3]uint32{}}, map[*Plan]uint32{alone: nosys, within: nosys}},
		{"x32", systemCall{0x40000000 + unix.SYS_READ, [3]uint32{}}, map[*Plan]uint32{alone: nosys}},
		{"fork", systemCall{unix.SYS_CLONE, [3]uint32{uint32(unix.SIGCHLD)}}, map[*Plan]uint32{alone: ok}},
		{"clone of a user namespace", systemCall{unix.SYS_CLONE, [3]uint32{unix.CLONE_NEWUSER | uint32(unix.SIGCHLD)}}, map[*Plan]uint32{alone: perm, within: perm}},
		{"clone3", systemCall{unix.SYS_CLONE3, [3]uint32{}}, map[*Plan]uint32{alone: nosys}},
		{"TCP", systemCall{unix.SYS_SOCKET, [3]uint32{unix.AF_INET, stream}}, map[*Plan]uint32{alone: perm, within: ok, open: ok}},
		{"TCP of version 6", systemCall{unix.SYS_SOCKET, [3]uint32{unix.AF_INET6, stream}}, map[*Plan]uint32{alone: perm, within: ok, open: ok}},
		{"Unix", systemCall{unix.SYS_SOCKET, [3]uint32{unix.AF_UNIX, stream}}, map[*Plan]uint32{alone: perm, within: perm, open: perm}},
		{"vsock", systemCall{unix.SYS_SOCKET, [3]uint32{unix.AF_VSOCK, stream}}, map[*Plan]uint32{alone: perm, within: perm, open: perm}},
		{"packets", systemCall{unix.SYS_SOCKET, [3]uint32{unix.AF_PACKET, unix.SOCK_RAW}}, map[*Plan]uint32{within: perm, open: perm}},
		{"interfaces", systemCall{unix.SYS_SOCKET, [3]uint32{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}}, map[*Plan]uint32{alone: perm, within: ok, open: ok}},
		{"audit", systemCall{unix.SYS_SOCKET, [3]uint32{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}}, map[*Plan]uint32{within: perm, open: perm}},
		{"pair", systemCall{unix.SYS_SOCKETPAIR, [3]uint32{unix.AF_UNIX, stream}}, map[*Plan]uint32{alone: ok, within: ok}},
		{"pair of packets", systemCall{unix.SYS_SOCKETPAIR, [3]uint32{unix.AF_UNIX, unix.SOCK_SEQPACKET}}, map[*Plan]uint32{alone: ok}},
		{"pair of datagrams", systemCall{unix.SYS_SOCKETPAIR, [3]uint32{unix.AF_UNIX, unix.SOCK_DGRAM}}, map[*Plan]uint32{alone: perm, within: perm}},
		{"another pair", systemCall{unix.SYS_SOCKETPAIR, [3]uint32{unix.AF_TIPC, stream}}, map[*Plan]uint32{alone: perm}},
		{"typing into a terminal", systemCall{unix.SYS_IOCTL, [3]uint32{0, unix.TIOCSTI}}, map[*Plan]uint32{alone: perm}},
		{"pasting into a terminal", systemCall{unix.SYS_IOCTL, [3]uint32{0, tiocLinux}}, map[*Plan]uint32{alone: perm}},
		{"size of a terminal", systemCall{unix.SYS_IOCTL, [3]uint32{0, unix.TIOCGWINSZ}}, map[*Plan]uint32{alone: ok}},
		{"shared memory", systemCall{unix.SYS_SHMGET, [3]uint32{}}, map[*Plan]uint32{alone: perm, within: ok}},
		{"one's own limits", systemCall{unix.SYS_PRLIMIT64, [3]uint32{0, unix.RLIMIT_NOFILE}}, map[*Plan]uint32{alone: ok, within: ok, open: ok}},
		{"another's limits", systemCall{unix.SYS_PRLIMIT64, [3]uint32{1, unix.RLIMIT_NOFILE}}, map[*Plan]uint32{alone: perm, within: perm, open: perm}},
		{"one's own processors", systemCall{unix.SYS_SCHED_SETAFFINITY, [3]uint32{}}, map[*Plan]uint32{alone: ok, within: ok}},
		{"another's processors", systemCall{unix.SYS_SCHED_SETAFFINITY, [3]uint32{7}}, map[*Plan]uint32{alone: perm, within: ok}},
		{"another's policy", systemCall{unix.SYS_SCHED_SETSCHEDULER, [3]uint32{7}}, map[*Plan]uint32{alone: perm, within: ok}},
		{"another's parameters", systemCall{unix.SYS_SCHED_SETPARAM, [3]uint32{7}}, map[*Plan]uint32{alone: perm, within: ok}},
		{"another's attributes", systemCall{unix.SYS_SCHED_SETATTR, [3]uint32{7}}, map[*Plan]uint32{alone: perm, within: ok}},
		{"one's own niceness", systemCall{unix.SYS_SETPRIORITY, [3]uint32{unix.PRIO_PROCESS, 0, 5}}, map[*Plan]uint32{alone: ok, within: ok}},
		{"niceness of one's group", systemCall{unix.SYS_SETPRIORITY, [3]uint32{unix.PRIO_PGRP, 0, 5}}, map[*Plan]uint32{alone: ok, within: ok}},
		{"another's niceness", systemCall{unix.SYS_SETPRIORITY, [3]uint32{unix.PRIO_PROCESS, 7, 5}}, map[*Plan]uint32{alone: perm, within: ok}},
		{"niceness of a user", systemCall{unix.SYS_SETPRIORITY, [3]uint32{unix.PRIO_USER, 0, 5}}, map[*Plan]uint32{alone: perm, within: ok}},
		{"one's own turn at the disk", systemCall{unix.SYS_IOPRIO_SET, [3]uint32{ioprioProcess}}, map[*Plan]uint32{alone: ok, within: ok}},
		{"another's turn at the disk", systemCall{unix.SYS_IOPRIO_SET, [3]uint32{ioprioGroup, 7}}, map[*Plan]uint32{alone: perm, within: ok}},
		{"a user's turn at the disk", systemCall{unix.SYS_IOPRIO_SET, [3]uint32{3}}, map[*Plan]uint32{alone: perm, within: ok}},
	}
	for _, tt := range tests {
		for p, want := range tt.want {
			if got := evaluate(p.filter(), arch, tt.call); got != want {
				t.Errorf("%s, namespaces %v, network %v: %#x, want %#x", tt.name, p.Namespaces, p.Network, got, want)
			}
		}
	}
	if got := evaluate(alone.filter(), arch+1, systemCall{}); got != unix.SECCOMP_RET_KILL_PROCESS {
		t.Errorf("another architecture: %#x", got)
	}
}
