// Package sandbox keeps code from what it was not given: all but a few
// directories, the network, and the processes, sockets and keys of others.
//
// A Plan says what a run may do. Three processes carry it out. exc starts the
// supervisor of a run in namespaces of its own (Attr). The supervisor builds a tree
// of files there in which the rest of the host does not exist (Enter). The last
// process before the code gives up its rights for good (Restrict): no new
// privileges, no capabilities, resource limits, Landlock, and a filter of system
// calls.
//
// Where the kernel refuses namespaces, Landlock and the filter do it alone: see
// Kernel. What fails is an error: no run ever gets less confinement than its plan.
package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/sys/unix"
)

// Plan is what a run may do. All paths are absolute and free of symbolic links.
type Plan struct {
	Root      string   `json:",omitzero"` // the working directory; empty: only Tmp
	Writable  bool     `json:",omitzero"` // whether code may write below Root
	Protected []string `json:",omitzero"` // existing files and directories below Root that it may not change
	Pinned    []string `json:",omitzero"` // directories below Root that cannot be moved, parents before children
	Tmp       string   `json:",omitzero"` // an empty directory of the run's own, shown as /tmp in namespaces
	Home      string   `json:",omitzero"` // a directory of the program's own that is kept, shown as HomeDir in namespaces; empty: none
	Input     bool     `json:",omitzero"` // whether standard input is kept: a pipe that exc writes to
	Dir       string   `json:",omitzero"` // where the code starts, as it sees the tree
	Read      []string `json:",omitzero"` // what it may read besides Root
	Hidden    []string `json:",omitzero"` // what it may not read of Read and Root
	Network   bool     `json:",omitzero"` // whether it may use the host's network

	ScopeOnly bool `json:",omitzero"` // whether code that is confined by other means only gets Scope

	Namespaces bool  `json:",omitzero"` // whether the kernel gives namespaces
	Landlock   int   `json:",omitzero"` // the version of Landlock to use; 0: none
	Memory     int64 `json:",omitzero"` // bytes of data of each process; 0: no limit
	Tasks      int   `json:",omitzero"` // processes and threads of the user in the namespaces; 0: no limit
}

// HomeDir is where a run in namespaces sees Home: not at its path on the host, over which
// something hidden may lie.
const HomeDir = "/.home"

// capabilities are those that a supervisor needs in its namespaces: for mounts, for
// the loopback interface, and to give up all of them.
var capabilities = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}

// Attr has a process start in namespaces, if the plan has them, as the same user.
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
	attr.AmbientCaps = capabilities // exec drops all others
}

// Enter builds what the run sees of the host, if the plan has namespaces, and
// makes this process opaque to ptrace and /proc for the processes that it starts.
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

// Restrict gives up the rights of this process for good. The caller's goroutine
// must be locked to its thread and go on to exec.
func (p *Plan) Restrict() error {
	if p.ScopeOnly {
		return p.scope()
	}
	for _, step := range []func() error{noNewPrivileges, p.limitResources, p.landlock, dropCapabilities, p.filterCalls} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// Scopes reports whether the kernel can keep signals to a run (Linux 6.12).
func Scopes() bool { return landlockVersion() >= landlockAlone }

// scope keeps code that is confined by other means from stopping and disarming the
// processes of the same user that supervise it: no signal leaves the run, as far as
// the kernel Scopes, and no limit but its own can be changed. With a home, other programs
// of that user are out of reach, too, and so are the homes beside it.
func (p *Plan) scope() error {
	f := header().ownLimits()
	switch {
	case Scopes():
		rights, rules := []any{landlockConfigs[landlockAlone-1].Scoped}, []landlock.Rule(nil)
		if p.Home != "" {
			f = f.ownSchedule()
			var err error
			if rules, err = p.exceptOtherHomes(); err != nil {
				return fmt.Errorf("landlock: %w", err)
			}
			rights = append(rights, landlock.V3.HandledAccessFS)
		}
		config, err := landlock.NewConfig(rights...)
		if err == nil {
			err = config.Restrict(rules...)
		}
		if err != nil {
			return fmt.Errorf("landlock: %w", err)
		}
	case p.Home != "":
		return errors.New("no home can be kept: its programs need Landlock of Linux 6.12 or later")
	}
	if arch == 0 { // no filter of system calls for this processor
		return nil
	}
	if err := noNewPrivileges(); err != nil {
		return err
	}
	return install(append(f, allow()))
}

// exceptOtherHomes are the rules for everything on the host but the directory of homes,
// and for Home in it. Rules hold for all below their directory: those above the homes have
// none of their own, and cannot be listed.
func (p *Plan) exceptOtherHomes() ([]landlock.Rule, error) {
	rules := []landlock.Rule{landlock.RWDirs(p.Home).WithRefer()}
	for dir := filepath.Dir(p.Home); dir != "/"; dir = filepath.Dir(dir) {
		entries, err := os.ReadDir(filepath.Dir(dir))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			path := filepath.Join(filepath.Dir(dir), e.Name())
			switch {
			case path == dir:
			case e.IsDir():
				rules = append(rules, landlock.RWDirs(path).WithRefer().IgnoreIfMissing())
			case e.Type()&fs.ModeSymlink == 0: // where a link leads to has a rule, or none
				rules = append(rules, landlock.RWFiles(path).IgnoreIfMissing())
			}
		}
	}
	return rules, nil
}

