package exc

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"zino/pkg/config"
	"zino/proto"
)

// Code that listens is reached by nobody, and yet can speak to itself.
func TestListening(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	for level, want := range map[string]bool{levelOff: true, levelReadOnly: false, levelWorkspace: false, levelLandlock: false} {
		if a.levelProblem(t.Context(), a.at(level)) != nil {
			continue // TestAttacks sees to it
		}
		if got := a.dialedIn(t, level); got != want {
			t.Errorf("%s: code that listens was reached: %v", level, got)
		}
	}
}

// dialedIn runs code that listens and dials it until it has ended.
func (a *arena) dialedIn(t *testing.T, level string) bool {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if _, err := a.run(t, level, "export LISTEN="+address+"\n"+attacker("listen")); err != nil {
			t.Error(err)
		}
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			<-ended
			return true
		}
		select {
		case <-ended:
			return false
		case <-tick.C:
		}
	}
}

// TestUnprivilegedAttacks has TestAttacks run once more as a user without
// rights, as installations do.
func TestUnprivilegedAttacks(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("TestAttacks has just done this")
		TestAttacks(t)
		return
	}
	dir := shortDir(t)
	if err := errors.Join(os.Chown(dir, 61234, 61234), os.Chmod(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	out, err := asUser(61234, dir, "-test.run=^TestAttacks$|^TestLimits$", "-test.v")
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// Limits that can be enforced are; those that cannot are told.
func TestLimits(t *testing.T) {
	t.Parallel()
	a := newArena(t, func(c *config.Exc) { c.MemoryMax, c.TasksMax, c.Timeout = 600<<20, 100, 10 }) // the race detector takes 400 MiB itself
	a.ceiling = 4 << 20
	tests := []struct {
		name, code, limit string
		stopped           func(r proto.Result, confined bool) bool // what is to be expected
	}{
		{"memory", `perl -e '$x = "a" x 800_000_000; print "pwned\n"'`, "memory", func(r proto.Result, confined bool) bool { return confined || !unlimited(r, "memory") }},
		{"tasks", `perl -e 'for (1..300) { my $p = fork; defined $p or exit 1; $p or do { sleep 100; exit } } print "pwned\n"'`, "tasks", func(r proto.Result, _ bool) bool { return !unlimited(r, "tasks") }},
	}
	for _, level := range []string{levelOff, levelWorkspace} {
		if a.levelProblem(t.Context(), level) != nil {
			continue
		}
		for _, tt := range tests {
			r, err := a.run(t, level, tt.code)
			if stopped := !strings.Contains(r.Stdout, pwned); err != nil || stopped != tt.stopped(r, level != levelOff) {
				t.Errorf("%s at %s: stopped %v, %v\n%+v %+v", tt.name, level, stopped, err, r, r.Confinement)
			}
			t.Logf("%s at %s: unlimited %v, stopped %v", tt.name, level, unlimited(r, tt.limit), !strings.Contains(r.Stdout, pwned))
		}
	}
}

// asUser runs this test program as another user.
func asUser(uid uint32, dir string, args ...string) (string, error) {
	cmd := testProgram(dir, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
