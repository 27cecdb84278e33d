package service

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// inherited are the sockets that the parent handed over and that nobody has
// taken yet.
var inherited struct {
	once sync.Once
	mu   sync.Mutex
	list []*os.File
	err  error
}

// listen returns the listeners that were handed over for the service of that
// name, or opens the socket at path itself. Those that were handed over and
// that nobody wants are closed.
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
			err = fmt.Errorf("what was handed over for %s is a %s socket, not a Unix one", name, l.Addr().Network())
		}
		if err != nil {
			return nil, true, err
		}
		listeners = append(listeners, l)
	}
	return listeners, true, nil
}

// Inherited returns the listener that was handed over under a name which is not
// the service's own, such as a second one for HTTP; nil if there is none. Call
// it before Serve.
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

// listenerOf makes a listener of a descriptor, and leaves the socket's file to
// whoever made it.
func listenerOf(f *os.File, name string) (net.Listener, error) {
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("what was handed over for %s is not a listening socket: %w", name, err)
	}
	return l, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// inherit takes over what the parent passed, once.
func inherit() {
	inherited.once.Do(func() {
		inherited.mu.Lock()
		defer inherited.mu.Unlock()
		inherited.list, inherited.err = handedOver()
	})
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

// pick finds the service's sockets among what was handed over: by their name,
// or the only one if it has none.
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
	return nil, fmt.Errorf("the sockets handed over are named %s, none %q: see FileDescriptorName= of the socket unit", strings.Join(names, ", "), name)
}
