package service

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/rpc"
)

// idle is a service that a parent's socket is handed over to and that ends
// when it was not used for limit.
func (p *parent) idle(t *testing.T, limit string, env ...string) *child {
	c := p.command(t, append(env, "LISTEN_FDS=1", "LISTEN_FDNAMES=mem")...)
	c.Args = append(c.Args, "--idle-exit", limit)
	return c
}

// TestIdleExit ends a process that nobody uses, although clients keep
// connections for later and the watchdog asks all the time, and leaves who
// comes then to the next one.
func TestIdleExit(t *testing.T) {
	s, p := newSupervisor(t), newParent(t, "mem")
	c := p.idle(t, "100ms", "NOTIFY_SOCKET="+s.path, "WATCHDOG_USEC=10000")
	client := &rpc.Client{Service: "mem", Path: p.paths[0]}
	defer client.Close()
	answered := make(chan error, 1)
	ask := func() {
		_, err := rpc.Call(context.Background(), client, hold, holdRequest{})
		answered <- err
	}
	go ask()
	c.start()
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	fed := 0
	for told := s.next(); told != "STOPPING=1"; told = s.next() {
		if told == "WATCHDOG=1" {
			fed++
		}
	}
	if fed == 0 {
		t.Error("the watchdog was not fed")
	}
	if status := c.status(); status != 0 {
		t.Errorf("status %d: %s", status, c.said)
	}
	if !strings.Contains(c.said.String(), "idle: exiting") {
		t.Errorf("it does not say why it ends: %s", c.said)
	}
	go ask()
	p.idle(t, "1h").start()
	if err := <-answered; err != nil {
		t.Errorf("who came when nothing ran: %v", err)
	}
}

// TestIdleExitBusy does not end a process that works on a request.
func TestIdleExitBusy(t *testing.T) {
	p := newParent(t, "mem")
	c := p.idle(t, "30ms")
	h := holdWith(t, p.paths[0], holdRequest{}, func() { c.start() })
	looks := 0
	until(t, "the limit is over", func() bool { looks++; return looks > 60 })
	h.gate.Close()
	if err := <-h.answer; err != nil {
		t.Errorf("the request in flight: %v", err)
	}
	if status := c.status(); status != 0 {
		t.Errorf("status %d: %s", status, c.said)
	}
}

// TestIdleExitOwn has no effect on a process that opened its socket itself, for
// nothing would start another.
func TestIdleExitOwn(t *testing.T) {
	c := command(t, shortDir(t), socketOnly)
	c.Args = append(c.Args, "--idle-exit", "1ms")
	c.start().listening()
	c.says("--idle-exit has no effect: the socket was not handed over")
	if err := call(c.socket, holdRequest{}); err != nil {
		t.Error(err)
	}
	c.signal(syscall.SIGTERM)
	if status := c.status(); status != 0 {
		t.Errorf("status %d: %s", status, c.said)
	}
}

// TestIdleExitSignal ends in the usual way when it is told to.
func TestIdleExitSignal(t *testing.T) {
	p := newParent(t, "mem")
	c := p.idle(t, "1h").start().listening()
	h := holdOne(t, p.paths[0])
	c.signal(syscall.SIGTERM)
	h.gate.Close()
	if err := <-h.answer; err != nil {
		t.Errorf("the request in flight: %v", err)
	}
	if status := c.status(); status != 0 {
		t.Errorf("status %d: %s", status, c.said)
	}
}

// TestIdleExitUnderUse has processes come and go while 200 requests are made at
// random moments around the limit: each is answered.
func TestIdleExitUnderUse(t *testing.T) {
	p := newParent(t, "mem")
	const limit = 10 * time.Millisecond
	enough, ended := make(chan struct{}), make(chan int)
	go func() { ended <- p.activate(t, limit, enough) }()
	client := &rpc.Client{Service: "mem", Path: p.paths[0]}
	defer client.Close()
	for range 50 {
		var users sync.WaitGroup
		for i := range 4 {
			users.Go(func() {
				<-time.After(rand.N(4 * limit))
				if err := use(t, client, i%2 == 0); err != nil {
					t.Errorf("a request was lost: %v", err)
				}
			})
		}
		users.Wait()
	}
	close(enough)
	if n := <-ended; n < 3 {
		t.Errorf("only %d processes: the test shows nothing", n)
	}
}

// use makes a request on a connection that may have been kept, or as a program
// does that knows nothing of retries.
func use(t *testing.T, client *rpc.Client, kept bool) error {
	if kept {
		_, err := rpc.Call(t.Context(), client, hold, holdRequest{})
		return err
	}
	nc, err := net.Dial("unix", client.Path)
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	request := `{"type":"hold","gate":""}`
	if _, err := nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)); err != nil {
		return err
	}
	_, err = io.ReadFull(nc, make([]byte, 5))
	return err
}

// activate does what socket activation does: it starts a process when somebody
// waits on the socket, and looks again when that has ended. It returns how many
// there were.
func (p *parent) activate(t *testing.T, limit time.Duration, enough <-chan struct{}) (n int) {
	for {
		for !waits(t, p.files[0]) {
			select {
			case <-enough:
				return n
			default:
			}
		}
		n++
		c := p.idle(t, limit.String(), "ZINO_LOG_LEVEL=ERROR")
		if err := c.Start(); err != nil {
			t.Error(err)
			return n
		}
		if err := c.Wait(); err != nil {
			t.Errorf("process %d: %v: %s", n, err, c.said)
		}
	}
}

// waits reports whether somebody is in the queue of a socket, after some
// milliseconds at most.
func waits(t *testing.T, socket *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(socket.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 5)
	if err != nil && err != unix.EINTR {
		t.Error(err)
	}
	return n > 0
}
