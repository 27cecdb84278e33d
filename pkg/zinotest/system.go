package zinotest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// SmallDisk runs a command, which calls Mount, in a mount namespace of its own,
// and fails the test if it fails. A host that permits no mounts skips the test;
// where CI is set in the environment that is a failure.
func SmallDisk(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}} // without it, no file can be created there
	}
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
	case errors.Is(err, syscall.EPERM) || strings.Contains(string(out), "mount: operation not permitted"):
		NotTested(t, "a full disk. This host permits no mounts (%v): run the test as root, or where user namespaces are allowed", err)
	default:
		t.Fatalf("%v: %s", err, out)
	}
}

const diskEnv = "ZINOTEST_DISK"

// OnSmallDisk runs the test again in a process of its own, which has mounted a tmpfs with
// these options at dir. It returns done in the process that started it, like Alone.
func OnSmallDisk(t *testing.T, options string) (dir string, done bool) {
	t.Helper()
	if dir = os.Getenv(diskEnv); dir != "" {
		Must(t, Mount(dir, options, 0))
		return dir, false
	}
	exe, err := os.Executable()
	Must(t, err)
	cmd := exec.Command(exe, "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), diskEnv+"="+Dir(t), "GORACE=atexit_sleep_ms=0")
	SmallDisk(t, cmd)
	return "", true
}

// Fill writes a file into dir until the disk is full.
func Fill(t testing.TB, dir string) (free func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "fill"))
	Must(t, err)
	if _, err := io.Copy(f, Endless{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk does not get full: %v", err)
	}
	Must(t, f.Close())
	return func() { Must(t, os.Remove(f.Name())) }
}

// NotTested skips the test and says what this host does not allow it to check. Where CI
// is set in the environment it fails the test.
func NotTested(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf("NOT TESTED: "+format, args...)
}

// Mount mounts a tmpfs on dir with its options, such as "size=64k", and the
// flags of mount(2).
func Mount(dir, options string, flags uintptr) error {
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

// Remount changes the flags of what Mount mounted, such as MS_RDONLY.
func Remount(dir string, flags uintptr) error {
	if err := syscall.Mount("none", dir, "", syscall.MS_REMOUNT|flags, ""); err != nil {
		return fmt.Errorf("remount: %w", err)
	}
	return nil
}

// Nobody is the uid and gid of the user nobody, which owns no files.
const Nobody = 65534

// AsUser calls f on a thread that runs as another user, for which this process
// must be root. The kernel takes the user of a socket's peer and of file
// accesses from the thread.
func AsUser(t testing.TB, uid int, f func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		_, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid))
		if errno != 0 {
			done <- errno
			return
		}
		f()
	}()
	Must(t, <-done)
}

// Unprivileged calls f without root's right to read and write every file.
func Unprivileged(t testing.TB, f func()) {
	t.Helper()
	if os.Geteuid() == 0 {
		runtime.LockOSThread() // the user for file accesses is the thread's
		defer runtime.UnlockOSThread()
		Must(t, syscall.Setfsuid(Nobody))
		defer func() { Must(t, syscall.Setfsuid(0)) }()
	}
	f()
}
