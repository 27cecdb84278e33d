package exc

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zino/pkg/config"
	"zino/proto"
)

// attack is something that code could do to its host. All of them are done in
// one run of each level.
type attack struct {
	name string
	// code is bash. It prints "pwned" where it sees itself that it worked. It has
	// a file of its own to damage, $V, and one to make, $NEW.
	code string
	// worked looks for the damage; nil: what was printed tells.
	worked func(a *arena, h harm) bool
	// open are the levels at which nothing stops it. It must work there, which
	// shows that it is an attack at all.
	open []string
	// rootOnly attacks do nothing for users who are not root.
	rootOnly bool
}

// tableLevels are the levels of the table.
var tableLevels = []string{levelOff, levelReadOnly, levelWorkspace, levelLandlock}

var (
	onlyOff   = []string{levelOff}
	nowhere   = []string(nil)
	ifNoNames = []string{levelOff, levelLandlock}
)

// attacker is a line of bash that has the test program attack.
func attacker(way string) string {
	return fmt.Sprintf("GORACE=atexit_sleep_ms=0 %s=%q $ROOT/attacker", attackEnv, way) // it would linger
}

// harm is where to look for what an attack did.
type harm struct {
	victim, made string // paths of $V and $NEW
	printed      string
	hits         []string // under which names the arena's listeners were spoken to
}

// changed reports damage to the attack's own victim.
func changed(_ *arena, h harm) bool { return !intact(h.victim) }

// appeared reports a file that was not there.
func appeared(_ *arena, h harm) bool { return exists(h.made) }

// damaged reports damage to a file below the root.
func damaged(name string) func(*arena, harm) bool {
	return func(a *arena, _ harm) bool { return !intact(filepath.Join(a.root, name)) }
}

// made reports a file below the root that was not there.
func made(name string) func(*arena, harm) bool {
	return func(a *arena, _ harm) bool { return exists(filepath.Join(a.root, name)) }
}

// reached reports whether a listener of the arena was spoken to under a name.
func reached(name string) func(*arena, harm) bool {
	return func(_ *arena, h harm) bool { return slices.Contains(h.hits, name) }
}

// printed reports whether a text was printed.
func printed(text string) func(*arena, harm) bool {
	return func(_ *arena, h harm) bool { return strings.Contains(h.printed, text) }
}

// killed reports whether the victim died.
func killed(a *arena, _ harm) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", a.victim.Process.Pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

