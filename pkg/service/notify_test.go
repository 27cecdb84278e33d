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
)

// supervisor is the other end of NOTIFY_SOCKET.
type supervisor struct {
	t    *testing.T
	conn *net.UnixConn
	path string
}

func newSupervisor(t *testing.T) *supervisor {
	t.Helper()
	path := filepath.Join(shortDir(t), "n")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &supervisor{t, conn, path}
}

// next is the next thing that the service told.
func (s *supervisor) next() string {
	s.t.Helper()
	if err := s.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	b := make([]byte, 256)
	n, err := s.conn.Read(b)
	if err != nil {
		s.t.Fatalf("the supervisor is told nothing: %v", err)
	}
	return string(b[:n])
}

// rest is what has been told up to now.
func (s *supervisor) rest() (told []string) {
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
			told = append(told, string(b[:n]))
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return told
}

// TestNotify tells readiness, life and the end, in this order.
func TestNotify(t *testing.T) {
	s := newSupervisor(t)
	c := command(t, shortDir(t), socketOnly)
	c.Env = append(c.Env, "NOTIFY_SOCKET="+s.path, "WATCHDOG_USEC=40000000")
	c.start()
	if told := s.next(); told != "READY=1" {
		t.Fatalf("told %q first", told)
	}
	if err := call(c.socket, holdRequest{}); err != nil {
		t.Errorf("it is ready and does not answer: %v", err)
	}
	if told := s.next(); told != "WATCHDOG=1" {
		t.Errorf("told %q second", told)
	}
	h := holdOne(t, c.socket)
	c.signal(syscall.SIGTERM)
	if told := s.next(); told != "STOPPING=1" {
		t.Errorf("told %q at the end", told)
	}
	h.gate.Close()
	if status := c.status(); status != 0 {
		t.Errorf("status %d", status)
	}
}

// TestNotReady tells nothing if there is nothing to listen on.
func TestNotReady(t *testing.T) {
	s := newSupervisor(t)
	first := serve(t)
	second := command(t, first.Dir, socketOnly)
	second.Env = append(second.Env, "NOTIFY_SOCKET="+s.path)
	second.start().status()
	if told := s.rest(); len(told) > 0 {
		t.Errorf("told %q", told)
	}
}

// TestNotifyGone goes on where cannot notify the supervisor.
func TestNotifyGone(t *testing.T) {
	c := command(t, shortDir(t), socketOnly)
	c.Env = append(c.Env, "NOTIFY_SOCKET="+filepath.Join(c.Dir, "none"))
	c.start().listening()
	c.says("cannot notify the supervisor")
	if err := call(c.socket, holdRequest{}); err != nil {
		t.Error(err)
	}
}

// TestWatchdog feeds the watchdog while the own socket answers, not when it
// accepts and says nothing, and again when it does.
func TestWatchdog(t *testing.T) {
	s := newSupervisor(t)
	l, err := Listen(filepath.Join(shortDir(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", s.path)
	t.Setenv("WATCHDOG_USEC", "100000")
	done := make(chan struct{})
	go func() { newWatchdog("mem", l.Addr().String(), discard()).watch(t.Context()); close(done) }()
	t.Cleanup(func() { <-done }) // after the context of the test has ended

	answer(t, l, pong, stats)
	if told := s.next(); told != "WATCHDOG=1" {
		t.Fatalf("told %q", told)
	}
	for range 3 {
		nc := accept(t, l)
		defer nc.Close()
	}
	for range 3 {
		answer(t, l, pong) // and no stats
	}
	if told := s.rest(); len(told) > 0 {
		t.Errorf("a service that hangs is fed: %q", told)
	}
	for answered := false; !answered; { // those that were given up come first
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
	if err := l.(*net.UnixListener).SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
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
			return // it was given up meanwhile
		}
		frame, err := wire.AppendFrame(nil, []byte(packet))
		if err != nil {
			t.Fatal(err)
		}
		nc.Write(frame) // an error: it was given up meanwhile
	}
}

// TestWatchdogStuck does not feed the watchdog of a process whose handlers are
// stuck, although it accepts and answers pings.
func TestWatchdogStuck(t *testing.T) {
	s := newSupervisor(t)
	c := command(t, shortDir(t), socketOnly)
	c.Env = append(c.Env, "NOTIFY_SOCKET="+s.path, "WATCHDOG_USEC=200000")
	c.start()
	for _, want := range []string{"READY=1", "WATCHDOG=1"} {
		if told := s.next(); told != want {
			t.Fatalf("told %q, want %q", told, want)
		}
	}
	h := holdWith(t, c.socket, holdRequest{Stuck: true})
	c.says("no answer on the service's own socket")
	s.rest()
	until(t, "it is asked again, in vain", func() bool { return strings.Count(c.said.String(), "no answer") > 2 })
	if told := s.rest(); len(told) > 0 {
		t.Errorf("a service that hangs is fed: %q", told)
	}
	h.gate.Close()
	if told := s.next(); told != "WATCHDOG=1" {
		t.Errorf("told %q when it went on", told)
	}
}

// TestWatchdogDrain feeds the watchdog of a process that is ending.
func TestWatchdogDrain(t *testing.T) {
	s := newSupervisor(t)
	c := command(t, shortDir(t), socketOnly)
	c.Env = append(c.Env, "NOTIFY_SOCKET="+s.path, "WATCHDOG_USEC=50000")
	c.start().listening()
	h := holdOne(t, c.socket)
	c.signal(syscall.SIGTERM)
	for s.next() != "STOPPING=1" {
	}
	for range 3 {
		if told := s.next(); told != "WATCHDOG=1" {
			t.Errorf("told %q", told)
		}
	}
	h.gate.Close()
	if status := c.status(); status != 0 {
		t.Errorf("status %d", status)
	}
}

// TestNotifyReload says when the configuration is read again, and when that is
// over, whatever came of it.
func TestNotifyReload(t *testing.T) {
	s := newSupervisor(t)
	c := command(t, shortDir(t), socketOnly)
	c.Env = append(c.Env, "NOTIFY_SOCKET="+s.path)
	c.start().listening()
	if told := s.next(); told != "READY=1" {
		t.Fatalf("told %q", told)
	}
	for _, text := range []string{socketOnly, "[mem\n"} {
		rewrite(t, filepath.Join(c.Dir, "ZINO.toml"), text)
		c.signal(syscall.SIGHUP)
		if told := s.next(); !strings.HasPrefix(told, "RELOADING=1\nMONOTONIC_USEC=") {
			t.Errorf("told %q", told)
		}
		if told := s.next(); told != "READY=1" {
			t.Errorf("told %q at the end", told)
		}
	}
}

// TestWatchdogOfAnother is not for this process, or not wanted at all.
func TestWatchdogOfAnother(t *testing.T) {
	for name, env := range map[string][2]string{
		"another process": {"100000", "1"},
		"none":            {"", ""},
		"no number":       {"soon", ""},
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
			if told := s.rest(); len(told) > 0 {
				t.Errorf("told %q", told)
			}
		})
	}
}

// TestListenAndServe serves in this process until the server is shut down.
func TestListenAndServe(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	server := rpc.NewServer("mem", discard())
	if _, err := ListenAndServe(server, "mem", path); err != nil {
		t.Fatal(err)
	}
	if err := (watchdog{"mem", path, 2 * patience, discard()}).ask(t.Context()); err != nil {
		t.Error(err)
	}
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket's file is still there: %v", err)
	}
	if _, err := ListenAndServe(server, "mem", "/"+strings.Repeat("x", 200)); err == nil {
		t.Error("a path that is too long is taken")
	}
}
