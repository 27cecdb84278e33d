package exc

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"zino/pkg/config"
	"zino/pkg/replfile"
	"zino/pkg/rpc"
	"zino/pkg/zinotest"
	"zino/proto"
	"zino/services/exc/run"
)

// refuses reports whether the file tools may not write a path below a root.
func (h *host) refuses(t *testing.T, root, name string) bool {
	t.Helper()
	set, err := h.protectedIn(root, true, nil, nil)
	zinotest.Must(t, err)
	defer set.Close()
	return set.Refusal(filepath.Join(root, name), nil) != ""
}

func TestProtect(t *testing.T) {
	s := newService(t, nil, nil)
	s.host.protected = nil
	s.Protect("/etc/zino", "", "tools")
	tools, err := filepath.Abs("tools")
	if want := []string{"/etc/zino", tools}; err != nil || !slices.Equal(s.host.protected, want) {
		t.Errorf("got %q, %v", s.host.protected, err)
	}
	for name, want := range map[string]bool{"zino": true, "zino/zino.toml": true, "zino/trust.json": true, "ZINO.toml": true, "AGENTS.md": true, ".git/x": true, "hosts": false} {
		if s.host.refuses(t, "/etc", name) != want {
			t.Errorf("/etc/%s: want %v", name, want)
		}
	}
}

// All that a configuration names is protected under its real path, and what Zino
// writes to once it exists.
func TestProtectConfig(t *testing.T) {
	s := newService(t, nil, nil)
	s.host.protected = nil
	dir := zinotest.Dir(t)
	zinotest.Must(t, os.Symlink(dir, s.dir+"/link"))
	cfg, err := config.Parse([]byte("system_prompt_file = 'mine.md'\n[mem]\nsessions_dir = 'talk'\n[api]\nkey_file = 'key'\n[skills]\npaths = ['own']\n"), s.dir+"/link/my.toml", s.dir+"/link", "exc")
	zinotest.Must(t, err)
	s.ProtectConfig(cfg)
	for _, name := range []string{".git", "AGENTS.md", "SYSTEM.md", "ZINO.toml", "key", ".agents/skills/x/SKILL.md", ".claude/settings.json", ".mcp.json", "mine.md", "my.toml", "own/pdf", "skills", "tools/x"} {
		if !s.host.refuses(t, dir, name) {
			t.Errorf("%s may be written", name)
		}
	}
	for _, name := range []string{"data/mem/soft_memory.txt", "data/rtr/usage.jsonl", "talk/x"} {
		if s.host.refuses(t, dir, name) {
			t.Errorf("%s is protected before it exists", name)
		}
		zinotest.Write(t, filepath.Join(dir, name), "x")
		if !s.host.refuses(t, dir, name) {
			t.Errorf("%s may be written", name)
		}
	}
}

// The file tools refuse what commands cannot change.
func TestFileToolsProtect(t *testing.T) {
	t.Parallel()
	s := newService(t, nil, nil)
	s.host.protected = nil
	for _, tt := range []struct{ before, path, harm string }{
		{"mkdir docs; echo good >docs/A.md; ln -s docs/A.md AGENTS.md", "AGENTS.md", "! grep -q good docs/A.md"},
		{"mkdir docs; echo good >docs/A.md; ln -s docs/A.md AGENTS.md", "docs/A.md", "! grep -q good docs/A.md"},
		{"ln -s docs/A.md AGENTS.md", "AGENTS.md", "[ -e AGENTS.md ]"},
		{"ln -s docs/A.md AGENTS.md", "docs/A.md", "[ -e AGENTS.md ]"},
		{"mkdir g.git; ln -s g.git .git", ".git/config", "[ -e .git/config ]"},
		{"mkdir g.git; ln -s g.git .git", "g.git/config", "[ -e .git/config ]"},
		{"mkdir .git githooks; ln -s ../githooks .git/hooks", ".git/hooks/pre-commit", "[ -e githooks/pre-commit ]"},
		{"mkdir .git githooks; ln -s ../githooks .git/hooks", "githooks/pre-commit", "[ -e githooks/pre-commit ]"},
		{"mkdir -p .git/modules/a; :>.git/modules/a/HEAD", ".git/modules/a/config", "[ -e .git/modules/a/config ]"},
		{"true", ".git/hooks/pre-commit", "[ -e .git ]"},
		{"ln -s . here", "here/.git/hooks/pre-commit", "[ -e .git ]"},
		{"mkdir a; ln -s a b", "b/../.git/x/y", "[ -e .git ]"},
		{"true", ".git", "[ -e .git ]"},
	} {
		dir := zinotest.Dir(t)
		shellIn(t, dir, tt.before)
		got := s.toolIn(t, proto.LevelWorkspaceWrite, dir, "write", in{"path": tt.path, "content": "evil\n"})
		if harmed := shellIn(t, dir, tt.harm+" && echo harmed || true"); !strings.Contains(got, `"code":"denied"`) || harmed != "" {
			t.Errorf("%s: write %s: %s %s", tt.before, tt.path, got, harmed)
		}
	}
}

