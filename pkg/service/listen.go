package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"zino/pkg/durable"
)

// Listen opens a Unix socket at path, mode 0660, and creates its directory. It
// removes a stale socket; a socket on which a process listens is an error.
func Listen(path string) (net.Listener, error) {
	if len(path) > 107 { // sun_path has 108 bytes with the final NUL
		return nil, fmt.Errorf("socket path longer than the 107 bytes that the system allows: %s", path)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the socket's directory: %w", err)
	}
	// The directory's lock excludes other processes that look for a stale socket.
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := durable.Lock(context.Background(), d); err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o660); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
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

// inherited contains the inherited sockets that are not in use yet.
var inherited struct {
	once sync.Once
	mu   sync.Mutex
	list []*os.File
	err  error
}

// listen returns the inherited listeners of the service, or opens the socket at
// path. It closes inherited sockets that are not in use by now.
func listen(name, path string) (listeners []net.Listener, handed bool, err error) {
	inherit()
	inherited.mu.Lock()
	defer inherited.mu.Unlock()
	if inherited.err != nil {
		return nil, false, inherited.err
	}
	if len(inherited.list) == 0 {
		l, err := Listen(path)
		return []net.Listener{l}, false, err
	}
	defer func() {
		closeAll(inherited.list)
		inherited.list = nil
	}()
	files, err := pick(name, inherited.list)
	if err != nil {
		return nil, true, err
	}
	for _, f := range files {
		l, err := listenerOf(f, name)
		if err == nil && l.Addr().Network() != "unix" {
			err = fmt.Errorf("the socket inherited for %s is a %s socket, not a Unix one", name, l.Addr().Network())
		}
		if err != nil {
			return nil, true, err
		}
		listeners = append(listeners, l)
	}
	return listeners, true, nil
}

// Inherited returns an inherited listener with another name than the service's,
// such as one for HTTP, or nil. Call it before Serve.
func Inherited(name string) (net.Listener, error) {
	inherit()
	inherited.mu.Lock()
	defer inherited.mu.Unlock()
	for i, f := range inherited.list {
		if f.Name() != name {
			continue
		}
		inherited.list = append(inherited.list[:i:i], inherited.list[i+1:]...)
		defer f.Close()
		return listenerOf(f, name)
	}
	return nil, inherited.err
}

// InheritedFile returns an inherited descriptor that is not a socket, by its name, or
// nil. Call it before Serve.
func InheritedFile(name string) *os.File {
	inherit()
	inherited.mu.Lock()
	defer inherited.mu.Unlock()
	for i, f := range inherited.list {
		if f.Name() == name {
			inherited.list = append(inherited.list[:i:i], inherited.list[i+1:]...)
			return f
		}
	}
	return nil
}

// listenerOf returns a listener on a descriptor. Closing it does not remove the
// socket's file.
func listenerOf(f *os.File, name string) (net.Listener, error) {
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("the descriptor inherited for %s is not a listening socket: %w", name, err)
	}
	return l, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// inherit reads the inherited descriptors once.
func inherit() {
	inherited.once.Do(func() {
		inherited.mu.Lock()
		defer inherited.mu.Unlock()
		inherited.list, inherited.err = listenFDs()
	})
}

// firstFD is the first inherited descriptor: sd_listen_fds(3).
const firstFD = 3

// listenFDs returns the inherited descriptors by the protocol of sd_listen_fds(3).
// (go-systemd's package for it links all of TLS into every service.) A Go parent
// cannot know the child's pid before it starts it: without LISTEN_PID this process
// is meant.
func listenFDs() ([]*os.File, error) {
	count, pid, names := takeEnv("LISTEN_FDS"), takeEnv("LISTEN_PID"), strings.Split(takeEnv("LISTEN_FDNAMES"), ":")
	if count == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > 1000 {
		return nil, fmt.Errorf("invalid LISTEN_FDS=%q: want the number of inherited sockets", count)
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

// unnamed is systemd's name for a socket without a name.
const unnamed = "unknown"

// takeEnv reads and unsets a variable: child processes must not inherit it.
func takeEnv(name string) string {
	value := os.Getenv(name)
	os.Unsetenv(name)
	return value
}

// pick returns the service's sockets among the inherited ones: by name, or a single
// one without a name.
func pick(name string, files []*os.File) (own []*os.File, err error) {
	names := make([]string, len(files))
	for i, f := range files {
		if f.Name() == name || f.Name() == "zino-"+name+".socket" || f.Name() == name+".sock" {
			own = append(own, f)
		}
		names[i] = strconv.Quote(f.Name())
	}
	if len(own) > 0 {
		return own, nil
	}
	if len(files) == 1 && files[0].Name() == unnamed {
		return files, nil
	}
	return nil, fmt.Errorf("no inherited socket is named %[2]q, only %[1]s: see FileDescriptorName= of the socket unit", strings.Join(names, ", "), name)
}