var attacks = []attack{
	{name: "write outside", code: `echo x >"$V"`, worked: changed, open: onlyOff},
	{name: "write by /proc/self/root", code: `echo x >/proc/self/root$V`, worked: changed, open: onlyOff},
	{name: "write by the parent's root", code: `echo x >/proc/$PPID/root$V`, worked: changed, open: onlyOff},
	{name: "write by a victim's root", code: `echo x >/proc/$VICTIM/root$V`, worked: changed, open: onlyOff},
	{name: "write by a symbolic link", code: `ln -s "$V" "$T/link" && echo x >"$T/link"`, worked: changed, open: onlyOff},
	{name: "write by a hard link", code: `ln "$V" "$T/hard" && echo x >"$T/hard"`, worked: changed, open: onlyOff},
	{name: "rename outside", code: `mv "$V" "$NEW"`, worked: changed, open: onlyOff},
	{name: "make outside", code: `touch "$NEW"`, worked: appeared, open: onlyOff},
	{name: "chmod outside", code: `chmod 0 "$V" && echo pwned && chmod 700 "$V"`, open: ifNoNames},
	{name: "write in the root", code: `touch "$ROOT/new"`, worked: made("new"), open: []string{levelOff, levelWorkspace, levelLandlock}},
	{name: "change AGENTS.md", code: `echo x >"$ROOT/AGENTS.md"; rm -f "$ROOT/AGENTS.md"`, worked: damaged("AGENTS.md"), open: ifNoNames},
	{name: "change a nested AGENTS.md", code: `cd "$ROOT/sub" && rm AGENTS.md && echo x >AGENTS.md`, worked: damaged("sub/AGENTS.md"), open: []string{levelOff, levelWorkspace, levelLandlock}},
	{name: "change a hook", code: `echo x >"$ROOT/.git/hooks/pre-push"`, worked: damaged(".git/hooks/pre-push"), open: ifNoNames},
	{name: "change .git/config", code: `echo x >"$ROOT/.git/config"`, worked: damaged(".git/config"), open: ifNoNames},
	{name: "replace .git", code: `cd "$ROOT"; mv .git moved && mkdir -p .git/hooks && echo x >.git/hooks/pre-commit`, worked: damaged(".git/hooks/pre-commit"), open: ifNoNames},
	{name: "redirect the repository", code: `echo /tmp >"$ROOT/.git/commondir"`, worked: made(".git/commondir"), open: onlyOff},
	{name: "change Zino's files", code: `echo x >"$ROOT/own/deep/config.toml"`, worked: damaged("own/deep/config.toml"), open: ifNoNames},
	{name: "replace Zino's files", code: `cd "$ROOT"; mv own owned; mkdir -p own/deep; echo x >own/deep/other.toml`, worked: damaged("own/deep/other.toml"), open: ifNoNames},
	{name: "make ZINO.toml", code: `echo x >"$ROOT/ZINO.toml"`, worked: made("ZINO.toml"), open: onlyOff},
	{name: "read ~/.ssh", code: `cat "$REALHOME/.ssh/id"`, worked: printed(secret), open: onlyOff},
	{name: "read by a victim's root", code: `cat /proc/$VICTIM/root$REALHOME/.ssh/id`, worked: printed(secret), open: onlyOff},
	{name: "read an inherited file", code: `cat <&$FD`, worked: printed(secret), open: nowhere},
	{name: "read a victim's environment", code: `cat /proc/$VICTIM/environ`, worked: printed(secret), open: onlyOff},
	{name: "read the password file", code: `head -c 5 /etc/shadow | grep . && echo pwned`, open: onlyOff, rootOnly: true},
	{name: "TCP", code: attacker("dial"), worked: reached("dial"), open: onlyOff},
	{name: "Unix socket", code: attacker("dial unix"), worked: reached("dial unix"), open: onlyOff},
	{name: "abstract socket", code: attacker("dial @"), worked: reached("dial @"), open: onlyOff},
	{name: "datagram socket", code: attacker("datagram"), worked: reached("datagram"), open: onlyOff},
	{name: "pair of sockets", code: attacker("pair"), worked: reached("pair"), open: onlyOff},
	{name: "ptrace", code: attacker("trace"), open: onlyOff},
	{name: "ptrace its supervisor", code: "UP=$PPID " + attacker("trace up"), open: onlyOff},
	{name: "kill", code: `kill -9 $VICTIM`, worked: killed, open: onlyOff},
	{name: "write to a terminal", code: `echo x >"$PTY" && echo pwned`, open: onlyOff},
	{name: "forbidden calls", code: attacker("calls"), open: onlyOff},
	{name: "namespaces of its own", code: `unshare -Urm mount -t tmpfs none /mnt && echo pwned`, open: onlyOff},
	{name: "leave the control group", code: `g=$(grep -m1 cgroup2 /proc/mounts | cut -d' ' -f2); mkdir $g/zino-test-$$ && rmdir $g/zino-test-$$ && echo pwned`, open: onlyOff, rootOnly: true},
	{name: "settings of the kernel", code: `: >>/proc/sys/kernel/hostname && echo pwned`, open: onlyOff, rootOnly: true},
	{name: "devices", code: `mknod "$T/dev" c 1 1 && echo pwned`, open: onlyOff, rootOnly: true},
	{name: "setuid programs", code: `"$ROOT/setuid" -u | grep -x 65534 && echo pwned`, open: onlyOff, rootOnly: true},
	{name: "new privileges", code: `grep -q 'NoNewPrivs:.*1' /proc/self/status || echo pwned`, open: onlyOff},
	{name: "a daemon", code: `(setsid bash -c "trap '' TERM HUP INT; (while :; do sleep 1000; done) & sleep 1000" >/dev/null 2>&1 &)`, worked: survived, open: nowhere},
}

// volley is the code of all attacks, and what its victims are.
func (a *arena) volley(t *testing.T) (code string, harms []harm) {
	t.Helper()
	var b strings.Builder
	b.WriteString(a.env() + "T=$(mktemp -d)\n")
	for i, x := range attacks {
		h := harm{victim: filepath.Join(a.outside, fmt.Sprint("victim", i)), made: filepath.Join(a.outside, fmt.Sprint("new", i))}
		mustWrite(t, h.victim, "intact\n")
		harms = append(harms, h)
		if !x.rootOnly || os.Geteuid() == 0 {
			fmt.Fprintf(&b, "echo '@@%d'; ( V=%s NEW=%s\n%s\n) 2>&1\n", i, h.victim, h.made, x.code)
		}
	}
	b.WriteString("echo '@@end'; rm -rf \"$T\"\n")
	return b.String(), harms
}

