package sandbox

import "golang.org/x/sys/unix"

// The calls below change a process that they name by its number. Who may do so
// is a matter of the user alone, and neither Landlock nor namespaces within the
// run ask: without a rule, code could lower the limits of exc or of its own
// supervisor until they can do nothing more. Only 0, which is the caller, gets
// through. A program that names itself by its own number is refused, too.

// OnlyOwnLimits has this thread and its children change the resource limits of
// no process but the caller's (prlimit). It lays down that alone, for code that
// is confined by other means; it belongs to each Plan. The caller's goroutine
// must be locked to its thread.
func OnlyOwnLimits() error {
	if err := noNewPrivileges(); err != nil {
		return err
	}
	return install(append(header().ownLimits(), allow()))
}

// ownLimits forbids to change, or to read, the limits of others.
func (f filter) ownLimits() filter {
	return f.on(unix.SYS_PRLIMIT64, onlyOneself(0)...)
}

// Kinds of what ioprio_set names.
const (
	ioprioProcess = 1
	ioprioGroup   = 2
)

// ownSchedule forbids to change when others run. Namespaces keep the rest of
// the host out of reach of these calls.
func (f filter) ownSchedule() filter {
	for _, call := range []uint32{
		unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETAFFINITY,
	} {
		f = f.on(call, onlyOneself(0)...)
	}
	// These name a process, a group of them, or all of a user.
	f = f.on(unix.SYS_SETPRIORITY, ofKind(unix.PRIO_PROCESS, unix.PRIO_PGRP)...)
	return f.on(unix.SYS_IOPRIO_SET, ofKind(ioprioProcess, ioprioGroup)...)
}

// onlyOneself permits a call whose argument n is 0. The kernel takes its lower
// half for a process's number.
func onlyOneself(n uint32) filter {
	return filter{argument(n), jump(unix.BPF_JEQ, 0, 1, 0), fail(unix.EPERM), allow()}
}

// ofKind permits a call for oneself whose first argument is one of two kinds.
func ofKind(process, group uint32) filter {
	return append(filter{
		argument(0),
		jump(unix.BPF_JEQ, process, 2, 0), jump(unix.BPF_JEQ, group, 1, 0), fail(unix.EPERM),
	}, onlyOneself(1)...)
}
