package exc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"zino/pkg/zinotest"
	"zino/proto"
)

// attack is something that code could do to its host. One run of each level does all
// of them.
type attack struct {
	name string
	// code is bash. It prints "pwned" where it sees itself that it worked. It has
	// a file of its own to damage, $V, and one to make, $NEW.
	code string
	// worked looks for the damage; nil: it worked if "pwned" was printed.
	worked func(a *harness, h harm) bool
	// open are the levels at which nothing stops it. It must work there, which
	// shows that it is an attack at all.
	open []proto.Level
	// rootOnly attacks do nothing for users who are not root.
	rootOnly bool
}

// tableLevels are the levels at which attacks are run.
var tableLevels = []proto.Level{proto.LevelOff, proto.LevelReadOnly, proto.LevelWorkspaceWrite, levelLandlock}

var (
	onlyOff   = []proto.Level{proto.LevelOff}
	nowhere   = []proto.Level(nil)
	ifNoNames = []proto.Level{proto.LevelOff, levelLandlock}
)

// attacker is a line of bash that has the test program attack.
func attacker(way string) string {
	return fmt.Sprintf("GORACE=atexit_sleep_ms=0 %s=%q $ROOT/attacker", attackEnv, way) // it would linger
}

// harm is what an attack did, as far as it can be seen from outside.
type harm struct {
	victim, made string // paths of $V and $NEW
	printed      string
	hits         []string // attacks that reached a listener of the harness
}

// changed reports damage to the attack's own victim.
func changed(_ *harness, h harm) bool { return !intact(h.victim) }

// appeared reports a file that was not there.
func appeared(_ *harness, h harm) bool { return exists(h.made) }

// damaged reports damage to a file below the root.
func damaged(name string) func(*harness, harm) bool {
	return func(a *harness, _ harm) bool { return !intact(filepath.Join(a.root, name)) }
}

// made reports a file below the root that was not there.
func made(name string) func(*harness, harm) bool {
	return func(a *harness, _ harm) bool { return exists(filepath.Join(a.root, name)) }
}

// reached reports whether an attack of that name reached a listener.
func reached(name string) func(*harness, harm) bool {
	return func(_ *harness, h harm) bool { return slices.Contains(h.hits, name) }
}

// printed reports whether a text was printed.
func printed(text string) func(*harness, harm) bool {
	return func(_ *harness, h harm) bool { return strings.Contains(h.printed, text) }
}

// killed reports whether the victim died.
func killed(a *harness, _ harm) bool { return zinotest.Gone(a.victim.Process.Pid) }

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
	{name: "write in the root", code: `touch "$ROOT/new"`, worked: made("new"), open: []proto.Level{proto.LevelOff, proto.LevelWorkspaceWrite, levelLandlock}},
	{name: "change AGENTS.md", code: `echo x >"$ROOT/AGENTS.md"; rm -f "$ROOT/AGENTS.md"`, worked: damaged("AGENTS.md"), open: onlyOff},
	{name: "change a nested AGENTS.md", code: `cd "$ROOT/sub" && rm AGENTS.md && echo x >AGENTS.md`, worked: damaged("sub/AGENTS.md"), open: onlyOff},
	{name: "make a nested AGENTS.md", code: `mkdir "$ROOT/sub2"; echo x >"$ROOT/sub2/AGENTS.md"`, worked: made("sub2/AGENTS.md"), open: onlyOff},
	{name: "change AGENTS.md by a hard link", code: `echo x >"$ROOT/hard.md"`, worked: damaged("linked/AGENTS.md"), open: onlyOff},
	{name: "change .mcp.json", code: `echo x >"$ROOT/.mcp.json"`, worked: damaged(".mcp.json"), open: onlyOff},
	{name: "change .claude", code: `echo x >"$ROOT/.claude/settings.json"`, worked: damaged(".claude/settings.json"), open: onlyOff},
	{name: "change .agents", code: `cd "$ROOT"; mv .agents a; cp -r a .agents; echo x >.agents/skill`, worked: damaged(".agents/skill"), open: onlyOff},
	{name: "make .gitmodules", code: `echo x >"$ROOT/.gitmodules"`, worked: made(".gitmodules"), open: onlyOff},
	{name: "make a nested repository", code: `mkdir -p "$ROOT/deep/er/.git"`, worked: made("deep/er/.git"), open: onlyOff},
	{name: "make the root a repository", code: `cd "$ROOT"; mkdir objects refs; touch HEAD`, worked: made("HEAD"), open: onlyOff},
	{name: "change a hook", code: `echo x >"$ROOT/.git/hooks/pre-push"`, worked: damaged(".git/hooks/pre-push"), open: onlyOff},
	{name: "change .git/config", code: `echo x >"$ROOT/.git/config"`, worked: damaged(".git/config"), open: onlyOff},
	{name: "replace .git", code: `cd "$ROOT"; mv .git moved && mkdir -p .git/hooks && echo x >.git/hooks/pre-commit`, worked: damaged(".git/hooks/pre-commit"), open: onlyOff},
	{name: "redirect the repository", code: `echo /tmp >"$ROOT/.git/commondir"`, worked: made(".git/commondir"), open: onlyOff},
	{name: "change Zino's files", code: `echo x >"$ROOT/own/deep/config.toml"`, worked: damaged("own/deep/config.toml"), open: onlyOff},
	{name: "replace Zino's files", code: `cd "$ROOT"; mv own owned; mkdir -p own/deep; echo x >own/deep/other.toml`, worked: damaged("own/deep/other.toml"), open: onlyOff},
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
	{name: "limits of others", code: attacker("limits"), open: onlyOff},
	{name: "limits of its supervisor", code: "UP=$PPID " + attacker("limits up"), open: onlyOff},
	{name: "schedule of others", code: attacker("schedule"), open: onlyOff},
	{name: "write to a terminal", code: `echo x >"$PTY" && echo pwned`, open: onlyOff},
	{name: "forbidden calls", code: attacker("calls"), open: onlyOff},
	{name: "namespaces of its own", code: `unshare -Urm mount -t tmpfs none /mnt && echo pwned`, open: onlyOff},
	{name: "leave the control group", code: `g=$(grep -m1 cgroup2 /proc/mounts | cut -d' ' -f2); mkdir $g/zino-test-$$ && rmdir $g/zino-test-$$ && echo pwned`, open: onlyOff, rootOnly: true},
	{name: "settings of the kernel", code: `: >>/proc/sys/kernel/hostname && echo pwned`, open: onlyOff, rootOnly: true},
	{name: "devices", code: `mknod "$T/dev" c 1 1 && echo pwned`, open: onlyOff, rootOnly: true},
	{name: "change a device", code: `chmod 667 /dev/null && echo pwned; chmod 666 /dev/null`, open: ifNoNames, rootOnly: true},
	{name: "change the input's device", code: `python3 -c 'import os
os.fchmod(0, 0o667)
os.fchmod(0, 0o666)
print("pwned")'`, open: ifNoNames, rootOnly: true},
	{name: "touch the input's device", code: `python3 -c 'import os
os.utime(0)
print("pwned")'`, open: ifNoNames},
	{name: "setuid programs", code: `"$ROOT/setuid" -u | grep -x 65534 && echo pwned`, open: onlyOff, rootOnly: true},
	{name: "new privileges", code: `grep -q 'NoNewPrivs:.*1' /proc/self/status || echo pwned`, open: onlyOff},
	{name: "a daemon", code: `(setsid bash -c "trap '' TERM HUP INT; (while :; do sleep 1000; done) & sleep 1000" >/dev/null 2>&1 &)`, worked: survived, open: nowhere},
}