// shellIn runs a script in a directory without a sandbox and returns its output.
func shellIn(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", `cd "$DIR" 2>/dev/null; `+script) // which it may not enter
	cmd.Env = append(os.Environ(), "DIR="+dir, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// violations change protected files. after prints what is in force in the root.
var violations = []struct{ name, before, code, after, want string }{
	{"make AGENTS.md", "", "echo evil >AGENTS.md", "cat AGENTS.md", ""},
	{"a directory", "", "mkdir AGENTS.md; echo evil >AGENTS.md/x; chmod 0 AGENTS.md", "ls -d AGENTS.md", ""},
	{"take the names", "", "for i in $(seq 99); do :>AGENTS.md.refused-$i; done; echo evil >AGENTS.md", "cat AGENTS.md", ""},
	{"lock the root", "", "echo evil >AGENTS.md; echo evil >ZINO.toml; chmod 555 .", "cat AGENTS.md ZINO.toml; stat -c %a .", "555\n"},
	{"shut the root", "", "echo evil >AGENTS.md; chmod 0 .", "stat -c %a $DIR; chmod 700 $DIR; cat $DIR/AGENTS.md", "0\n"},
	{"lock .git", "mkdir .git", "mkdir .git/hooks; echo evil >.git/hooks/x; chmod 555 .git", "cat .git/hooks/x", ""},
	{"what a link leads to", "ln -s docs.md AGENTS.md", "echo evil >docs.md", "cat AGENTS.md", ""},
	{"another link", "ln -s docs.md AGENTS.md; echo good >docs.md", "echo evil >e; ln -sf e AGENTS.md", "cat AGENTS.md", "good\n"},
	{"a file for the link", "ln -s docs.md AGENTS.md; echo good >docs.md", "rm AGENTS.md; echo evil >AGENTS.md", "cat AGENTS.md", "good\n"},
	{"a link on the way", "ln -s docs/A.md AGENTS.md", "mkdir real; echo evil >real/A.md; ln -s real docs", "cat AGENTS.md", ""},
	{"a link of links", "ln -s a AGENTS.md; ln -s b a; ln -s docs/c b", "mkdir docs; echo evil >docs/c", "cat AGENTS.md", ""},
	{"replace the directory", "ln -s docs/A.md AGENTS.md; mkdir docs real", "mv docs d; echo evil >real/A.md; ln -s real docs", "cat AGENTS.md", ""},
	{"replace an empty .git", "mkdir .git", "mv .git g; mkdir -p ev/.git; echo evil >ev/.git/config; ln -s ev/.git .git", "cat .git/config", ""},
	{"make .git", "", "mkdir -p .git/hooks; echo evil >.git/config", "cat .git/config", ""},
	{"make .git a file", "", "mkdir ev; echo evil >ev/config; echo gitdir: ev >.git", "cat .git", ""},
	{"a submodule's hooks", "mkdir -p .git/modules/a; :>.git/modules/a/HEAD", "mkdir .git/modules/a/hooks; echo evil >.git/modules/a/hooks/x", "cat .git/modules/a/hooks/x", ""},
	{"a work tree's origin", "mkdir -p .git/worktrees/w; :>.git/worktrees/w/HEAD", "echo evil >.git/worktrees/w/commondir", "cat .git/worktrees/w/commondir", ""},
	{"Zino's own", "", "mkdir -p own; echo evil >own/my.toml", "cat own/my.toml", ""},
}

// violationsOfExisting change existing files, which only namespaces prevent.
var violationsOfExisting = []struct{ name, before, code, after, want string }{
	{"a submodule's settings", "mkdir -p .git/modules/a; echo good >.git/modules/a/config; :>.git/modules/a/HEAD", "echo evil >>.git/modules/a/config; mv .git/modules m", "cat .git/modules/a/config", "good\n"},
	{"the directory on the way", "ln -s docs/A.md AGENTS.md; mkdir docs", "mv docs d; rmdir docs", "ls", "AGENTS.md\ndocs\n"},
	{"a work tree's settings", "mkdir -p g; echo good >g/config; echo gitdir: g >.git", "echo evil >g/config; mv g h", "cat g/config", "good\n"},
	{"Zino's own settings", "mkdir own; echo good >own/my.toml", "echo evil >>own/my.toml; mv own x", "cat own/my.toml", "good\n"},
	{"what Zino remembers", "mkdir -p data/mem; echo good >data/mem/soft", "echo evil >>data/mem/soft; :>data/mem/more; mv data d", "cat data/mem/*", "good\n"},
}

// After a violation the protected files have the same effect as before, and the
// violation is reported.
func TestViolations(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	a.each(t, writableLevels, func(t *testing.T, level proto.Level) {
		for _, tt := range violations {
			if r := a.violate(t, level, tt.before, tt.code, tt.after, tt.want); level == levelLandlock || !slices.Contains([]string{"replace the directory", "replace an empty .git", "lock .git", "a submodule's hooks", "a work tree's origin"}, tt.name) {
				mustReport(t, tt.name, r)
			}
		}
		for _, tt := range violationsOfExisting {
			if level == proto.LevelWorkspaceWrite {
				a.violate(t, level, tt.before, tt.code, tt.after, tt.want)
			}
		}
	})
}

// violate runs code in a root of its own and compares what is in force there.
func (a *harness) violate(t *testing.T, level proto.Level, before, code, after, want string) proto.Result {
	t.Helper()
	root := zinotest.Dir(t)
	t.Cleanup(func() { _ = run.RemoveAll(root) }) // code may have locked its directories
	a.host.protected, a.host.data = []string{root + "/own/my.toml"}, []string{root + "/data/mem"}
	shellIn(t, root, before)
	r := a.runIn(t, level, root, "bash", code)
	if got := shellIn(t, root, "("+after+") 2>/dev/null || true"); got != want {
		t.Errorf("%s: %q is in force, want %q\n%+v %+v", code, got, want, r, r.Confinement)
	}
	return r
}

// mustReport checks that a result names what was quarantined.
func mustReport(t *testing.T, name string, r proto.Result) {
	t.Helper()
	if len(r.Confinement.Refused) == 0 {
		t.Errorf("%s: not reported: %+v", name, r)
	}
	for _, refused := range r.Confinement.Refused {
		if !strings.Contains(refused, ".refused-") || !strings.Contains(r.Stderr, " is now "+refused+":") {
			t.Errorf("%s: %s is not in %q", name, refused, r.Stderr)
		}
	}
}

// TestUnprivilegedViolations repeats tests as a user whom the modes of directories
// bind.
func TestUnprivilegedViolations(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("TestViolations has just done this")
		TestViolations(t)
		return
	}
	asUser(t, "TestViolations", "TestReplacedMeanwhile")
}

// A quarantined file is kept for the user.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	os.Remove(a.root + "/AGENTS.md")
	zinotest.Must(t, os.Symlink("sub/AGENTS.md", a.root+"/AGENTS.md"))
	if !a.available(t, proto.LevelWorkspaceWrite) {
		return
	}
	for _, code := range []string{"rm AGENTS.md; echo mine >AGENTS.md; echo two >ZINO.toml", "ln -sf /etc/passwd AGENTS.md; mkdir ZINO.toml"} {
		r := a.run(t, proto.LevelWorkspaceWrite, "cd $ROOT\n"+code)
		if len(r.Confinement.Refused) != 2 {
			t.Fatalf("%+v", r)
		}
		if to, err := os.Readlink(a.root + "/AGENTS.md"); to != "sub/AGENTS.md" || exists(a.root+"/ZINO.toml") || !intact(a.root+"/sub/AGENTS.md") {
			t.Errorf("%s: AGENTS.md leads to %q, %v", code, to, err)
		}
		for _, name := range r.Confinement.Refused {
			if !exists(filepath.Join(a.root, name)) {
				t.Errorf("%s: %s is gone", code, name)
			}
		}
	}
	if got := shellIn(t, a.root, "cat AGENTS.md.refused-* | grep mine; cat ZINO.toml.refused-* 2>/dev/null || true"); got != "mine\ntwo\n" {
		t.Errorf("kept: %q", got)
	}
	// A file that cannot be renamed is removed.
	long := strings.Repeat("x", 250)
	a.Protect(filepath.Join(a.root, long))
	r := a.run(t, proto.LevelWorkspaceWrite, "cd $ROOT; mkdir "+long)
	if exists(filepath.Join(a.root, long)) || len(r.Confinement.Refused) != 0 || !strings.Contains(r.Stderr, "was removed") {
		t.Errorf("%+v %+v", r, r.Confinement)
	}
	// The tool bash reports violations, too, and a repository that code makes is kept.
	zinotest.Must(t, os.RemoveAll(a.root+"/.git"))
	req := call("bash", a.root, in{"command": "git init -q . && git config user.name x && git rev-parse --git-dir"})
	req.Sandbox = proto.LevelWorkspaceWrite
	got, err := a.call(t.Context(), req, nil)
	if err != nil || len(got.Confinement.Refused) != 1 || !strings.Contains(string(got.Result), got.Confinement.Refused[0]+": only the user can") {
		t.Fatalf("%s %+v, %v", got.Result, got.Confinement, err)
	}
	if exists(a.root+"/.git") || !exists(filepath.Join(a.root, got.Confinement.Refused[0], "config")) {
		t.Error("the repository is in force, or gone")
	}
}

