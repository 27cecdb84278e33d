package rpc

import (
	"io"
	"net"
	"os"
	"syscall"
)

// socket reads and writes without announcing a system call to Go's scheduler: its calls
// do not block. A net.Conn announces them, which wakes the runtime's monitor thread if
// the process was idle; for the rest of the request that thread then looks every 20 us
// whether a call blocks. One goroutine may read at a time, and one write.
type socket struct {
	*net.UnixConn
	in, out transfer
}

// transfer is one direction of a socket.
type transfer struct {
	name string                              // of the system call, for errors
	call func(fd int, b []byte) (int, error) // readNow or writeNow
	wait func(func(fd uintptr) bool) error   // calls its argument until that reports true
	once func(fd uintptr) bool               // t.try, allocated once
	b    []byte
	n    int
	err  error
}

// newSocket returns nc as a socket. A connection of another kind is returned as it is.
func newSocket(nc net.Conn) net.Conn {
	uc, ok := nc.(*net.UnixConn)
	if !ok {
		return nc
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return nc
	}
	s := &socket{UnixConn: uc}
	s.in = transfer{name: "read", call: readNow, wait: raw.Read}
	s.out = transfer{name: "write", call: writeNow, wait: raw.Write}
	s.in.once, s.out.once = s.in.try, s.out.try
	return s
}

func (s *socket) Read(b []byte) (int, error) {
	n, err := s.in.some(b)
	if n == 0 && err == nil && len(b) > 0 {
		return 0, io.EOF
	}
	return n, err
}

func (s *socket) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = s.out.some(b[n:])
		n += m
	}
	return n, err
}

// some waits until a part of b can be transferred, and returns its length.
func (t *transfer) some(b []byte) (int, error) {
	t.b, t.n, t.err = b, 0, nil
	err := t.wait(t.once)
	if t.b = nil; err == nil && t.err != nil {
		err = &net.OpError{Op: t.name, Net: "unix", Err: os.NewSyscallError(t.name, t.err)}
	}
	return t.n, err
}

// try is false if the socket neither transfers a byte nor fails.
func (t *transfer) try(fd uintptr) bool {
	for {
		n, err := t.call(int(fd), t.b)
		switch err {
		case nil:
			t.n = n
			return true
		case syscall.EAGAIN:
			return false
		case syscall.EINTR:
		default:
			t.err = err
			return true
		}
	}
}
