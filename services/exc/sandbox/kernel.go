package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/sys/unix"
)

// Kernel is what the kernel offers to confine code.
type Kernel struct {
	NoNamespaces error // why it refuses namespaces; nil: it permits them
	Landlock     int   // the version of Landlock; 0: not supported
}

// Probe asks what the kernel offers. try runs a process with a plan that has
// namespaces: only that shows whether the kernel permits them.
func Probe(try func() error) Kernel {
	return Kernel{NoNamespaces: try(), Landlock: landlockVersion()}
}

// Unable returns why code cannot be confined on this host, nil if it can.
func (k Kernel) Unable() error {
	switch {
	case arch == 0:
		return errors.New("no filter of system calls for this kind of processor")
	case k.NoNamespaces == nil || k.Landlock >= landlockAlone:
		return nil
	}
	have := "the kernel has no Landlock"
	if k.Landlock > 0 {
		have = fmt.Sprintf("its Landlock has version %d", k.Landlock)
	}
	return fmt.Errorf("this host gives no namespaces (%w), and without them Landlock must have version %d or later (Linux 6.12): %s",
		k.NoNamespaces, landlockAlone, have)
}

// Means names what confines code on this host.
func (k Kernel) Means() (names []string) {
	if k.NoNamespaces == nil {
		names = append(names, "namespaces")
	}
	if k.Landlock > 0 {
		names = append(names, "landlock")
	}
	return append(names, "seccomp", "rlimits")
}

// LimitsTasks reports whether a plan's Tasks are enforced: in namespaces, since
// Linux 5.14, and not for root.
func (k Kernel) LimitsTasks() bool {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	return k.NoNamespaces == nil && os.Geteuid() != 0 && atLeast(unix.ByteSliceToString(name.Release[:]), 5, 14)
}

// atLeast reports whether a release of Linux, such as "6.1.0-9-amd64", is not
// older than that version.
func atLeast(release string, major, minor int) bool {
	first, rest, _ := strings.Cut(release, ".")
	second := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	a, err := strconv.Atoi(first)
	if err != nil {
		return false
	}
	b, err := strconv.Atoi(second)
	return err == nil && (a > major || a == major && b >= minor)
}

// landlockAlone is the first version that can confine without namespaces: it keeps
// signals and abstract sockets to the run.
const landlockAlone = 6

// landlockConfigs are what is restricted in each version, from 1 on.
var landlockConfigs = []landlock.Config{
	landlock.V1, landlock.V2, landlock.V3, landlock.V4, landlock.V5, landlock.V6, landlock.V7, landlock.V8, landlock.V9,
}

// landlockVersion is the newest version that the kernel and this package know, 0
// for none.
func landlockVersion() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return min(int(v), len(landlockConfigs))
}
