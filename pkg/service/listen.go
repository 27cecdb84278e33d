package service

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
)

// listen returns the listener that was handed over for the service of that
// name, or opens the socket at path itself.
func listen(name, path string) (net.Listener, error) {
	passed, err := handedOver()
	if err != nil {
		return nil, err
	}
	for _, key := range []string{name, "zino-" + name + ".socket", name + ".sock"} {
		if ls := passed[key]; len(ls) > 0 {
			return ls[0], nil
		}
	}
	for key, ls := range passed {
		return nil, fmt.Errorf("%d sockets were handed over, the first named %q, none named %q: see FileDescriptorName= of the socket unit", len(ls), key, name)
	}
	return Listen(path)
}

// handedOver takes the listeners that the parent passed, by name. A Go parent
// cannot know the child's pid before it starts it: where LISTEN_PID is absent
// we are the ones that are meant.
func handedOver() (map[string][]net.Listener, error) {
	if os.Getenv("LISTEN_FDS") == "" {
		return nil, nil
	}
	if os.Getenv("LISTEN_PID") == "" {
		os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
	}
	defer func() {
		for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
			os.Unsetenv(name)
		}
	}()
	ls, err := activation.ListenersWithNames()
	if err != nil {
		return nil, fmt.Errorf("cannot take the sockets handed over: %w", err)
	}
	for _, list := range ls {
		for _, l := range list {
			keep(l)
		}
	}
	return ls, nil
}

// keep leaves the socket's file to whoever made it.
func keep(l net.Listener) {
	if unix, ok := l.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(false)
	}
}

// Listen opens a Unix socket at path, mode 0660, and makes its directory. A
// socket on which another process answers is an error; a stale one is removed.
func Listen(path string) (net.Listener, error) {
	if len(path) > 107 { // sun_path holds 108 bytes with the final NUL
		return nil, fmt.Errorf("the socket's path is longer than the 107 bytes that the system allows: %s", path)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the socket's directory: %w", err)
	}
	unlock, err := lock(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// lock keeps two processes from taking over the same stale socket together.
func lock(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX); err != nil {
		d.Close()
		return nil, fmt.Errorf("cannot lock %s: %w", dir, err)
	}
	return func() { d.Close() }, nil
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("%s exists and is not a socket: remove it or name another path", path)
	}
	nc, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		nc.Close()
		return fmt.Errorf("another process is listening on %s: stop it first, or name another socket", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s is in use: %w", path, err)
	}
	return os.Remove(path)
}
