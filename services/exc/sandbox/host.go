package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Kernel is what the kernel gives to confine code witk.
type Kernel struct {
	NoNamespaces error // why it gives no namespaces; nil: it does
	Landlock     int   // the version of Landlock; 0: none
}

// Probe asks what the kernel gives. Whether it gives namespaces is found out by
// trying, which needs a process: try is that attempt with a plan that has them.
func Probe(try func() error) Kernel {
	return Kernel{NoNamespaces: try(), Landlock: landlockVersion()}
}

// Unable says why the host cannot confine code, nil if it can.
func (k Kernel) Unable() error {
	switch {
	case arch == 0:
		return errors.New("there is no filter of system calls for this kind of processor")
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