// replMessage is the text of the contract for a refused write to a REPL directory.
const replMessage = "debug/ belongs to zino repl: use the tool page_eval, or append to the file outside the sandbox"

// Confined code cannot write the logs of zino repl, by a command or a tool, and reads
// why. Where they cannot be protected, nothing runs. A debug/ without a registry is
// the project's.
func TestREPLDirectory(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	zinotest.Write(t, a.root+"/app/debug.md", replfile.Head)
	zinotest.Write(t, a.root+"/app/debug/page-1a2b.md", "intact\n")
	zinotest.Write(t, a.root+"/app/debug/page-1a2b/1.txt", "intact\n")
	zinotest.Write(t, a.root+"/debug/mine.md", "intact\n")
	zinotest.Write(t, a.root+"/debug.md", "notes of the project\n")
	calls := []struct {
		tool  string
		input in
	}{
		{"bash", in{"command": "cd app; echo x >>debug/page-1a2b.md"}},
		{"bash", in{"command": "cd app/debug; echo x >>page-1a2b.md"}},
		{"bash", in{"command": "echo x >$PWD/app/debug/new-3c4d.md"}},
		{"bash", in{"command": "echo x >>app/debug/page-1a2b/1.txt"}},
		{"bash", in{"command": "echo x >app/debug.md"}},
		{"write", in{"path": "app/debug/page-1a2b.md", "content": "x"}},
		{"write", in{"path": "app/debug/page-1a2b/1.txt", "content": "x"}},
		{"write", in{"path": "app/debug.md", "content": "x"}},
		{"edit", in{"path": "app/debug/page-1a2b.md", "old": "intact", "new": "x"}},
	}
	a.each(t, confinedLevels, func(t *testing.T, level proto.Level) {
		for _, c := range calls {
			want := replMessage
			if level == levelLandlock && c.tool == "bash" {
				want = a.root + "/app/debug belongs to zino repl, and without namespaces it cannot be protected"
			}
			if got := a.tool(t, level, c.tool, c.input); strings.Count(got, want) != 1 {
				t.Errorf("%s %v: %s", c.tool, c.input, got)
			}
		}
		if !intact(a.root+"/app/debug/page-1a2b.md") || !intact(a.root+"/app/debug/page-1a2b/1.txt") || exists(a.root+"/app/debug/new-3c4d.md") {
			t.Error("a log has changed")
		}
		if level == proto.LevelReadOnly {
			if got := a.tool(t, level, "write", in{"path": "debug/mine.md", "content": "x"}); strings.Contains(got, "zino repl") {
				t.Errorf("a debug/ of the project: %s", got)
			}
			return
		}
		if got := a.tool(t, level, "write", in{"path": "debug/mine.md", "content": "x"}); !strings.HasPrefix(got, `{"ok":true`) {
			t.Errorf("a debug/ of the project: %s", got)
		}
	})
}

