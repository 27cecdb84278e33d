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

// peer is who is at the other end of a connection.
type peer struct {
	nc   net.Conn
	once sync.Once
	cred unix.Ucred
}

// nobody is what the kernel's answer begins as: no user has these.
var nobody = unix.Ucred{Pid: -1, Uid: ^uint32(0), Gid: ^uint32(0)}

// look asks the kernel who it is, once.
func (p *peer) look() unix.Ucred {
	p.once.Do(func() {
		p.cred = nobody
		control(p.nc, func(fd int) {
			if cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
				p.cred = *cred
			}
		})
	})
	return p.cred
}

// uid is the peer's user as the kernel knows it, -1 where it does not; gid is
// its group and pid its process.
func (p *peer) uid() int { return int(int32(p.look().Uid)) }
func (p *peer) gid() int { return int(int32(p.look().Gid)) }
func (p *peer) pid() int { return int(p.look().Pid) }

// groups are the peer's further groups. The slice is nil where the kernel does
// not tell.
func (p *peer) groups() (list []uint32) {
	control(p.nc, func(fd int) {
		list = peerGroups(fd, make([]uint32, 64))
	})
	return list
}

// peerGroups asks for SO_PEERGROUPS, for which x/sys has a number and no more.
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

// watchAfter is how long a request runs before its connection is watched: most
// have been answered by then, and to watch costs more than to answer.
const watchAfter = 2 * time.Millisecond

// hangup watches a connection for its full close while a request runs. It
// reads nothing, so requests sent ahead stay where they are; and it tells a
// client that only shut down its sending side from one that has gone, because
// the kernel sets POLLHUP for the latter only.
type hangup struct {
	nc  net.Conn
	raw syscall.RawConn
}

func newHangup(nc net.Conn) *hangup {
	h := &hangup{nc: nc}
	if sc, ok := nc.(syscall.Conn); ok {
		h.raw, _ = sc.SyscallConn() // without one nothing is watched
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
		// Read parks the goroutine until the next change of the socket; an
		// error is the deadline that stop sets.
		if h.raw.Read(func(fd uintptr) bool { return hungUp(int(fd)) }) == nil {
			gone()
		}
	})
	return func() {
		if timer.Stop() {
			return
		}
		h.nc.SetReadDeadline(time.Unix(1, 0))
		<-done
		h.nc.SetReadDeadline(time.Time{})
	}
}

func hungUp(fd int) bool { return polled(fd, 0)&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 }

// polled asks for the state of fd without waiting.
func polled(fd int, events int16) int16 {
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
	for {
		if _, err := unix.Poll(fds, 0); err != unix.EINTR {
			return fds[0].Revents
		}
	}
}