// noNewPrivileges keeps exec from giving more rights: setuid programs run as their
// caller.
func noNewPrivileges() error {
	return wrap("prctl(PR_SET_NO_NEW_PRIVS)", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}

// spareTasks are the threads of the supervisor, which count as its user's.
const spareTasks = 16

// limitResources sets the resource limits of this process and its children.
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

// dropCapabilities drops all capabilities of this thread, including those that
// exec could give back.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return wrap("prctl(PR_CAP_AMBIENT)", err)
	}
	for c := range uintptr(64) {
		// EINVAL: the last capability of this kernel was dropped. EPERM: this process
		// has none to drop, and exec gives none.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err == unix.EINVAL || err == unix.EPERM {
			break
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return wrap("capset", unix.Capset(&header, &none[0]))
}

// landlock restricts this process to the plan's files.
func (p *Plan) landlock() error {
	if p.Landlock == 0 {
		return nil
	}
	config := landlockConfigs[p.Landlock-1]
	rights := []any{config.HandledAccessFS, config.Scoped}
	if !p.Network && !p.Namespaces {
		rights = append(rights, config.HandledAccessNet)
	}
	exact, err := landlock.NewConfig(rights...)
	if err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	rules, err := p.landlockRules()
	if err == nil {
		err = exact.Restrict(rules...)
	}
	if err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	return nil
}

// devices are the files of /dev that code gets.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

func (p *Plan) landlockRules() ([]landlock.Rule, error) {
	rules := []landlock.Rule{landlock.RWFiles(devices...).IgnoreIfMissing()}
	if p.Namespaces { // the tree already has only what may be read
		rules = append(rules, landlock.RODirs("/"), p.writable("/tmp"), p.writable("/dev/shm"))
		if p.Home != "" {
			rules = append(rules, p.writable(HomeDir))
		}
	} else {
		for _, path := range append(without(p.Read, p.Hidden), "/proc") {
			rules = append(rules, landlock.PathAccess(readRights(path), path).IgnoreIfMissing())
		}
		rules = append(rules, p.writable(p.Tmp))
		if p.Home != "" {
			rules = append(rules, p.writable(p.Home))
		}
	}
	if p.Root == "" {
		return rules, nil
	}
	at, err := look(p.Root) // and not by path once more, which may lead elsewhere by now
	if err != nil {
		return nil, err
	}
	root := "/proc/self/fd/" + strconv.Itoa(at)
	if p.Writable {
		return append(rules, p.writable(root)), nil
	}
	return append(rules, landlock.RODirs(root)), nil
}

// writable is the rule for a directory in which everything is permitted. Moving
// files between directories came with version 2.
func (p *Plan) writable(dir string) landlock.Rule {
	rule := landlock.RWDirs(dir)
	if p.Landlock >= 2 {
		rule = rule.WithRefer()
	}
	return rule
}

// readRights are the rights to read and to run what is at path.
func readRights(path string) landlock.AccessFSSet {
	const file = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	var st unix.Stat_t
	if unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return file
	}
	return file | unix.LANDLOCK_ACCESS_FS_READ_DIR
}

// wrap names the operation that failed.
func wrap(op string, err error) error { return os.NewSyscallError(op, err) }