// The reason is found without namespaces, too, where the kernel's error is another
// one, and only where a line names a REPL directory.
func TestREPLDirectoryReadOnlyLandlock(t *testing.T) {
	a := newHarness(t, nil)
	zinotest.Write(t, a.root+"/debug.md", replfile.Head)
	zinotest.Write(t, a.root+"/debug/page-1a2b.md", "intact\n")
	if !a.available(t, levelLandlock) {
		return
	}
	for command, want := range map[string]int{"echo x >>debug/page-1a2b.md": 1, "echo x >other": 0} {
		if got := a.toolIn(t, proto.LevelReadOnly, a.root, "bash", in{"command": command}); strings.Count(got, replMessage) != want {
			t.Errorf("%s: %s", command, got)
		}
	}
	if !intact(a.root + "/debug/page-1a2b.md") {
		t.Error("a log has changed")
	}
}

// Ways around the protection: other names of a log, a registry that is a symbolic
// link, logs that do not exist yet, and a root in the logs.
func TestREPLDirectoryAttacks(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	if !a.available(t, proto.LevelWorkspaceWrite) {
		return
	}
	for name, tt := range map[string]struct{ before, code, after string }{
		"hard link to a log":        {"mkdir -p a/debug b/c; echo good >a/debug/p-1a2b.md; ln a/debug/p-1a2b.md b/c/other", "echo evil >>b/c/other", "cat a/debug/p-1a2b.md"},
		"hard link to the registry": {"mkdir -p a/debug; ln a/debug.md other; echo good >a/debug/p-1a2b.md", "echo evil >other; echo evil >>a/debug/p-1a2b.md", "cat a/debug/p-1a2b.md; cmp other a/debug.md"},
		"a new hard link":           {"mkdir -p a/debug; echo good >a/debug/p-1a2b.md", "ln a/debug/p-1a2b.md other; echo evil >>other", "cat a/debug/p-1a2b.md"},
		"registry as symbolic link": {"mkdir -p a/debug; mv a/debug.md r; ln -s ../r a/debug.md; echo good >a/debug/p-1a2b.md", "echo evil >>a/debug/p-1a2b.md; echo evil >r", "cat a/debug/p-1a2b.md; cmp r a/debug.md"},
		"logs do not exist":         {"true", "mkdir a/debug; echo evil >a/debug/p-1a2b.md", "ls a/debug; echo good"},
		"move the logs":             {"mkdir -p a/debug; echo good >a/debug/p-1a2b.md", "mv a/debug b; mv a c; rm -rf a; echo evil >>a/debug/p-1a2b.md", "cat a/debug/p-1a2b.md"},
		"remove the registry":       {"mkdir -p a/debug; echo good >a/debug/p-1a2b.md", "rm -f a/debug.md; mv a/debug.md x; >a/debug.md", "cat a/debug/p-1a2b.md; test -s a/debug.md"},
		"a copy is made":            {"mkdir -p a/debug; echo good >a/debug/p-1a2b.md", "cp -r a b; echo evil >>a/debug/p-1a2b.md", "cat a/debug/p-1a2b.md b/debug/p-1a2b.md | uniq"},
	} {
		root := zinotest.Dir(t)
		zinotest.Write(t, root+"/a/debug.md", replfile.Head)
		shellIn(t, root, tt.before)
		a.toolIn(t, proto.LevelWorkspaceWrite, root, "bash", in{"command": tt.code})
		if got := shellIn(t, root, tt.after); got != "good\n" {
			t.Errorf("%s: %q", name, got)
		}
	}
	// A directory that a run itself makes a REPL directory is protected from the next.
	root := zinotest.Dir(t)
	zinotest.Write(t, root+"/head", replfile.Head)
	a.toolIn(t, proto.LevelWorkspaceWrite, root, "bash", in{"command": "mkdir debug; cp head debug.md; echo good >debug/p-1a2b.md"})
	if got := a.toolIn(t, proto.LevelWorkspaceWrite, root, "bash", in{"command": "echo evil >>debug/p-1a2b.md"}); strings.Count(got, replMessage) != 1 {
		t.Errorf("the next run: %s", got)
	}
	// Code cannot work in the logs themselves.
	for _, below := range []string{"/debug", "/debug/p-1a2b"} {
		shellIn(t, root, "mkdir -p debug/p-1a2b")
		for _, got := range []string{
			a.toolIn(t, proto.LevelWorkspaceWrite, root+below, "bash", in{"command": "echo evil >>p-1a2b.md"}),
			a.toolIn(t, proto.LevelWorkspaceWrite, root+below, "write", in{"path": "p-1a2b.md", "content": "evil"}),
		} {
			if strings.Count(got, replMessage) != 1 {
				t.Errorf("a root %s: %s", below, got)
			}
		}
	}
	zinotest.Equal(t, "the log", shellIn(t, root, "cat debug/p-1a2b.md"), "good\n")
}

