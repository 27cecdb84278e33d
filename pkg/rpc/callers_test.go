package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/pkg/zinotest/rpctest"
	"zino/proto"
)

// user is the user of a connecting thread; nil is the user of this process.
type user struct {
	uid, gid int
	groups   []uint32
}

// dialAs connects as another user. The kernel records the user of the thread, so
// only a thread changes its user; it ends with its goroutine.
func dialAs(t *testing.T, who *user, path string) *rpctest.Conn {
	t.Helper()
	type dialled struct {
		nc  net.Conn
		err error
	}
	done := make(chan dialled)
	go func() {
		runtime.LockOSThread()
		if who != nil {
			if err := become(*who); err != nil {
				done <- dialled{nil, err}
				return
			}
		}
		nc, err := net.Dial("unix", path)
		done <- dialled{nc, err}
	}()
	d := <-done
	if d.err != nil {
		t.Fatal(d.err)
	}
	t.Cleanup(func() { d.nc.Close() })
	return rpctest.NewConn(t, d.nc)
}

func become(who user) error {
	for _, call := range []struct{ number, a, b, c uintptr }{
		{syscall.SYS_SETGROUPS, uintptr(len(who.groups)), uintptr(unsafe.Pointer(unsafe.SliceData(who.groups))), 0},
		{syscall.SYS_SETRESGID, uintptr(who.gid), uintptr(who.gid), uintptr(who.gid)},
		{syscall.SYS_SETRESUID, uintptr(who.uid), uintptr(who.uid), uintptr(who.uid)},
	} {
		if _, _, errno := syscall.RawSyscall(call.number, call.a, call.b, call.c); errno != 0 {
			return errno
		}
	}
	return nil
}

// open permits every user to connect to a socket.
func open(t *testing.T, path string) {
	t.Helper()
	zinotest.Must(t, errors.Join(os.Chmod(filepath.Dir(path), 0o755), os.Chmod(path, 0o777)))
}

func many(n int) (groups []uint32) {
	for i := range n {
		groups = append(groups, uint32(70000+i))
	}
	return groups
}

// TestOnly: only callers are answered. Other users are tested only as root.
func TestOnly(t *testing.T) {
	me := os.Geteuid()
	type test struct {
		name    string
		who     *user
		callers rpc.Callers
		ok      bool
	}
	tests := []test{
		{"no callers", nil, rpc.Callers{}, false},
		{"by uid", nil, rpc.Callers{UIDs: []int{me + 1, me}}, true},
		{"by another's uid", nil, rpc.Callers{UIDs: []int{me + 1}}, false},
		{"by group", nil, rpc.Callers{GIDs: []int{os.Getegid()}}, true},
		{"by another group", nil, rpc.Callers{GIDs: []int{69999}}, false},
	}
	if me == 0 {
		tests = append(tests,
			test{"another user", &user{4001, 4001, nil}, rpc.Callers{UIDs: []int{4001}}, true},
			test{"root's group does not count", &user{4001, 0, nil}, rpc.Callers{UIDs: []int{0}}, false},
			test{"a further group", &user{4001, 4001, []uint32{7, 8}}, rpc.Callers{GIDs: []int{8}}, true},
			test{"none of the groups", &user{4001, 4001, []uint32{7, 8}}, rpc.Callers{GIDs: []int{9}}, false},
			test{"the last of very many groups", &user{4001, 4001, many(1000)}, rpc.Callers{GIDs: []int{70999}}, true},
			test{"none of very many groups", &user{4001, 4001, many(1000)}, rpc.Callers{GIDs: []int{71000}}, false},
			test{"no further group", &user{4001, 4001, []uint32{}}, rpc.Callers{GIDs: []int{0}}, false},
			test{"a user who cannot be seen", &user{65534, 65534, nil}, rpc.Callers{UIDs: []int{4001}}, false},
		)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.callers.Text = "those"
			path, _ := rpctest.New(t, "mem", "", func(s *rpc.Server) { s.Only(test.callers) })
			open(t, path)
			nc := dialAs(t, test.who, path)
			if test.ok {
				nc.Send(pingPacket)
				if got := nc.Receive(); !strings.HasPrefix(got, pongPacket) {
					t.Errorf("got %s", got)
				}
				return
			}
			refused(t, nc, test.who, path)
		})
	}
}

