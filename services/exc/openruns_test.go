package exc

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"zino/pkg/rpc"
	"zino/proto"
)

// meanwhile are things that the user does while code runs in the same root.
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

// A protected file that the user replaces during a run is no longer read-only
// for the run: it becomes what it was, and what stood there at the end is kept.
func TestReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	a := newArena(t, nil)
	if why := a.levelProblem(t.Context(), levelWorkspace); why != nil {
		a.mustRefuse(t, levelWorkspace, why)
		return
	}
	for _, tt := range meanwhile {
		root := shortDir(t)
		asUserIn(t, root, tt.before+"\nmkfifo ready go")
		told := make(chan proto.Result, 1)
		go func() {
			r, err := a.execute(t.Context(), proto.Execute{Executor: "bash", Root: root, Sandbox: levelWorkspace, Code: "echo >ready; read <go\n" + tt.code})
			if err != nil {
				t.Error(err)
			}
			told <- r
		}()
		asUserIn(t, root, "read x <ready\n"+tt.user+"\necho >go")
		r := <-told
		if got := asUserIn(t, root, "("+tt.after+") 2>/dev/null || true"); got != tt.want {
			t.Errorf("%s: %q, want %q\n%+v", tt.name, got, tt.want, r)
		}
		if aside, err := filepath.Glob(root + "/*.refused-*"); err != nil || len(aside) > 0 && !strings.Contains(r.Stderr, filepath.Base(aside[0])) {
			t.Errorf("%s: %q is not told of in %q, %v", tt.name, aside, r.Stderr, err)
		}
	}
}

// What code made in a protected place is moved aside by the next service if this
// one is killed.
func TestGuardOfKilledService(t *testing.T) {
	a := newArena(t, nil)
	if why := a.levelProblem(t.Context(), levelWorkspace); why != nil {
		a.mustRefuse(t, levelWorkspace, why)
		return
	}
	p := startPeer(t)
	root := shortDir(t)
	asUserIn(t, root, "mkfifo alive; ln -s docs.md ZINO.toml")
	ended := make(chan error, 1)
	go func() {
		_, err := rpc.Call(context.Background(), p.client, proto.ExcExecute, proto.Execute{
			Executor: "bash", Root: root, Sandbox: levelWorkspace,
			Code: "exec 3>alive; echo evil >AGENTS.md; rm ZINO.toml; echo evil >docs.md; chmod 555 .; echo up >&3; sleep 1000",
		})
		ended <- err
	}()
	alive, err := os.Open(root + "/alive")
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	lines := bufio.NewReader(alive)
	if line, err := lines.ReadString('\n'); line != "up\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.Wait()
	if _, err := io.Copy(io.Discard, lines); err != nil || <-ended == nil { // the end comes with that of the last process
		t.Errorf("the run: %v", err)
	}
	var log bytes.Buffer
	files, err := openWorkspace(p.dir, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	files.close()
	if to, err := os.Readlink(root + "/ZINO.toml"); exists(root+"/AGENTS.md") || exists(root+"/docs.md") || to != "docs.md" {
		t.Errorf("it is obeyed: %q, %v\n%s", to, err, log.String())
	}
	if n := strings.Count(log.String(), ".refused-"); n != 2 {
		t.Errorf("%d lines: %s", n, log.String())
	}
}

// A note that makes no sense, and one about a root that is gone, are told of and
// hold nothing up.
func TestGuardNotes(t *testing.T) {
	parent := shortDir(t)
	dir := filepath.Join(parent, workspacePrefix+"dead")
	mustWrite(t, dir+"/1"+recordSuffix, "nonsense")
	mustWrite(t, dir+"/2"+recordSuffix, `{"Root":"`+parent+`/gone","Places":[]}`)
	if err := unix.Mkfifo(dir+"/3", 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	files, err := openWorkspace(parent, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	files.close()
	if exists(dir) || strings.Count(log.String(), "look at them") != 2 {
		t.Errorf("there: %v, %s", exists(dir), log.String())
	}
}

// A run leaves no note and no open file behind.
func TestGuardLeavesNothing(t *testing.T) {
	a := newArena(t, nil)
	if why := a.levelProblem(t.Context(), levelWorkspace); why != nil {
		a.mustRefuse(t, levelWorkspace, why)
		return
	}
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := 0
	for i := range 6 {
		if i == 1 { // the first run has opened what is kept open
			before = open()
		}
		if r, err := a.run(t, levelWorkspace, "cd $ROOT; echo x >ZINO.toml; rm -rf .git/index"); err != nil || len(r.Confinement.Refused) != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	left, err := os.ReadDir(a.files.path())
	if n := open(); err != nil || len(left) > 0 || n > before {
		t.Errorf("%d files open, %d before; left: %v, %v", n, before, left, err)
	}
}
