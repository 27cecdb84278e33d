package exc

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// survived reports whether anything of the run is left.
func survived(*arena, harm) bool {
	left, _ := filepath.Glob("/proc/[0-9]*/environ")
	return slices.ContainsFunc(left, func(file string) bool {
		env, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(env), fmt.Sprintf("\x00%s=%d-", markEnv, os.Getpid())) && !strings.Contains(file, fmt.Sprintf("/%d/", os.Getpid()))
	})
}
