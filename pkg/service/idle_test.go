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
	"zino/pkg/zinotest"
)

// idle prepares a service that inherits the parent's socket and exits after limit.
func (p *parent) idle(t *testing.T, limit string, env ...string) *child {
	c := p.command(t, append(env, "LISTEN_FDS=1", "LISTEN_FDNAMES=mem")...)
	c.Args = append(c.Args, "--idle-exit", limit)
	return c
}

// TestIdleExit checks that an idle process exits although clients keep connections and
// the watchdog pings it, and that the next process answers the next client.
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
	zinotest.Must(t, <-answered)
	fed := 0
	for state := s.next(); state != "STOPPING=1"; state = s.next() {
		if state == "WATCHDOG=1" {
			fed++
		}
	}
	if fed == 0 {
		t.Error("the watchdog was not notified")
	}
	c.exits(0)
	if !strings.Contains(c.output(), "idle: exiting") {
		t.Errorf("the log does not give the reason: %s", c.output())
	}
	go ask()
	p.idle(t, "1h").start()
	if err := <-answered; err != nil {
		t.Errorf("a request while no process runs: %v", err)
	}
}

func TestBusyProcessDoesNotIdleExit(t *testing.T) {
	p := newParent(t, "mem")
	c := p.idle(t, "30ms")
	h := holdWith(t, p.paths[0], holdRequest{}, func() { c.start() })
	looks := 0
	zinotest.Eventually(t, "the limit has passed", func() bool { looks++; return looks > 60 })
	h.gate.Close()
	zinotest.Must(t, <-h.answer)
	c.exits(0)
}

// TestIdleExitNeedsInheritedSocket checks that --idle-exit is ignored without socket
// activation: no other process would be started.
func TestIdleExitNeedsInheritedSocket(t *testing.T) {
	c := command(t, zinotest.Dir(t), socketOnly)
	c.Args = append(c.Args, "--idle-exit", "1ms")
	c.start().listening()
	c.WaitFor("--idle-exit has no effect: the socket was not handed over")
	zinotest.Must(t, call(c.socket, holdRequest{}))
	c.Signal(syscall.SIGTERM)
	c.exits(0)
}

func TestDrainWithIdleExit(t *testing.T) {
	p := newParent(t, "mem")
	c := p.idle(t, "1h").start().listening()
	h := holdOne(t, p.paths[0])
	c.Signal(syscall.SIGTERM)
	h.gate.Close()
	zinotest.Must(t, <-h.answer)
	c.exits(0)
}

// TestIdleExitUnderUse makes 200 requests at random times around the limit, while
// processes exit and start: each is answered.
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
		t.Errorf("only %d processes were started: too few for the test", n)
	}
}

// use makes a request, on a kept connection or as a client without retries.
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
	nc.SetDeadline(time.Now().Add(zinotest.Timeout))
	request := `{"type":"hold","gate":""}`
	if _, err := nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)); err != nil {
		return err
	}
	_, err = io.ReadFull(nc, make([]byte, 5))
	return err
}

// activate starts a process whenever a client waits on the socket and none runs, as
// socket activation does. It returns the number of processes.
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
			t.Errorf("process %d: %v: %s", n, err, c.output())
		}
	}
}

// waits reports whether a connection is in the queue of a socket, within 5 ms.
func waits(t *testing.T, socket *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(socket.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 5)
	if err != nil && err != unix.EINTR {
		t.Error(err)
	}
	return n > 0
}
