package service

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// listen returns the listener that was handed over for the service of that
// name, or opens the socket at path itself.
func listen(name, path string) (net.Listener, error) {
	files, err := handedOver()
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return Listen(path)
	}
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	f, err := pick(name, files)
	if err != nil {
		return nil, err
	}
	l, err := net.FileListener(f) // which leaves the socket's file to whoever made it
	if err != nil {
		return nil, fmt.Errorf("what was handed over for %s is not a listening socket: %w", name, err)
	}
	if _, ok := l.(*net.UnixListener); !ok {
		l.Close()
		return nil, fmt.Errorf("what was handed over for %s is a %s socket, not a Unix one", name, l.Addr().Network())
	}
	return l, nil
}

// firstFD is the first descriptor that a parent hands over: sd_listen_fds(3).
const firstFD = 3

// handedOver takes the descriptors that the parent passed (the protocol of
// sd_listen_fds(3); go-systemd's package for it would bring all of TLS into
// every service's memory). A Go parent cannot know the child's pid before it
// starts it: where LISTEN_PID is absent we are the ones that are meant.
func handedOver() ([]*os.File, error) {
	count, pid, names := take("LISTEN_FDS"), take("LISTEN_PID"), strings.Split(take("LISTEN_FDNAMES"), ":")
	if count == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > 1000 {
		return nil, fmt.Errorf("LISTEN_FDS=%q does not say how many sockets were handed over", count)
	}
	files := make([]*os.File, n)
	for i := range files {
		name := unnamed
		if i < len(names) && names[i] != "" {
			name = names[i]
		}
		syscall.CloseOnExec(firstFD + i)
		files[i] = os.NewFile(uintptr(firstFD+i), name)
	}
	return files, nil
}

// unnamed is what systemd calls a socket that has no name.
const unnamed = "unknown"

// take reads a variable that is meant for this process only, and unsets it.
func take(name string) string {
	value := os.Getenv(name)
	os.Unsetenv(name)
	return value
}

// pick finds the service's socket among what was handed over: by its name, or
// the only one if it has none.
func pick(name string, files []*os.File) (*os.File, error) {
	names := make([]string, len(files))
	for i, f := range files {
		if f.Name() == name || f.Name() == "zino-"+name+".socket" || f.Name() == name+".sock" {
			return f, nil
		}
		names[i] = strconv.Quote(f.Name())
	}
	if len(files) == 1 && files[0].Name() == unnamed {
		return files[0], nil
	}
	return nil, fmt.Errorf("the sockets handed over are named %s, none %q: see FileDescriptorName= of the socket unit", strings.Join(names, ", "), name)
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
