package confine

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Host is what the host gives to confine code with.
type Host struct {
	NoNamespaces error // why it gives no namespaces; nil: it does
	Landlock     int   // the version of Landlock; 0: none
}

// Look asks what the host gives. Whether it gives namespaces is found out by
// trying, which needs a process: try is that attempt with a plan that has them.
func Look(try func() error) Host {
	return Host{NoNamespaces: try(), Landlock: landlockVersion()}
}

// Unable says why the host cannot confine code, nil if it can.
func (h Host) Unable() error {
	switch {
	case arch == 0:
		return errors.New("there is no filter of system calls for this kind of processor")
	case h.NoNamespaces == nil || h.Landlock >= landlockAlone:
		return nil
	}
	have := "the kernel has no Landlock"
	if h.Landlock > 0 {
		have = fmt.Sprintf("its Landlock has version %d", h.Landlock)
	}
	return fmt.Errorf("this host gives no namespaces (%w), and without them Landlock must have version %d or later (Linux 6.12): %s",
		h.NoNamespaces, landlockAlone, have)
}

// Means are the names of what confines code on this host.
func (h Host) Means() (names []string) {
	if h.NoNamespaces == nil {
		names = append(names, "namespaces")
	}
	if h.Landlock > 0 {
		names = append(names, "landlock")
	}
	return append(names, "seccomp", "rlimits")
}

// LimitsTasks reports whether a plan's Tasks are enforced: in namespaces, since
// Linux 5.14, and not for root.
func (h Host) LimitsTasks() bool {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	return h.NoNamespaces == nil && os.Geteuid() != 0 && atLeast(unix.ByteSliceToString(name.Release[:]), 5, 14)
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
