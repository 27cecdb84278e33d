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

// TestNotifyGone goes on where the supervisor cannot be told.
func TestNotifyGone(t *testing.T) {
	c := command(t, shortDir(t), socketOnly)
	c.Env = append(c.Env, "NOTIFY_SOCKET="+filepath.Join(c.Dir, "none"))
	c.start().listening()
	c.says("the supervisor cannot be told")
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
	go func() { watchdog(t.Context(), "mem", l.Addr().String(), discard()); close(done) }()
	t.Cleanup(func() { <-done }) // after the context of the test has ended

	answerPing(t, l)
	if told := s.next(); told != "WATCHDOG=1" {
		t.Fatalf("told %q", told)
	}
	for range 3 {
		nc := accept(t, l)
		defer nc.Close()
	}
	if told := s.rest(); len(told) > 0 {
		t.Errorf("a service that hangs is fed: %q", told)
	}
	for answered := false; !answered; { // those that were given up come first
		answerPing(t, l)
		answered = len(s.rest()) > 0
	}
}

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

func answerPing(t *testing.T, l net.Listener) {
	t.Helper()
	nc := accept(t, l)
	defer nc.Close()
	if _, err := wire.NewReader(nc).Next(); err != nil {
		return // it was given up meanwhile
	}
	frame, err := wire.AppendFrame(nil, []byte(`{"type":"pong","service":"mem","version":"dev","proto":1,"uptime_s":0}`))
	if err != nil {
		t.Fatal(err)
	}
	nc.Write(frame) // an error: it was given up meanwhile
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
			watchdog(t.Context(), "mem", "/nowhere", discard()) // returns
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
	if err := ping(t.Context(), "mem", path, patience); err != nil {
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
