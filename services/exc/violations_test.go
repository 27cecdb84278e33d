package exc

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zino/pkg/replfile"
	"zino/proto"
)

// asUserIn runs a script in a directory as the user does, without confinement,
// and gives what it printed.
func asUserIn(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", `cd "$DIR" 2>/dev/null; `+script) // which it may not be let into
	cmd.Env = append(os.Environ(), "DIR="+dir, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// intrusions are ways to get something obeyed by what lies in protected places.
// after prints what is obeyed.
var intrusions = []struct{ name, before, code, after, want string }{
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

// fixtures are intrusions into what is there: only namespaces stop them.
var fixtures = []struct{ name, before, code, after, want string }{
	{"a submodule's settings", "mkdir -p .git/modules/a; echo good >.git/modules/a/config; :>.git/modules/a/HEAD", "echo evil >>.git/modules/a/config; mv .git/modules m", "cat .git/modules/a/config", "good\n"},
	{"the directory on the way", "ln -s docs/A.md AGENTS.md; mkdir docs", "mv docs d; rmdir docs", "ls", "AGENTS.md\ndocs\n"},
	{"a work tree's settings", "mkdir -p g; echo good >g/config; echo gitdir: g >.git", "echo evil >g/config; mv g h", "cat g/config", "good\n"},
	{"Zino's own settings", "mkdir own; echo good >own/my.toml", "echo evil >>own/my.toml; mv own x", "cat own/my.toml", "good\n"},
	{"what Zino remembers", "mkdir -p data/mem; echo good >data/mem/soft", "echo evil >>data/mem/soft; :>data/mem/more; mv data d", "cat data/mem/*", "good\n"},
}

// Whatever code does, protected places mean afterwards what they meant before,
// and the caller is told.
func TestIntrusions(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	a.each(t, func(t *testing.T, level, name string) {
		if level == levelReadOnly {
			return // TestAttacks shows that nothing can be made there
		}
		for _, tt := range intrusions {
			if r := a.intrude(t, name, tt.before, tt.code, tt.after, tt.want); level == levelLandlock || !slices.Contains([]string{"replace the directory", "replace an empty .git", "lock .git", "a submodule's hooks", "a work tree's origin"}, tt.name) {
				mustTell(t, tt.name, r)
			}
		}
		for _, tt := range fixtures {
			if level == levelWorkspace {
				a.intrude(t, name, tt.before, tt.code, tt.after, tt.want)
			}
		}
	})
}

// intrude runs code in a root of its own and looks at what is obeyed there.
func (a *arena) intrude(t *testing.T, level, before, code, after, want string) proto.Result {
	t.Helper()
	root := shortDir(t)
	a.host.protected, a.host.data = []string{root + "/own/my.toml"}, []string{root + "/data/mem"}
	asUserIn(t, root, before)
	r, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Code: code, Sandbox: proto.Level(level), Root: root})
	if err != nil {
		t.Errorf("%s: %v", code, err)
		return r
	}
	if got := asUserIn(t, root, "("+after+") 2>/dev/null || true"); got != want {
		t.Errorf("%s: %q is obeyed, want %q\n%+v %+v", code, got, want, r, r.Confinement)
	}
	return r
}

// mustTell checks that a result names what was moved aside.
func mustTell(t *testing.T, name string, r proto.Result) {
	t.Helper()
	if r.Confinement == nil || len(r.Confinement.Refused) == 0 {
		t.Errorf("%s: the caller is not told: %+v", name, r)
		return
	}
	for _, refused := range r.Confinement.Refused {
		if !strings.Contains(refused, ".refused-") || !strings.Contains(r.Stderr, " is now "+refused+":") {
			t.Errorf("%s: %s is not in %q", name, refused, r.Stderr)
		}
	}
}

// TestUnprivilegedIntrusions has TestIntrusions run once more as a user whom
// the modes of directories stop.
func TestUnprivilegedIntrusions(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("TestIntrusions has just done this")
		TestIntrusions(t)
		return
	}
	dir := shortDir(t)
	if err := os.Chown(dir, 61234, 61234); err != nil {
		t.Fatal(err)
	}
	if out, err := asUser(61234, dir, "-test.run=^TestIntrusions$|^TestReplacedMeanwhile$", "-test.v"); err != nil || !strings.Contains(out, "--- PASS: TestIntrusions") {
		t.Errorf("%v\n%s", err, out)
	}
}

// What was made against the rules is moved aside, not lost.
func TestGuardMovesAside(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	os.Remove(a.root + "/AGENTS.md")
	if err := os.Symlink("sub/AGENTS.md", a.root+"/AGENTS.md"); err != nil {
		t.Fatal(err)
	}
	if why := a.levelProblem(t.Context(), levelWorkspace); why != nil {
		a.mustRefuse(t, levelWorkspace, why)
		return
	}
	for _, code := range []string{"rm AGENTS.md; echo mine >AGENTS.md; echo two >ZINO.toml", "ln -sf /etc/passwd AGENTS.md; mkdir ZINO.toml"} {
		r, err := a.run(t, levelWorkspace, "cd $ROOT\n"+code)
		if err != nil || len(r.Confinement.Refused) != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		if to, err := os.Readlink(a.root + "/AGENTS.md"); to != "sub/AGENTS.md" || exists(a.root+"/ZINO.toml") || !intact(a.root+"/sub/AGENTS.md") {
			t.Errorf("%s: AGENTS.md leads to %q, %v", code, to, err)
		}
		for _, name := range r.Confinement.Refused {
			if !exists(filepath.Join(a.root, name)) {
				t.Errorf("%s: %s is lost", code, name)
			}
		}
	}
	if got := asUserIn(t, a.root, "cat AGENTS.md.refused-* | grep mine; cat ZINO.toml.refused-* 2>/dev/null || true"); got != "mine\ntwo\n" {
		t.Errorf("kept: %q", got)
	}
}

