package input

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// enterTime is how long bytes behind a CR are waited for: with them it is part of a
// paste without marks, and a new line, without them it is Enter.
const enterTime = 30 * time.Millisecond

// keyboard reads bytes from a terminal in raw mode, in pieces that end between
// characters. Reading can be suspended while another program uses the terminal.
type keyboard struct {
	tty  int
	wake *os.File // the end that is read
	ring *os.File // the end that is written

	mu        sync.Mutex
	changed   sync.Cond // one of the following
	suspended bool
	reading   bool // Read uses the terminal
	closed    bool
	wanted    int // the last mark that was asked for
	passed    int // the last one that was passed on

	marks chan int      // to Reader.Run
	done  chan struct{} // closed by close

	empty bool   // the last Read returned nothing, for a mark
	first bool   // nothing has been read yet
	cr    bool   // the last byte was a CR that became a newline
	rest  []byte // the start of a character
}

func newKeyboard(tty int) (*keyboard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	k := &keyboard{tty: tty, wake: r, ring: w, first: true, marks: make(chan int), done: make(chan struct{})}
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

// passMark sends the mark for which Read has returned nothing. That it is called again
// means that the reader of events has passed on all events before.
func (k *keyboard) passMark() {
	k.mu.Lock()
	k.passed = k.wanted
	n := k.passed
	k.mu.Unlock()
	select {
	case k.marks <- n:
	case <-k.done:
	}
}

// errMark: nothing more was typed, and a mark is wanted.
var errMark = errors.New("mark")

// close ends Read with io.EOF. It is called once.
func (k *keyboard) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	close(k.done)
	k.changed.Broadcast()
	k.ring.Write([]byte{0})
}

// Read reads what was typed. p must have room for a line.
func (k *keyboard) Read(p []byte) (int, error) {
	if k.empty {
		k.empty = false
		k.passMark()
	}
	for {
		n, err := k.read(p)
		if err == errMark {
			k.empty = true
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		if n = k.complete(p[:n]); n > 0 {
			k.first = false
			return n, nil
		}
	}
}

// read waits for bytes and reads them.
func (k *keyboard) read(p []byte) (int, error) {
	defer func() {
		k.mu.Lock()
		k.reading = false
		k.changed.Broadcast()
		k.mu.Unlock()
	}()
	for {
		if err := k.wait(); err != nil {
			return 0, err
		}
		n := copy(p, k.rest)
		got, err := unix.Read(k.tty, p[n:])
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if err != nil {
			return 0, os.NewSyscallError("read", err)
		}
		if got == 0 {
			return 0, io.EOF
		}
		n += got
		for p[n-1] == '\r' && n < len(p) && k.ready(enterTime) {
			more, err := unix.Read(k.tty, p[n:])
			if err != nil || more <= 0 {
				break
			}
			n += more
		}
		return n, nil
	}
}

// complete converts the ends of lines: of CR and CRLF only a CR at the end stays, which is
// Enter. It returns the length up to the last whole character.
func (k *keyboard) complete(data []byte) int {
	enter := data[len(data)-1] == '\r'
	if k.first { // typed before raw mode: the terminal has made CR a newline
		data = bytes.TrimSuffix(data, []byte("\n"))
	}
	out := data[:0]
	for i, b := range data {
		switch {
		case b == '\n' && k.cr:
			k.cr = false
			continue
		case b == '\r' && !(enter && i == len(data)-1):
			b, k.cr = '\n', true
		default:
			k.cr = false
		}
		out = append(out, b)
	}
	n := len(out)
	for i := 1; i < utf8.UTFMax && i <= n; i++ {
		if b := out[n-i]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(out[n-i:]) {
				n -= i
			}
			break
		}
	}
	k.rest = bytes.Clone(out[n:])
	return n
}

// wait returns when the terminal can be read.
func (k *keyboard) wait() error {
	fds := []unix.PollFd{{Fd: int32(k.tty), Events: unix.POLLIN}, {Fd: int32(k.wake.Fd()), Events: unix.POLLIN}}
	for {
		k.mu.Lock()
		for k.suspended && !k.closed {
			k.reading = false
			k.changed.Broadcast()
			k.changed.Wait()
		}
		k.reading = true
		closed, timeout := k.closed, -1
		if k.wanted > k.passed {
			timeout = 0
		}
		k.mu.Unlock()
		if closed {
			return io.EOF
		}
		n, err := unix.Poll(fds, timeout)
		if n == 0 && err == nil {
			return errMark
		}
		if err != nil && err != unix.EINTR {
			return os.NewSyscallError("poll", err)
		}
		if n > 0 && fds[1].Revents != 0 {
			k.wake.Read(make([]byte, 64)) // there is something to read
			continue
		}
		if n > 0 && fds[0].Revents != 0 {
			return nil
		}
	}
}

// ready reports whether the terminal can be read within a time.
func (k *keyboard) ready(within time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(k.tty), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, int(within.Milliseconds()))
	return err == nil && n > 0 && fds[0].Revents&unix.POLLIN != 0
}
