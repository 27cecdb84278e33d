// Package smalldisk gives tests a disk that is small, or cannot be written, and
// that goes away with the process that has it.
package smalldisk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Run runs a command, which calls Mount, in a mount namespace of its own, and
// fails the test if it fails. A system that lets nobody mount anything skips the
// test and says so; where CI is set in the environment that is a failure.
func Run(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}} // without, no file can be made there
	}
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
	case os.Getenv("CI") == "" && (errors.Is(err, syscall.EPERM) || strings.Contains(string(out), "mount: operation not permitted")):
		t.Skipf("NOT TESTED: a full disk. This system lets us mount none (%v): run the test as root, or where user namespaces are allowed", err)
	default:
		t.Fatalf("%v: %s", err, out)
	}
}

// Mount puts a disk in the place of dir: a tmpfs with the given options, such as
// "size=64k", and mount(2)'s flags.
func Mount(dir, options string, flags uintptr) error {
	err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", flags, options)
	}
	if err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}
