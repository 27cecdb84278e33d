package sandbox

import (
	"errors"

	"golang.org/x/sys/unix"
)

// spareTasks are the threads of the supervisor, which count as its user's.
const spareTasks = 16

// noNewPrivileges has exec never give more rights: setuid programs run as
// their caller.
func noNewPrivileges() error {
	return wrap("prctl(PR_SET_NO_NEW_PRIVS)", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}

// limitResources sets the limits of this process and its children.
func (p *Plan) limitResources() error {
	errs := []error{setLimit(unix.RLIMIT_CORE, 0)}
	if p.Memory > 0 {
		errs = append(errs, setLimit(unix.RLIMIT_DATA, uint64(p.Memory)))
	}
	if p.Tasks > 0 && p.Namespaces {
		errs = append(errs, setLimit(unix.RLIMIT_NPROC, uint64(p.Tasks+spareTasks)))
	}
	return errors.Join(errs...)
}

// setLimit lowers a limit. One that is lower already stays.
func setLimit(resource int, value uint64) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(resource, &now); err != nil {
		return wrap("getrlimit", err)
	}
	value = min(value, now.Max)
	return wrap("setrlimit", unix.Setrlimit(resource, &unix.Rlimit{Cur: min(value, now.Cur), Max: value}))
}

// dropCapabilities gives up all capabilities of this thread, those that exec
// could bring back included.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return wrap("prctl(PR_CAP_AMBIENT)", err)
	}
	for c := range uintptr(64) {
		// EINVAL: the kernel knows no more of them. EPERM: this process has none
		// to give up, and exec brings none.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err == unix.EINVAL || err == unix.EPERM {
			break
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return wrap("capset", unix.Capset(&header, &none[0]))
}
