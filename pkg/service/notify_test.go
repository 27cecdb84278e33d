package service

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/rpc"
	"zino/pkg/wire"
	"zino/pkg/zinotest"
)

// supervisor receives the states sent to NOTIFY_SOCKET.
type supervisor struct {
	t    *testing.T
	conn *net.UnixConn
	path string
}

func newSupervisor(t *testing.T) *supervisor {
	t.Helper()
	path := filepath.Join(zinotest.Dir(t), "n")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	zinotest.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return &supervisor{t, conn, path}
}

// next waits for the next state.
func (s *supervisor) next() string {
	s.t.Helper()
	if err := s.conn.SetReadDeadline(time.Now().Add(zinotest.Timeout)); err != nil {
		s.t.Fatal(err)
	}
	b := make([]byte, 256)
	n, err := s.conn.Read(b)
	if err != nil {
		s.t.Fatalf("no state received: %v", err)
	}
	return string(b[:n])
}

// rest returns the states received and not read yet.
func (s *supervisor) rest() (states []string) {
	s.t.Helper()
	raw, err := s.conn.SyscallConn()
	if err != nil {
		s.t.Fatal(err)
	}
	b := make([]byte, 256)
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, err := syscall.Read(int(fd), b)
			if err != nil {
				return true
			}
			states = append(states, string(b[:n]))
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return states
}

func TestNotifiesReadyWatchdogStopping(t *testing.T) {
	s := newSupervisor(t)
	c := command(t, zinotest.Dir(t), socketOnly)
	c.Env = append(c.Env, "NOTIFY_SOCKET="+s.path, "WATCHDOG_USEC=40000000")
	c.start()
	if state := s.next(); state != "READY=1" {
		t.Fatalf("got state %q first", state)
	}
	if err := call(c.socket, holdRequest{}); err != nil {
		t.Errorf("ready, but does not answer: %v", err)
	}
	if state := s.next(); state != "WATCHDOG=1" {
		t.Errorf("got state %q second", state)
	}
	h := holdOne(t, c.socket)
	c.Signal(syscall.SIGTERM)
	if state := s.next(); state != "STOPPING=1" {
		t.Errorf("got state %q at the end", state)
	}
	h.gate.Close()
	c.exits(0)
}

func TestDoesNotNotifyWithoutSocket(t *testing.T) {
	s := newSupervisor(t)
	first := serve(t)
	second := command(t, first.Dir, socketOnly)
	second.Env = append(second.Env, "NOTIFY_SOCKET="+s.path)
	second.start().Exit()
	if state := s.rest(); len(state) > 0 {
		t.Errorf("got state %q", state)
	}
}

func TestServesWithoutSupervisor(t *testing.T) {
	c := command(t, zinotest.Dir(t), socketOnly)
	c.Env = append(c.Env, "NOTIFY_SOCKET="+filepath.Join(c.Dir, "none"))
	c.start().listening()
	c.WaitFor("cannot notify the supervisor")
	zinotest.Must(t, call(c.socket, holdRequest{}))
}

// TestWatchdogNeedsAnswers checks that the watchdog is notified while the service
// answers ping and stats, but not while it only accepts connections or answers pings.
func TestWatchdogNeedsAnswers(t *testing.T) {
	s := newSupervisor(t)
	l, err := Listen(filepath.Join(zinotest.Dir(t), "s"))
	zinotest.Must(t, err)
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", s.path)
	t.Setenv("WATCHDOG_USEC", "400000")
	done := make(chan struct{})
	go func() { newWatchdog("mem", l.Addr().String(), discard()).watch(t.Context()); close(done) }()
	t.Cleanup(func() { <-done }) // after the context of the test has ended

	answer(t, l, pong, stats)
	if state := s.next(); state != "WATCHDOG=1" {
		t.Fatalf("got state %q", state)
	}
	for range 3 {
		nc := accept(t, l)
		defer nc.Close()
	}
	for range 3 {
		answer(t, l, pong) // but not stats
	}
	if state := s.rest(); len(state) > 0 {
		t.Errorf("a hanging service notifies the watchdog: %q", state)
	}
	for answered := false; !answered; { // requests that timed out come first
		answer(t, l, pong, `{"type":"error","message":"no stats here","code":"unknown"}`)
		answered = len(s.rest()) > 0
	}
}

const (
	pong  = `{"type":"pong","service":"mem","version":"dev","proto":1,"uptime_s":0}`
	stats = `{"type":"stats","service":"mem","uptime_s":0,"requests":0,"errors":0,"in_flight":0,"connections":1,"heap_bytes":0,"problems":[]}`
)

