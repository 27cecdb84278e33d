package input

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// keyboard reads bytes from a terminal. Reading can be suspended while another program
// uses the terminal.
type keyboard struct {
	tty  int
	wake *os.File // the end that is read
	ring *os.File // the end that is written

	mu        sync.Mutex
	changed   sync.Cond // one of the following
	suspended bool
	reading   bool // read uses the terminal
	closed    bool
	wanted    int // the last mark that was asked for
	passed    int // the last one that was passed on
}

// Errors of read that are not failures.
var (
	errMark  = errors.New("nothing more was typed, and a mark is wanted")
	errQuiet = errors.New("nothing was typed within the time")
)

func newKeyboard(tty int) (*keyboard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	k := &keyboard{tty: tty, wake: r, ring: w}
	k.changed.L = &k.mu
	return k, nil
}

// set changes whether the terminal is read, and returns when this is in force.
func (k *keyboard) set(suspended bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.suspended = suspended
	if !suspended {
		k.changed.Broadcast()
		return
	}
	k.ring.Write([]byte{0}) // a full pipe wakes it, too
	for k.reading && !k.closed {
		k.changed.Wait()
	}
}

// mark asks for a mark behind all that was typed so far, and returns its number.
func (k *keyboard) mark() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wanted++
	k.ring.Write([]byte{0})
	return k.wanted
}

// pass returns the number of the mark that read has asked to pass on.
func (k *keyboard) pass() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.passed = k.wanted
	return k.passed
}

// close ends read with io.EOF.
func (k *keyboard) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.changed.Broadcast()
	k.ring.Write([]byte{0})
}

// read reads what was typed, or returns errQuiet after a time; a time below 0 is without
// limit. Without a limit it returns errMark for a mark.
func (k *keyboard) read(p []byte, within time.Duration) (int, error) {
	defer func() {
		k.mu.Lock()
		k.reading = false
		k.changed.Broadcast()
		k.mu.Unlock()
	}()
	for {
		if err := k.wait(within); err != nil {
			return 0, err
		}
		n, err := unix.Read(k.tty, p)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// wait returns when the terminal can be read.
func (k *keyboard) wait(within time.Duration) error {
	fds := []unix.PollFd{{Fd: int32(k.tty), Events: unix.POLLIN}, {Fd: int32(k.wake.Fd()), Events: unix.POLLIN}}
	end := time.Now().Add(within)
	for {
		k.mu.Lock()
		for k.suspended && !k.closed {
			k.reading = false
			k.changed.Broadcast()
			k.changed.Wait()
		}
		k.reading = true
		closed, timeout, quiet := k.closed, -1, errQuiet
		switch {
		case within >= 0:
			timeout = int(max(0, time.Until(end)+time.Millisecond-1) / time.Millisecond)
		case k.wanted > k.passed:
			timeout, quiet = 0, errMark
		}
		k.mu.Unlock()
		if closed {
			return io.EOF
		}
		n, err := unix.Poll(fds, timeout)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return os.NewSyscallError("poll", err)
		case n == 0:
			return quiet
		case fds[1].Revents != 0:
			k.wake.Read(make([]byte, 64)) // there is something to read
		case fds[0].Revents != 0:
			return nil
		}
	}
}