// refused checks that a connection gets one error, even without a request, and is
// closed.
func refused(t *testing.T, nc *rpctest.Conn, who *user, path string) {
	t.Helper()
	uid, hint := os.Geteuid(), ""
	if who != nil {
		uid = who.uid
	}
	if uid == 65534 {
		hint = " (nobody, or a user whom this service cannot see: PrivateUsers=yes in its unit hides them)"
	}
	want := fmt.Sprintf(`{"type":"error","message":"uid %d%s may not call mem on %s. Those who may: those","code":"denied","service":"mem"}`, uid, hint, path)
	if got := nc.Receive(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := nc.Receive(); got != "" {
		t.Errorf("after the error: %s", got)
	}
	nc.Send(pingPacket) // is read but not answered
	if got := nc.Receive(); got != "" {
		t.Errorf("an answer after the refusal: %s", got)
	}
}

// TestOnlyClient: a client gets the error that names the callers, not one of a
// broken connection, however much it sends.
func TestOnlyClient(t *testing.T) {
	path, _ := rpctest.New(t, "mem", "", func(s *rpc.Server) { s.Only(rpc.Callers{Text: "root"}) })
	c := rpctest.Client(t, "mem", path)
	for _, size := range []int{1, 1 << 10, 15 << 20} {
		_, err := rpc.Call(t.Context(), c, proto.MemSetSoft, proto.SetSoft{Content: strings.Repeat("x", size)})
		if !errors.Is(err, proto.ErrDenied) || !strings.HasSuffix(err.Error(), "Those who may: root") {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestOnlyMany: of many refused connections only some linger.
func TestOnlyMany(t *testing.T) {
	path, s := rpctest.New(t, "mem", "", func(s *rpc.Server) { s.Only(rpc.Callers{Text: "root"}) })
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			nc, err := net.Dial("unix", path)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { nc.Close() })
			nc.SetDeadline(time.Now().Add(20 * time.Second))
			if _, err := nc.Read(make([]byte, 4)); err != nil {
				t.Errorf("no answer: %v", err)
			}
		})
	}
	wg.Wait()
	until(t, func() bool { return s.Refused() <= 32 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("refused connections delay the drain: %v", err)
	}
	if n := s.Refused(); n != 0 {
		t.Errorf("%d are still open", n)
	}
}

// TestOnlyLog: one line a minute, with the number of refusals.
func TestOnlyLog(t *testing.T) {
	var mu sync.Mutex
	now := time.Unix(1000, 0)
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	var log bytes.Buffer
	s := rpc.NewServer("mem", slog.New(slog.NewTextHandler(&log, nil)))
	s.Only(rpc.Callers{Text: "root"})
	s.SetClock(clock)
	path := serveOn(t, s)
	for range 3 {
		rpctest.Dial(t, path).Receive()
	}
	mu.Lock()
	now = now.Add(time.Minute)
	mu.Unlock()
	rpctest.Dial(t, path).Receive()
	zinotest.Must(t, s.Shutdown(t.Context()))
	text := log.String()
	if strings.Count(text, "caller refused") != 2 || !strings.Contains(text, "refused=1\n") || !strings.Contains(text, "refused=3\n") {
		t.Errorf("the log:\n%s", text)
	}
	if want := fmt.Sprintf("uid=%d pid=%d", os.Geteuid(), os.Getpid()); strings.Count(text, want) != 2 {
		t.Errorf("no %s in the log:\n%s", want, text)
	}
}

// TestOnlyUnknown: peers whose user the kernel does not report are refused.
func TestOnlyUnknown(t *testing.T) {
	s := rpc.NewServer("mem", slog.New(slog.DiscardHandler))
	s.Only(rpc.Callers{UIDs: []int{0, os.Geteuid()}, GIDs: []int{0, os.Getegid()}, Text: "root"})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	zinotest.Must(t, err)
	go s.Serve(l)
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	nc, err := net.Dial("tcp", l.Addr().String())
	zinotest.Must(t, err)
	defer nc.Close()
	if got := rpctest.NewConn(t, nc).Receive(); !strings.Contains(got, `"message":"uid -1 (the kernel does not say who it is) may not call mem`) {
		t.Errorf("got %s", got)
	}
}

// TestOnlyMethods: a user with some methods is denied every other one, ping included,
// and keeps its connection.
func TestOnlyMethods(t *testing.T) {
	me := os.Geteuid()
	echo := proto.Method[proto.Empty, proto.Empty]{Service: "mem", Type: "echo", Reply: "ok"}
	only := rpc.Callers{Methods: map[int][]string{me: {"echo"}, me + 1: {"ping"}}, Text: "those"}
	path, _ := rpctest.New(t, "mem", "", func(s *rpc.Server) {
		s.Only(only)
		rpc.Handle(s, echo, func(_ context.Context, in proto.Empty) (proto.Empty, error) { return in, nil })
	})
	nc := rpctest.Dial(t, path)
	for _, step := range []struct{ request, want string }{
		{`{"type":"echo"}`, `{"type":"ok"}`},
		{pingPacket, fmt.Sprintf(`{"type":"error","message":"uid %d may call only echo of mem on %s","code":"denied","service":"mem"}`, me, path)},
		{`{"type":"ec\u0068o"}`, `{"type":"ok"}`},
		{`{"type":"stats"}`, `{"type":"error","message":"uid `},
		{`{"type":"nothing"}`, `{"type":"error","message":"uid `},
	} {
		nc.Send(step.request)
		if got := nc.Receive(); !strings.HasPrefix(got, step.want) {
			t.Errorf("%s: got %s, want %s", step.request, got, step.want)
		}
	}
}