func accept(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	zinotest.Must(t, l.(*net.UnixListener).SetDeadline(time.Now().Add(zinotest.Timeout)))
	nc, err := l.Accept()
	zinotest.Must(t, err)
	return nc
}

// answer accepts a connection and answers its requests with the packets.
func answer(t *testing.T, l net.Listener, packets ...string) {
	t.Helper()
	nc := accept(t, l)
	t.Cleanup(func() { nc.Close() })
	in := wire.NewReader(nc)
	for _, packet := range packets {
		if _, err := in.Next(); err != nil {
			return // timed out meanwhile
		}
		frame, err := wire.AppendFrame(nil, []byte(packet))
		zinotest.Must(t, err)
		nc.Write(frame) // an error: timed out meanwhile
	}
}

// TestWatchdogNoticesLockedState: a process with a deadlock in its handlers still
// answers pings.
func TestWatchdogNoticesLockedState(t *testing.T) {
	s := newSupervisor(t)
	c := command(t, zinotest.Dir(t), socketOnly)
	c.Env = append(c.Env, "NOTIFY_SOCKET="+s.path, "WATCHDOG_USEC=200000")
	c.start()
	for _, want := range []string{"READY=1", "WATCHDOG=1"} {
		if state := s.next(); state != want {
			t.Fatalf("got state %q, want %q", state, want)
		}
	}
	h := holdWith(t, c.socket, holdRequest{Stuck: true})
	c.WaitFor("no answer on the service's own socket")
	s.rest()
	zinotest.Eventually(t, "more checks have failed", func() bool { return strings.Count(c.output(), "no answer") > 2 })
	if state := s.rest(); len(state) > 0 {
		t.Errorf("a hanging service notifies the watchdog: %q", state)
	}
	h.gate.Close()
	if state := s.next(); state != "WATCHDOG=1" {
		t.Errorf("got state %q after the lock was released", state)
	}
}

func TestWatchdogIsNotifiedDuringDrain(t *testing.T) {
	s := newSupervisor(t)
	c := command(t, zinotest.Dir(t), socketOnly)
	c.Env = append(c.Env, "NOTIFY_SOCKET="+s.path, "WATCHDOG_USEC=50000")
	c.start().listening()
	h := holdOne(t, c.socket)
	c.Signal(syscall.SIGTERM)
	for s.next() != "STOPPING=1" {
	}
	for range 3 {
		if state := s.next(); state != "WATCHDOG=1" {
			t.Errorf("got state %q", state)
		}
	}
	h.gate.Close()
	c.exits(0)
}

// TestNotifiesReload checks that RELOADING is followed by READY, also after an error.
func TestNotifiesReload(t *testing.T) {
	s := newSupervisor(t)
	c := command(t, zinotest.Dir(t), socketOnly)
	c.Env = append(c.Env, "NOTIFY_SOCKET="+s.path)
	c.start().listening()
	if state := s.next(); state != "READY=1" {
		t.Fatalf("got state %q", state)
	}
	for _, text := range []string{socketOnly, "[mem\n"} {
		zinotest.Write(t, filepath.Join(c.Dir, "ZINO.toml"), text)
		c.Signal(syscall.SIGHUP)
		if state := s.next(); !strings.HasPrefix(state, "RELOADING=1\nMONOTONIC_USEC=") {
			t.Errorf("got state %q", state)
		}
		if state := s.next(); state != "READY=1" {
			t.Errorf("got state %q at the end", state)
		}
	}
}

func TestWatchdogIsDisabled(t *testing.T) {
	for name, env := range map[string][2]string{
		"another process": {"100000", "1"},
		"not set":         {"", ""},
		"not a number":    {"soon", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSupervisor(t)
			t.Setenv("NOTIFY_SOCKET", s.path)
			t.Setenv("WATCHDOG_USEC", env[0])
			t.Setenv("WATCHDOG_PID", env[1])
			if env[1] == "" {
				os.Unsetenv("WATCHDOG_PID")
			}
			newWatchdog("mem", "/nowhere", discard()).watch(t.Context()) // returns
			if state := s.rest(); len(state) > 0 {
				t.Errorf("got state %q", state)
			}
		})
	}
}

func TestListenAndServe(t *testing.T) {
	path := filepath.Join(zinotest.Dir(t), "s")
	server := rpc.NewServer("mem", discard())
	if _, err := ListenAndServe(server, "mem", path); err != nil {
		t.Fatal(err)
	}
	if err := (watchdog{"mem", path, 2 * zinotest.Timeout, discard()}).ask(t.Context()); err != nil {
		t.Error(err)
	}
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket's file is still there: %v", err)
	}
	if _, err := ListenAndServe(server, "mem", "/"+strings.Repeat("x", 200)); err == nil {
		t.Error("a path that is too long is accepted")
	}
}