// The result of a command that needs to write .git says in one line why it failed.
func TestGitExplained(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	if !a.available(t, proto.LevelWorkspaceWrite) {
		return
	}
	root := zinotest.Dir(t)
	shellIn(t, root, "git init -q . && git config user.name x && git config user.email x@x && echo x >a && git add a && git commit -q -m x")
	for command, want := range map[string]int{
		"echo y >a; git add a": 1, "git commit -q --allow-empty -m y": 1, "git checkout -q -b new": 1, "git init": 1, "git config a.b c": 1,
		"git tag v1": 1, "git commit --allow-empty -m y 2>&1; git tag v 2>&1; false": 1,
		"git status": 0, "git diff": 0, "git log": 0, "cat a; echo '.git/x: Read-only file system'": 0, "touch /usr/x": 0, "false": 0,
	} {
		req := call("bash", root, in{"command": command})
		req.Sandbox = proto.LevelWorkspaceWrite
		got, err := a.call(t.Context(), req, nil)
		if n := strings.Count(string(got.Result), "with --sandbox off, or ask the user"); err != nil || n != want || len(got.Confinement.Refused) > 0 {
			t.Errorf("%s: %d lines: %s, %v", command, n, got.Result, err)
		}
	}
}

// meanwhile are changes by the user while code runs in the same root.
var meanwhile = []struct{ name, before, user, code, after, want string }{
	{
		"git config", "git init -q .", "git config user.name me", `printf '[core]\nfsmonitor = evil\n' >>.git/config; echo`,
		"git config user.name; git config core.fsmonitor; ls -d .git/config.*", "me\n",
	},
	{"replace and be replaced", "echo good >AGENTS.md", "echo mine >n; mv n AGENTS.md", "echo evil >n; mv n AGENTS.md", "cat AGENTS.md AGENTS.md.refused-*", "evil\n"},
	{"replace with the same", "echo good >AGENTS.md", "echo good >n; mv n AGENTS.md", ":", "cat AGENTS.md*", "good\n"},
	{"edit in place", "echo good >AGENTS.md", "echo mine >AGENTS.md", "echo evil >AGENTS.md", "cat AGENTS.md*", "mine\n"},
	{"remove", "echo good >AGENTS.md", "rm AGENTS.md", "echo evil >AGENTS.md", "cat AGENTS.md AGENTS.md.refused-*", "evil\n"},
	{"remove for good", "echo good >AGENTS.md", "rm AGENTS.md", ":", "cat AGENTS.md*", ""},
	{"make", "", "echo mine >AGENTS.md", ":", "cat AGENTS.md; cat AGENTS.md.refused-*", "mine\n"},
	{"move a directory away", "mkdir -p .git/hooks", "mv .git/hooks h", "mkdir .git/hooks; echo evil >.git/hooks/x", "cat .git/hooks/x; ls -d h", "h\n"},
	{"move all away", "mkdir -p .git/hooks", "mv .git g", "mkdir -p .git/hooks; echo evil >.git/hooks/x", "cat .git/hooks/x; ls -d g", "g\n"},
}

