// Package sandbox keeps code from what it was not given: all but a few
// directories, the network, and the processes, sockets and keys of others.
//
// A Plan says what a run may do. It is carried out in three processes, of which
// the first knows nothing of it: whoever starts a run has its supervisor begin
// life in namespaces of its own (Attr); the supervisor builds there a tree of
// files in which the rest of the host cannot even be named (Enter); and the
// last process before the code lays down its rights for good (Restrict): no new
// privileges, no capabilities, limits, Landlock, and a filter of system calls.
//
// Where the host refuses namespaces, Landlock and the filter do it alone: see
// Host. Nothing here ever does less than the plan says: what fails is an error.
//
// Code can change the limits of no process but the caller's (prlimit with a
// process number of 0), and without namespaces neither how others run. Programs
// that name themselves by their own number there are refused as well.
package sandbox

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Plan is what a run may do. All paths are absolute and free of symbolic links.
type Plan struct {
	Root      string   `json:",omitzero"` // the directory to work in; empty: there is none
	Writable  bool     `json:",omitzero"` // whether code may write below Root
	Protected []string `json:",omitzero"` // files and directories below Root that it may not change, all there
	Held      []string `json:",omitzero"` // directories below Root that stay where they are, what holds others before them
	Tmp       string   `json:",omitzero"` // an empty directory of the run's own; in namespaces it is seen as /tmp
	Dir       string   `json:",omitzero"` // where the code begins, as it sees the tree
	Read      []string `json:",omitzero"` // what it may read beside Root
	Hidden    []string `json:",omitzero"` // what it may not, although it lies in one of Read or below Root
	Network   bool     `json:",omitzero"` // whether it may use the host's network

	ScopeOnly bool `json:",omitzero"` // whether only Scope is applied, to code that is confined by other means

	Namespaces bool  `json:",omitzero"` // whether the host gives namespaces
	Landlock   int   `json:",omitzero"` // the version of Landlock to use; 0: none
	Memory     int64 `json:",omitzero"` // bytes of data of each process; 0: no limit
	Tasks      int   `json:",omitzero"` // processes and threads of the user in the namespaces; 0: no limit
}

// capabilities are those that the supervisor of a run needs in its namespace:
// for mounts, for the loopback interface, and to give up all of them.
var capabilities = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}

// Attr has a process that is about to be started begin in namespaces, if the
// plan has them. In them it is the user that it was.
func (p *Plan) Attr(attr *syscall.SysProcAttr) {
	if !p.Namespaces {
		return
	}
	attr.Cloneflags |= unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC
	if !p.Network {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	attr.AmbientCaps = capabilities // else they would be lost with exec
}

// Enter builds what the run sees of the host, if the plan has namespaces, and
// keeps this process from being looked into by what it will start.
func (p *Plan) Enter() error {
	if p.Namespaces {
		if err := p.build(); err != nil {
			return err
		}
		if !p.Network {
			if err := raiseLoopback(); err != nil {
				return err
			}
		}
	}
	return wrap("prctl(PR_SET_DUMPABLE)", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// Restrict lays down the rights of this process for good. The caller's
// goroutine must be locked to its thread and go on to exec.
func (p *Plan) Restrict() error {
	if p.ScopeOnly {
		return Scope()
	}
	for _, step := range []func() error{noNewPrivileges, p.limitResources, p.landlock, dropCapabilities, p.filterCalls} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// wrap names the operation that failed.
func wrap(op string, err error) error { return os.NewSyscallError(op, err) }
