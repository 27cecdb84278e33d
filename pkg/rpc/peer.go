package rpc

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peer is the process at the other end of a connection.
type peer struct {
	nc   net.Conn
	once sync.Once
	cred unix.Ucred
}

// unknownCred is the credential of a peer that the kernel does not report.
var unknownCred = unix.Ucred{Pid: -1, Uid: ^uint32(0), Gid: ^uint32(0)}

// look asks the kernel once.
func (p *peer) look() unix.Ucred {
	p.once.Do(func() {
		p.cred = unknownCred
		control(p.nc, func(fd int) {
			if cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
				p.cred = *cred
			}
		})
	})
	return p.cred
}

// uid returns the peer's user, gid its group and pid its process: -1 if the kernel
// does not report them.
func (p *peer) uid() int { return int(int32(p.look().Uid)) }
func (p *peer) gid() int { return int(int32(p.look().Gid)) }
func (p *peer) pid() int { return int(p.look().Pid) }

// groups returns the peer's supplementary groups, nil if the kernel does not
// report them.
func (p *peer) groups() (list []uint32) {
	control(p.nc, func(fd int) {
		list = peerGroups(fd, make([]uint32, 64))
	})
	return list
}

// peerGroups reads SO_PEERGROUPS, for which x/sys has no function.
func peerGroups(fd int, list []uint32) []uint32 {
	size := uint32(4 * len(list))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
		uintptr(unsafe.Pointer(unsafe.SliceData(list))), uintptr(unsafe.Pointer(&size)), 0)
	switch {
	case errno == 0:
		return list[:size/4]
	case errno == unix.ERANGE && int(size/4) > len(list):
		return peerGroups(fd, make([]uint32, size/4))
	}
	return nil
}

// control runs f on the descriptor of nc, if it has one.
func control(nc net.Conn, f func(fd int)) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) { f(int(fd)) })
}

// watchAfter is how long a request runs before its connection is watched. Most are
// answered by then, and watching costs more than an answer.
const watchAfter = 2 * time.Millisecond

// hangup watches a connection for its full close while a request runs. It reads
// nothing, so that requests sent ahead stay in the socket. A client that only shut
// down its sending side does not count: the kernel sets POLLHUP after a full close
// only.
type hangup struct {
	nc  net.Conn
	raw syscall.RawConn
}

func newHangup(nc net.Conn) *hangup {
	h := &hangup{nc: nc}
	if sc, ok := nc.(syscall.Conn); ok {
		h.raw, _ = sc.SyscallConn() // nil: nothing is watched
	}
	return h
}

// watch calls gone when the peer hangs up, until stop is called. The
// connection has no read deadline.
func (h *hangup) watch(gone context.CancelFunc) (stop func()) {
	if h.raw == nil {
		return func() {}
	}
	done := make(chan struct{})
	timer := time.AfterFunc(watchAfter, func() {
		defer close(done)
		// Read parks the goroutine until the socket changes. It fails when stop
		// sets the deadline.
		if h.raw.Read(func(fd uintptr) bool { return hungUp(int(fd)) }) == nil {
			gone()
		}
	})
	return func() {
		if timer.Stop() {
			return
		}
		h.nc.SetReadDeadline(past)
		<-done
		h.nc.SetReadDeadline(time.Time{})
	}
}

func hungUp(fd int) bool { return polled(fd, 0)&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 }

// polled returns the state of fd without waiting.
func polled(fd int, events int16) int16 {
	poll, now := unix.PollFd{Fd: int32(fd), Events: events}, unix.Timespec{}
	for {
		_, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
		if errno != unix.EINTR {
			return poll.Revents
		}
	}
}