// survived reports whether a process of the run is left.
func survived(a *harness, _ harm) bool { return len(a.marked()) > 0 }

// matrix is the code of all attacks, with their victims.
func (a *harness) matrix(t *testing.T) (code string, harms []harm) {
	t.Helper()
	var b strings.Builder
	b.WriteString("T=$(mktemp -d)\n")
	for i, x := range attacks {
		h := harm{victim: filepath.Join(a.outside, fmt.Sprint("victim", i)), made: filepath.Join(a.outside, fmt.Sprint("new", i))}
		zinotest.Write(t, h.victim, "intact\n")
		harms = append(harms, h)
		if !x.rootOnly || os.Geteuid() == 0 {
			fmt.Fprintf(&b, "echo '@@%d'; ( V=%s NEW=%s\n%s\n) 2>&1\n", i, h.victim, h.made, x.code)
		}
	}
	b.WriteString("echo '@@end'; rm -rf \"$T\"\n")
	return b.String(), harms
}

// runAttacks runs all attacks at a level and returns the results by their names.
func runAttacks(t *testing.T, level proto.Level) map[string]string {
	marked := mark(t)
	a := newHarness(t, nil)
	a.marked = marked
	a.makeSetuid(t)
	if !a.available(t, level) {
		return nil
	}
	code, harms := a.matrix(t)
	r := a.run(t, level, code)
	if r.ExitCode != 0 || !strings.Contains(r.Stdout, "@@end") || r.Confinement.Sandbox != a.at(level) {
		t.Errorf("%s: %+v", level, r)
		return nil
	}
	for part := range strings.SplitSeq(r.Stdout, "@@") {
		number, text, _ := strings.Cut(part, "\n")
		if i, err := strconv.Atoi(number); err == nil && i < len(harms) {
			harms[i].printed = text
		}
	}
	hits := a.hitsSoFar()
	table := map[string]string{}
	for i, x := range attacks {
		if !strings.Contains(r.Stdout, fmt.Sprintf("@@%d\n", i)) {
			continue
		}
		harms[i].hits = hits
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

// TestAttacks runs every attack at every level. At the level off the attacks marked
// onlyOff succeed; "a daemon" is stopped there too. The attack that off gives up on,
// a command that kills its supervisor where there is no control group, is in
// TestSupervisorKilled.
func TestAttacks(t *testing.T) {
	tables := map[proto.Level]map[string]string{}
	for _, level := range tableLevels {
		t.Run(string(level), func(t *testing.T) { tables[level] = runAttacks(t, level) })
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
	t.Parallel()
	a := newHarness(t, nil)
	a.each(t, tableLevels, func(t *testing.T, level proto.Level) {
		r := a.run(t, level, "kill -9 $PPID; exit 3")
		if lost := strings.Contains(r.Stderr, "supervisor of this run was killed"); lost == level.Confined() || !lost && r.ExitCode != 3 {
			t.Errorf("%+v", r)
		}
	})
}

// makeSetuid puts a setuid program in the root, if this process is root.
func (a *harness) makeSetuid(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	id, err := os.ReadFile("/usr/bin/id")
	zinotest.Must(t, err)
	file := filepath.Join(a.root, "setuid")
	zinotest.Must(t, errors.Join(os.WriteFile(file, id, 0o755), os.Chown(file, zinotest.Nobody, -1), unix.Chmod(file, 0o4755), os.Chmod(a.root, 0o711)))
}