// suffer has an arena be attacked at a level and gives, by the attacks' names,
// what became of them.
func suffer(t *testing.T, level string) map[string]string {
	mark(t)
	a := newArena(t, nil)
	a.makeSetuid(t)
	name := a.at(level)
	if err := a.levelProblem(t.Context(), name); err != nil {
		a.mustRefuse(t, name, err)
		return nil
	}
	code, harms := a.volley(t)
	r, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: code, Sandbox: name, Root: a.root})
	if err != nil || r.ExitCode != 0 || !strings.Contains(r.Stdout, "@@end") || r.Confinement.Sandbox != name {
		t.Errorf("%s: %+v, %v", level, r, err)
		return nil
	}
	a.look(r.Stdout, harms)
	table := map[string]string{}
	for i, x := range attacks {
		if !strings.Contains(r.Stdout, fmt.Sprintf("@@%d\n", i)) {
			continue
		}
		worked := strings.Contains(harms[i].printed, pwned)
		if x.worked != nil {
			worked = x.worked(a, harms[i])
		}
		table[x.name] = map[bool]string{true: "NOT STOPPED", false: "stopped"}[worked]
		if open := slices.Contains(x.open, level); worked != open {
			t.Errorf("%s at %s: worked %v, want %v: %s", x.name, level, worked, open, harms[i].printed)
		}
	}
	return table
}

// look notes what each attack printed, and under which names somebody came.
func (a *arena) look(stdout string, harms []harm) {
	for part := range strings.SplitSeq(stdout, "@@") {
		number, text, _ := strings.Cut(part, "\n")
		if i, err := strconv.Atoi(number); err == nil && i < len(harms) {
			harms[i].printed = text
		}
	}
	hits := a.hitsSoFar()
	for i := range harms {
		harms[i].hits = hits
	}
}

// TestAttacks holds every attack against every level.
func TestAttacks(t *testing.T) {
	tables := map[string]map[string]string{}
	for _, level := range tableLevels {
		t.Run(level, func(t *testing.T) { tables[level] = suffer(t, level) })
	}
	var all strings.Builder
	fmt.Fprintf(&all, "%-30s", "as user "+fmt.Sprint(os.Geteuid()))
	for _, level := range tableLevels {
		fmt.Fprintf(&all, "%-16s", level)
	}
	for _, x := range attacks {
		fmt.Fprintf(&all, "\n%-30s", x.name)
		for _, level := range tableLevels {
			fmt.Fprintf(&all, "%-16s", tables[level][x.name])
		}
	}
	t.Logf("\n%s", all.String())
}

// Confined code cannot kill its supervisor.
func TestKillingTheSupervisor(t *testing.T) {
	a := newArena(t, nil)
	for _, level := range tableLevels {
		name := a.at(level)
		if a.levelProblem(t.Context(), name) == nil {
			r, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: "kill -9 $PPID; exit 3", Sandbox: name, Root: a.root})
			if lost := strings.Contains(r.Stderr, "supervisor of this run was killed"); err != nil || lost != (level == levelOff) || !lost && r.ExitCode != 3 {
				t.Errorf("%s: %+v, %v", level, r, err)
			}
		}
	}
}

// survived reports whether anything of the run is left.
func survived(*arena, harm) bool {
	left, _ := filepath.Glob("/proc/[0-9]*/environ")
	return slices.ContainsFunc(left, func(file string) bool {
		env, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(env), "\x00"+markEnv+"=") && !strings.Contains(file, fmt.Sprintf("/%d/", os.Getpid()))
	})
}

// mustRefuse checks that a level that is not to be had is an error with the
// reason.
func (a *arena) mustRefuse(t *testing.T, level string, why error) {
	t.Helper()
	_, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: "echo pwned", Sandbox: level, Root: a.root})
	var e *proto.Error
	if !errors.As(err, &e) || e.Code != proto.CodeUnavailable || !strings.Contains(e.Message, why.Error()) {
		t.Errorf("%s: got %v, want the error unavailable with: %v", level, err, why)
	}
}

// makeSetuid puts a program in the root that runs as another user, if that can
// be done.
func (a *arena) makeSetuid(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	id, err := os.ReadFile("/usr/bin/id")
	file := filepath.Join(a.root, "setuid")
	if err == nil {
		err = errors.Join(os.WriteFile(file, id, 0o755), os.Chown(file, 65534, -1), unix.Chmod(file, 0o4755))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(a.root, 0o711); err != nil {
		t.Fatal(err)
	}
}

// Code that listens is reached by nobody, and yet can speak to itself.
func TestListening(t *testing.T) {
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
	a := newArena(t, func(c *config.Exc) { c.MemoryMax, c.TasksMax, c.Timeout = 256<<20, 100, 10 })
	a.floodMax = 4 << 20
	tests := []struct {
		name, code, limit string
		stopped           func(r proto.Result, confined bool) bool // what is to be expected
	}{
		{"memory", `perl -e '$x = "a" x 400_000_000; print "pwned\n"'`, "memory", func(r proto.Result, confined bool) bool { return confined || !unlimited(r, "memory") }},
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