// A protected file that the user replaces during a run is no longer read-only for
// the run: what the run wrote is quarantined.
func TestReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	a := newHarness(t, nil)
	if !a.available(t, proto.LevelWorkspaceWrite) {
		return
	}
	for _, tt := range meanwhile {
		root := zinotest.Dir(t)
		shellIn(t, root, tt.before+"\nmkfifo ready go")
		result := make(chan proto.Result, 1)
		go func() {
			result <- a.runIn(t, proto.LevelWorkspaceWrite, root, "bash", "echo >ready; read <go\n"+tt.code)
		}()
		shellIn(t, root, "read x <ready\n"+tt.user+"\necho >go")
		r := <-result
		if got := shellIn(t, root, "("+tt.after+") 2>/dev/null || true"); got != tt.want {
			t.Errorf("%s: %q, want %q\n%+v", tt.name, got, tt.want, r)
		}
		if quarantined, err := filepath.Glob(root + "/*.refused-*"); err != nil || len(quarantined) > 0 && !strings.Contains(r.Stderr, filepath.Base(quarantined[0])) {
			t.Errorf("%s: %q is not reported in %q, %v", tt.name, quarantined, r.Stderr, err)
		}
	}
}

// The next service checks the runs of one that was killed.
func TestOpenRunsOfKilledService(t *testing.T) {
	a := newHarness(t, nil)
	if !a.available(t, proto.LevelWorkspaceWrite) {
		return
	}
	p := startPeer(t)
	root := zinotest.Dir(t)
	shellIn(t, root, "mkfifo alive; ln -s docs.md ZINO.toml")
	ended := make(chan error, 1)
	go func() {
		_, err := rpc.Call(context.Background(), p.client, proto.ExcExecute, proto.Execute{
			Executor: "bash", Root: root, Sandbox: proto.LevelWorkspaceWrite,
			Code: "exec 3>alive; echo evil >AGENTS.md; rm ZINO.toml; echo evil >docs.md; chmod 555 .; echo up >&3; sleep 1000",
		})
		ended <- err
	}()
	alive, err := os.Open(root + "/alive")
	zinotest.Must(t, err)
	defer alive.Close()
	lines := bufio.NewReader(alive)
	if line, err := lines.ReadString('\n'); line != "up\n" {
		t.Fatalf("%q, %v", line, err)
	}
	p.Kill()
	if _, err := io.Copy(io.Discard, lines); err != nil || <-ended == nil { // the end comes with that of the last process
		t.Errorf("the run: %v", err)
	}
	log := new(zinotest.Buffer)
	files, err := openWorkspace(p.dir, log.Logger())
	zinotest.Must(t, err)
	files.close()
	if to, err := os.Readlink(root + "/ZINO.toml"); exists(root+"/AGENTS.md") || exists(root+"/docs.md") || to != "docs.md" {
		t.Errorf("it is in force: %q, %v\n%s", to, err, log)
	}
	zinotest.Equal(t, "violations in the log", log.Count(".refused-"), 2)
}