// What can be given no other name is removed.
func TestGuardRemoves(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	if why := a.levelProblem(t.Context(), levelWorkspace); why != nil {
		a.mustRefuse(t, levelWorkspace, why)
		return
	}
	long := strings.Repeat("x", 250)
	a.Protect(filepath.Join(a.root, long))
	r, err := a.run(t, levelWorkspace, "cd $ROOT; mkdir "+long)
	if err != nil || exists(filepath.Join(a.root, long)) || len(r.Confinement.Refused) != 0 || !strings.Contains(r.Stderr, "was removed") {
		t.Errorf("%+v %+v, %v", r, r.Confinement, err)
	}
}

// The tool bash tells as well, and a repository that code makes is kept for the
// user to look at.
func TestRefusedRepository(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	os.RemoveAll(a.root + "/.git")
	if why := a.levelProblem(t.Context(), levelWorkspace); why != nil {
		a.mustRefuse(t, levelWorkspace, why)
		return
	}
	req := call("bash", a.root, in{"command": "git init -q . && git config user.name x && git rev-parse --git-dir"})
	req.Sandbox = levelWorkspace
	got, err := a.call(t.Context(), req, nil)
	if err != nil || len(got.Confinement.Refused) != 1 || !strings.Contains(string(got.Result), got.Confinement.Refused[0]+": only the user can") {
		t.Fatalf("%s %+v, %v", got.Result, got.Confinement, err)
	}
	if exists(a.root+"/.git") || !exists(filepath.Join(a.root, got.Confinement.Refused[0], "config")) {
		t.Error("the repository is in force, or lost")
	}
}

// The logs of zino repl are not written by confined code, by a command or a
// tool; where nothing can protect them, nothing runs.
func TestREPLDirectory(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	mustWrite(t, a.root+"/app/debug.md", replfile.Head)
	mustWrite(t, a.root+"/app/debug/page-1a2b.md", "intact\n")
	const message = "debug/ belongs to zino repl: use the tool page_eval, or append to the file outside the sandbox"
	a.each(t, func(t *testing.T, level, name string) {
		if level == levelReadOnly {
			return
		}
		for tool, input := range map[string]in{
			"bash":  {"command": "cd app; echo x >>debug/page-1a2b.md"},
			"write": {"path": "app/debug/page-1a2b.md", "content": "x"},
			"edit":  {"path": "app/debug/page-1a2b.md", "old": "intact", "new": "x"},
		} {
			want := message
			if level == levelLandlock && tool == "bash" {
				want = a.root + "/app/debug belongs to zino repl, and without namespaces it cannot be protected"
			}
			req := call(tool, a.root, input)
			req.Sandbox = proto.Level(name)
			got, err := a.call(t.Context(), req, nil)
			if err != nil || strings.Count(string(got.Result), want) != 1 || !intact(a.root+"/app/debug/page-1a2b.md") {
				t.Errorf("%s: %s, %v", tool, got.Result, err)
			}
		}
		req := call("write", a.root, in{"path": "debug/mine", "content": "x"})
		req.Sandbox = proto.Level(name)
		if got, err := a.call(t.Context(), req, nil); err != nil || !strings.HasPrefix(string(got.Result), `{"ok":true`) {
			t.Errorf("a debug/ of the project: %s, %v", got.Result, err)
		}
	})
}

// A command that needs to write .git says in one line why it failed.
func TestGitExplained(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	if why := a.levelProblem(t.Context(), levelWorkspace); why != nil {
		a.mustRefuse(t, levelWorkspace, why)
		return
	}
	root := shortDir(t)
	asUserIn(t, root, "git init -q . && git config user.name x && git config user.email x@x && echo x >a && git add a && git commit -q -m x")
	for command, want := range map[string]int{
		"echo y >a; git add a": 1, "git commit -q --allow-empty -m y": 1, "git checkout -q -b new": 1, "git init": 1, "git config a.b c": 1,
		"git tag v1": 1, "git commit --allow-empty -m y 2>&1; git tag v 2>&1; false": 1,
		"git status": 0, "git diff": 0, "git log": 0, "cat a; echo '.git/x: Read-only file system'": 0, "touch /usr/x": 0, "false": 0,
	} {
		req := call("bash", root, in{"command": command})
		req.Sandbox = levelWorkspace
		got, err := a.call(t.Context(), req, nil)
		if n := strings.Count(string(got.Result), "with --sandbox off, or ask the user"); err != nil || n != want || len(got.Confinement.Refused) > 0 {
			t.Errorf("%s: %d lines: %s, %v", command, n, got.Result, err)
		}
	}
}