// Malformed items of the list of open runs, and those of roots that are gone, are
// logged and removed.
func TestMalformedOpenRuns(t *testing.T) {
	parent := zinotest.Dir(t)
	dir := filepath.Join(parent, workspacePrefix+"dead")
	zinotest.Write(t, dir+"/1"+recordSuffix, "nonsense")
	zinotest.Write(t, dir+"/2"+recordSuffix, `{"Root":"`+parent+`/gone","Places":[]}`)
	zinotest.Must(t, unix.Mkfifo(dir+"/3", 0o600))
	log := new(zinotest.Buffer)
	files, err := openWorkspace(parent, log.Logger())
	zinotest.Must(t, err)
	files.close()
	if exists(dir) || log.Count("look at them") != 2 {
		t.Errorf("there: %v, %s", exists(dir), log)
	}
}

// A run leaves no item in the list of open runs, and no open file.
func TestRunLeavesNothing(t *testing.T) {
	a := newHarness(t, nil)
	if !a.available(t, proto.LevelWorkspaceWrite) {
		return
	}
	open := func() int {
		return len(strings.Fields(zinotest.Names(t, "/proc/self/fd")))
	}
	before := 0
	for i := range 6 {
		if i == 1 { // the first run opens what stays open
			before = open()
		}
		if r := a.run(t, proto.LevelWorkspaceWrite, "cd $ROOT; echo x >ZINO.toml; rm -rf .git/index"); len(r.Confinement.Refused) != 1 {
			t.Errorf("%+v", r)
		}
	}
	a.mustLeaveNothing(t, nil)
	if n := open(); n > before {
		t.Errorf("%d files open, %d before", n, before)
	}
}
